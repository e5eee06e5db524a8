"""From the name of a dataset to what a method is given: features, candidate labels, and the truth to judge by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import locked
from propml.corruption import SVMConfusions, corrupt
from propml.datasets import Dataset, load
from propml.datasets.catalogue import lookup
from propml.devices import cache_dir
from propml.noise import Noise
from propml.range_scaler import RangeScaler
from propml.targets import Candidates

if TYPE_CHECKING:
    from propml.benchmark.own_file import OwnFile

# Mixed into the seed of a subset, so that it does not meet the numbers with which the data itself was drawn.
SUBSET_STREAM = int.from_bytes(b"rows")
SCALINGS = ("unit-range", "none")


@dataclass(frozen=True, eq=False)
class CandidateProblem:
    """What a cell is computed on."""

    X: np.ndarray | sp.csr_array  #: shape (n_samples, n_features), as the file has them
    candidates: Candidates  #: what is trained on
    truth: np.ndarray  #: uint8, (n_samples, n_labels): what test rows are judged by; never given to a method

    def scaled(self, scaling: str) -> np.ndarray | sp.csr_array:
        """The features as a method wants them.

        ``"unit-range"`` is the paper's protocol: every feature min-max scaled to [-1, 1] over all rows, hence dense.
        ``"none"`` leaves them as they are.
        """
        if scaling == "none":
            return self.X
        return RangeScaler().fit_transform(self.X)


def has_real_candidates(dataset: str, files: Mapping[str, OwnFile] | None = None) -> bool:
    """Whether the candidates of a dataset come with it, so that there is no noise level to choose.

    ``files`` are the datasets that are a user's own.

    >>> [has_real_candidates(name) for name in ("yeastcc", "birds", "yeast", "digits-mosaic")]
    [True, False, False, False]
    """
    if files and dataset in files:
        return files[dataset].has_candidates
    entry = lookup(dataset)
    # The embedded set draws its candidates itself: they are no more real than others.
    return entry.suite != "embedded" and entry.facts[0].mean_candidates is not None


def load_problem(
    dataset: str,
    noise: Noise | None,
    seed: int,
    *,
    settings: Mapping[str, Any] | None = None,
    rows: int | None = None,
    file: OwnFile | None = None,
    verbose: bool = False,
) -> CandidateProblem:
    """The rows that have a true label, with their candidates; the same for the same arguments.

    Without noise the candidates are those of the file. The seed is that of the corruption, which takes ``settings``
    besides its level, and of the subset where ``rows`` asks for one. ``file`` is what a dataset of the user's own is
    read from. Support vector machines are kept in a cache.

    >>> problem = load_problem("digits-mosaic", Noise("flips", 0.2), seed=0, rows=50)
    >>> problem.X.shape, problem.candidates.shape
    ((50, 256), (50, 10))
    """
    data = load_truth(dataset, seed, rows, file)
    assert data.truth is not None
    if noise is None:
        if data.candidates is None:
            raise ValueError(f"{dataset} has no candidates of its own; give a noise level to make them with")
        return CandidateProblem(data.X, data.candidates, data.truth)
    arguments = {**(settings or {}), **noise.arguments()}
    if noise.kind == "svm":
        candidates = _svm_candidates(data, seed, arguments, verbose)
    else:
        candidates = corrupt(noise.kind, data.X, data.truth, labels=data.label_names, random_state=seed, **arguments)
    return CandidateProblem(data.X, candidates, data.truth)


def load_truth(dataset: str, seed: int, rows: int | None = None, file: OwnFile | None = None) -> Dataset:
    """The dataset of a problem before its corruption: what kept scores are judged by again."""
    data = load(dataset) if file is None else file.load()
    if not isinstance(data, Dataset) or data.truth is None:
        raise ValueError(f"{dataset} has no table of features with true labels; choose a dataset of tables")
    labelled = data.drop_unlabelled()
    n = labelled.X.shape[0]
    if rows is None or rows >= n:
        return labelled
    return labelled.take(np.sort(np.random.default_rng([seed, SUBSET_STREAM]).choice(n, rows, replace=False)))


def _svm_candidates(data: Dataset, seed: int, settings: dict[str, Any], verbose: bool) -> Candidates:
    folder = cache_dir() / "corruption"
    machines = SVMConfusions(random_state=seed, n_jobs=-1, cache_dir=folder, verbose=verbose, **settings)
    # Methods run side by side on one problem: the first trains the machines, the others wait and read them.
    with locked(folder / f"{data.name}-{data.X.shape[0]}-{seed}.lock"):
        machines.fit(data.X, data.truth)
    return machines.transform(data.truth, labels=data.label_names)
