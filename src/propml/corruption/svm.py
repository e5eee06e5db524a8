"""SVM confusions: false labels where a support vector machine finds them plausible.

The tabular corruption of the paper. For each label an RBF SVM is trained on the clean labels of all rows and gives
in-sample probabilities; each row gains the labels of highest probability among those that are not true. The paper
states neither kernel nor rounding: what is implemented is the procedure that reproduces its tables,

    features min-max scaled to [−1, 1];  C = 1,  γ = 1 / (n_features · var(X));
    a Platt sigmoid fitted on 5-fold cross-validated decision values, applied to those of the machine of all rows;
    floor(ratio · |Y_i|) false labels in row i.

Probabilities matter: margins, or a linear machine, give a problem that is easier by up to 6 points of average
precision.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import joblib
import numpy as np
import sklearn
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC
from sklearn.utils.validation import check_is_fitted

from propml.atomic_files import replacing
from propml.corruption.inputs import RandomState, clean_labels, dense_features, seed_of
from propml.corruption.most_probable import Rounding, add_most_probable
from propml.file_errors import FileError, reading
from propml.progress import track
from propml.range_scaler import RangeScaler
from propml.targets import Candidates

# Up to here one kernel matrix serves all labels and folds (8000 rows: 512 MB); above, each machine computes its own.
KERNEL_ROWS = 8000
FOLDS = 5
# Part of the cache key: raise it when the procedure changes.
PROCEDURE = 1


def svm_confusions(
    X: Any,
    truth: Any,
    ratio: float,
    *,
    rounding: Rounding = "paper",
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    labels: Iterable[Hashable] | None = None,
) -> Candidates:
    """Add to each row the false labels that an SVM finds most probable.

    For several ratios fit :class:`SVMConfusions` once, or pass ``cache_dir``: the machines do not depend on the ratio.

    Parameters
    ----------
    X : array-like or sparse, shape (n_samples, n_features)
        Features; scaled to [-1, 1] here. Sparse features are made dense, since the scaling leaves no zeros.
    truth : array-like of 0/1, shape (n_samples, n_labels)
        Clean labels. The paper drops rows without a true label beforehand; rows that stay are not touched.
    ratio : float
        False labels per true label.
    rounding : {"paper", "exact", "stochastic"}
        See :func:`~propml.corruption.add_most_probable`; ``"paper"`` rounds down in each row.
    random_state, labels
        As in :func:`~propml.corruption.independent_flips`; the seed decides the folds and the stochastic rounding.
    n_jobs : int, optional
        Labels that are worked on at the same time; -1 for all cores.
    cache_dir : path, optional
        Where probabilities are kept, under a key made of ``X``, ``truth`` and the settings.
    verbose : bool
        Show a progress bar.
    """
    machine = SVMConfusions(ratio, rounding, random_state, n_jobs, cache_dir, verbose)
    return machine.fit_transform(X, truth, labels=labels)


@dataclass(eq=False, repr=False)
class SVMConfusions(BaseEstimator):
    """SVM confusions as an object that is fitted once and applied with several ratios.

    The arguments are those of :func:`svm_confusions`; ``probabilities_`` ``(n_samples, n_labels)`` says how plausible
    each label is for each row.

    Examples
    --------
    >>> X = np.array([[0.0], [0.1], [0.2], [0.9], [1.0], [0.8]])
    >>> truth = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> confusions = SVMConfusions(ratio=1.0).fit(X, truth)
    >>> confusions.transform(truth).sizes()
    array([2, 2, 2, 2, 2, 2])
    >>> confusions.set_params(ratio=0.5, rounding="exact").transform(truth).sizes().sum()
    np.int64(9)
    """

    ratio: float = 1.0
    rounding: Rounding = "paper"
    random_state: RandomState = 0
    n_jobs: int | None = None
    cache_dir: str | os.PathLike[str] | None = None
    verbose: bool = False

    def fit(self, X: Any, truth: Any) -> Self:
        """Learn which labels are plausible for which rows."""
        how = {name: value for name, value in self.get_params().items() if name not in ("ratio", "rounding")}
        self.probabilities_ = svm_probabilities(X, truth, **how)
        self.n_features_in_ = int(np.shape(X)[1])
        return self

    def transform(self, truth: Any, labels: Iterable[Hashable] | None = None) -> Candidates:
        """The candidates of the rows that were fitted."""
        check_is_fitted(self, "probabilities_")
        return add_most_probable(
            truth, self.probabilities_, self.ratio, self.rounding, random_state=self.random_state, labels=labels
        )

    def fit_transform(self, X: Any, truth: Any, labels: Iterable[Hashable] | None = None) -> Candidates:
        """Fit, and give the candidates."""
        return self.fit(X, truth).transform(truth, labels)


def svm_probabilities(
    X: Any,
    truth: Any,
    *,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    verbose: bool = False,
) -> np.ndarray:
    """In-sample Platt probabilities ``(n_samples, n_labels)`` of one RBF SVM per label, for :func:`svm_confusions`.

    A label with fewer than two positive (or negative) rows gets its frequency as the probability of every row.
    """
    clean = clean_labels(truth)
    features, true = dense_features(X, clean), clean.to_matrix(bool)
    seed = seed_of(random_state)

    def compute() -> np.ndarray:
        machines = _Machines(RangeScaler().fit_transform(features))
        jobs = (joblib.delayed(machines.probabilities)(true[:, j], seed) for j in range(true.shape[1]))
        # libsvm runs without the interpreter's lock, so threads work in parallel and share the kernel.
        columns = joblib.Parallel(n_jobs=n_jobs, prefer="threads", return_as="generator")(jobs)
        shown = track(columns, "SVM per label", true.shape[1], show=verbose)
        return np.column_stack(list(shown))

    if cache_dir is None:
        return compute()
    settings = {"procedure": PROCEDURE, "folds": FOLDS, "seed": seed, "scikit-learn": sklearn.__version__}
    key = content_key({"X": features, "truth": true}, settings)
    return cached_array(cache_dir, f"svm-{key}", true.shape, compute)


class _Machines:
    """The SVMs of all labels, over one set of features and, where memory allows, one kernel matrix."""

    def __init__(self, features: np.ndarray) -> None:
        variance = features.var()
        self.features = features
        self.gamma = 1 / (features.shape[1] * variance) if variance > 0 else 1.0
        self.kernel = rbf_kernel(features, gamma=self.gamma) if len(features) <= KERNEL_ROWS else None

    def probabilities(self, positive: np.ndarray, seed: int) -> np.ndarray:
        """In-sample probabilities of one label, ``(n_samples,)``."""
        rarest = min(int(positive.sum()), int((~positive).sum()))
        if rarest < 2:
            return np.full(len(positive), positive.mean())
        held_out = np.empty(len(positive))
        folds = StratifiedKFold(min(FOLDS, rarest), shuffle=True, random_state=seed)
        for train, test in folds.split(positive, positive):
            held_out[test] = self.decisions(positive, train, test)
        everyone = np.arange(len(positive))
        slope, offset = fit_sigmoid(held_out, positive)
        return expit(-(slope * self.decisions(positive, everyone, everyone) + offset))

    def decisions(self, positive: np.ndarray, train: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Decision values on ``rows`` of the machine that is trained on ``train``."""
        # Everything was checked once; a check of the kernel in each of thousands of fits costs more than the fit.
        with sklearn.config_context(assume_finite=True):
            if self.kernel is None:
                machine = SVC(C=1.0, kernel="rbf", gamma=self.gamma).fit(self.features[train], positive[train])
                return machine.decision_function(self.features[rows])
            everyone = len(train) == len(positive)
            kernel = self.kernel if everyone else self.kernel[np.ix_(train, train)]
            machine = SVC(C=1.0, kernel="precomputed").fit(kernel, positive[train])
        support = self.kernel[np.ix_(train[machine.support_], rows)]
        return machine.dual_coef_[0] @ support + machine.intercept_[0]


# -- decision values → probabilities: Platt (1999), "Probabilistic outputs for support vector machines"; targets and the
# line search after Lin, Lin and Weng (2007), "A note on Platt's probabilistic outputs for support vector machines"


def fit_sigmoid(decisions: np.ndarray, positive: np.ndarray) -> tuple[float, float]:
    """The slope and offset of ``P(positive | f) = 1 / (1 + exp(slope * f + offset))`` of highest likelihood.

    The decisions are those of rows that the classifier did not see. About ten Newton steps are needed.
    """
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    # A little inside (0, 1), so that the sigmoid stays finite.
    targets = np.where(positive, (n_positive + 1) / (n_positive + 2), 1 / (n_negative + 2))
    design = np.stack([decisions, np.ones_like(decisions)])
    weights = np.array([0.0, np.log((n_negative + 1) / (n_positive + 1))])

    def loss_of(weights: np.ndarray) -> float:
        """The negative log likelihood −Σ t·log p + (1−t)·log(1−p), without overflow."""
        exponents = weights @ design
        return float((np.logaddexp(0, exponents) - (1 - targets) * exponents).sum())

    loss = loss_of(weights)
    for _ in range(100):
        probability = expit(-(weights @ design))
        gradient = design @ (targets - probability)
        if np.abs(gradient).max() < 1e-10 * len(positive):
            break
        hessian = (design * (probability * (1 - probability))) @ design.T
        # Least squares, since the system is singular where all decision values are equal.
        step = np.linalg.lstsq(hessian, gradient)[0]
        size = 1.0
        while (trial := loss_of(weights - size * step)) > loss - 1e-4 * size * (gradient @ step):
            size /= 2
            if size < 1e-10:
                return float(weights[0]), float(weights[1])
        weights, loss = weights - size * step, trial
    return float(weights[0]), float(weights[1])


# -- probabilities on disk, under a key made of everything they depend on


def content_key(arrays: Mapping[str, np.ndarray], settings: Mapping[str, Any]) -> str:
    """SHA-256 over the names, types, shapes and bytes of the arrays, and over the settings."""
    digest = hashlib.sha256(json.dumps(dict(settings), sort_keys=True).encode())
    for name, array in arrays.items():
        digest.update(f"|{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def cached_array(
    folder: str | os.PathLike[str], key: str, shape: tuple[int, ...], compute: Callable[[], np.ndarray]
) -> np.ndarray:
    """The float64 array stored under ``key``; where there is none, or a damaged one, it is computed and stored."""
    path = Path(folder) / f"{key}.npz"
    try:
        with reading(path, "cache file", "it is computed again"), np.load(path, allow_pickle=False) as stored:
            values = stored["values"]
            if values.shape != shape or values.dtype != np.float64:
                raise ValueError("it holds another array than its name says")
            return values
    except FileError as error:
        warnings.warn(str(error), stacklevel=2)
    except OSError:
        pass  # there is none; what is wrong with the folder is told where the array is to be stored
    values = np.asarray(compute(), dtype=np.float64)
    try:
        with replacing(path) as beside, beside.open("wb") as file:
            np.savez_compressed(file, values=values)
    except OSError as error:
        warnings.warn(
            f"nothing can be kept in the cache folder {folder} ({error.strerror or error}), so the same is computed "
            f"again next time; make room there, or choose another folder",
            stacklevel=2,
        )
    return values
