"""An experiment: which methods run on which data, how, and what is measured; the paper's are TOML files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from propml.benchmark.cell import Cell, TabularCell
from propml.benchmark.experiment_file import read_settings
from propml.benchmark.image_cell import ImageCell
from propml.benchmark.problem import OwnFile, has_real_candidates
from propml.datasets.catalogue import lookup
from propml.messages import did_you_mean
from propml.noise import Noise
from propml.paper.published import TABULAR_METRICS

# In a wheel the files are inside the package; in a checkout they are the paper's.
INSTALLED = Path(__file__).parent / "experiments"
FOLDER = INSTALLED if INSTALLED.is_dir() else Path(__file__).parents[3] / "paper"


@dataclass(frozen=True)
class Experiment:
    """What a TOML file says; see ``paper/quick.toml`` for one on tables, ``paper/vision.toml`` for one on images."""

    name: str  #: that of the file, without its ending
    title: str
    datasets: tuple[str, ...]  #: names of :func:`propml.datasets.names`, or of ``files``
    methods: tuple[Any, ...]  #: each a ``MethodEntry`` on tables, an ``ImageMethod`` on images
    noise: tuple[Noise, ...] = ()  #: datasets of tables that bring their own candidates run once, without it
    kind: str = "tables"  #: or "images", which know no corruption_settings, rows, folds, test_folds and stratified
    note: str = ""  #: what a reader of the report must know first, such as how the setting differs from the paper's
    #: By kind of noise, the arguments of the corruption besides its level, such as ``{"svm": {"rounding": "exact"}}``.
    corruption_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    files: Mapping[str, OwnFile] = field(default_factory=dict)  #: datasets that are a user's own files
    rows: int | None = None  #: use a random subset of so many
    folds: int = 5
    test_folds: int | None = None  #: test so many of the folds, the first ones; by default all
    stratified: bool = False
    seeds: tuple[int, ...] = (0,)  #: each repeats everything: subset, noise, folds or held-out images, and method
    images: Mapping[str, int] = field(default_factory=dict)  #: of images: use so many of "train" and of "test"
    selection: str = "candidates"  #: methods choose on candidates; "oracle": on the truth of the test rows
    metrics: tuple[str, ...] = TABULAR_METRICS  #: names of :data:`propml.paper.METRIC_NAMES`

    def cells(self) -> Sequence[Cell]:
        """Everything there is to compute; cells of one problem stand together."""
        if self.kind == "images":
            # Seed by seed: networks are slow, and a run that is cut off leaves whole tables of a seed.
            return [
                ImageCell(
                    *(self.name, dataset, noise, method, seed, self.metrics),
                    images=self.images,
                    selection=method.selection or self.selection,
                )
                for dataset, seed, noise, method in product(self.datasets, self.seeds, self.noise, self.methods)
            ]
        return [
            TabularCell(
                *(self.name, dataset, noise, method, seed, self.metrics),
                corruption_settings=self.corruption_settings.get(noise.kind, {}) if noise else {},
                **{name: getattr(self, name) for name in ("rows", "folds", "test_folds", "stratified")},
                selection=method.selection or self.selection,
                file=self.files.get(dataset),
            )
            for dataset in self.datasets
            for noise in ((None,) if has_real_candidates(dataset, self.files) else self.noise)
            for seed, method in product(self.seeds, self.methods)
        ]

    def narrowed(
        self,
        *,
        datasets: Iterable[str] | None = None,
        methods: Iterable[str] | None = None,
        noise: Iterable[Noise | float | str] | None = None,
        seeds: Iterable[int | str] | None = None,
    ) -> Experiment:
        """A part of the experiment; what is ``None`` stays as it is.

        Names are those of the experiment; of datasets, case and punctuation do not matter. Noise is a level (0.5), or
        what commands write (``"50"``, ``"flips 0.2"``); seeds may be written, too.
        """
        kept: dict[str, Any] = {}
        if datasets is not None:
            names = [lookup(name).name if name not in self.datasets else name for name in datasets]
            kept["datasets"] = self._part("dataset", self.datasets, names)
        if methods is not None:
            wanted = self._part("method", [entry.name for entry in self.methods], methods)
            kept["methods"] = tuple(entry for entry in self.methods if entry.name in wanted)
        if noise is not None:
            meant: dict[Any, Noise] = {each.level: each for each in self.noise if not each.named}
            meant |= {str(each): each for each in self.noise}
            kept["noise"] = self._part("noise level", self.noise, [meant.get(each, each) for each in noise])
        if seeds is not None:
            written = {str(seed): seed for seed in self.seeds}
            kept["seeds"] = self._part("seed", self.seeds, [written.get(str(seed), seed) for seed in seeds])
        return replace(self, **kept)

    def _part(self, what: str, known: Iterable[Any], wanted: Iterable[Any]) -> tuple[Any, ...]:
        """Those of the known that are wanted, in the order of the experiment."""
        known, unique = tuple(known), set(wanted)
        if not unique:
            raise ValueError(f"no {what} of {self.name} was asked for; name at least one")
        for each in sorted(unique - set(known), key=str):
            raise ValueError(f"{self.name} has no {what} {each!r}; {did_you_mean(each, map(str, known))}")
        return tuple(each for each in known if each in unique)


def experiment_names() -> tuple[str, ...]:
    """The experiments that :func:`load_experiment` knows by name."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def load_experiment(name_or_path: str | Path) -> Experiment:
    """Read and check an experiment: a name of :func:`experiment_names`, or a path that ends in ``.toml``.

    >>> [noise.title for noise in load_experiment("artificial").noise]
    ['50 %', '100 %', '150 %']
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        known = experiment_names()
        if str(name_or_path) not in known:
            raise ValueError(
                f"experiment {str(name_or_path)!r} is not known (for one of your own, give the path of its .toml "
                f"file); {did_you_mean(str(name_or_path), known)}"
            )
        path = FOLDER / f"{name_or_path}.toml"
    return Experiment(name=path.stem, **read_settings(path))
