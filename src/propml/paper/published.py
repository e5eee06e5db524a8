"""The numbers that the paper printed, to stand beside ours; how to read them; and metrics by its conventions.

``results.csv`` holds its tables of real-world, artificial and vision datasets, those of the supplement included, and
``lambdas.csv`` the λ that the supplement gives. Three things to know before comparing: the Hamming losses of ML-kNN and
CPLST come from slips in coding (:mod:`propml.metrics.paper`), λ was picked on test labels, and the F1 columns of the
vision tables mix decision rules.

A metric is one of :data:`propml.metrics.METRICS`, which follows our conventions, the same with ``:paper``, which
follows those behind the published tables, or F1 by example.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from propml.metrics import METRICS, Metric, evaluate, example_f1
from propml.noise import Noise, Setting

PAPER_SUFFIX = ":paper"
TABULAR_METRICS = ("average_precision", "coverage", "hamming_loss", "ranking_loss", "one_error")
EXAMPLE_F1 = "example_F1"
METRIC_NAMES = (*METRICS, EXAMPLE_F1, *(f"{name}{PAPER_SUFFIX}" for name in METRICS))
# A method whose λ was chosen on test labels, as the paper's was.
ORACLE_SUFFIX = " (oracle)"
# The same on the paper's own network: no dropout, 500 epochs, the last one taken.
AS_PUBLISHED_SUFFIX = " (as published)"
# Methods whose printed Hamming loss is 52 to 99 % because of how predictions were coded.
SLIPPED_HAMMING_LOSS = ("CPLST", "ML-kNN")

CONVENTIONS = (
    "The published numbers follow the tie rule of the MATLAB functions of the field and, for the Hamming loss of "
    "ML-kNN and CPLST, a slip in the coding of predictions. The numbers of ours that stand beside them were computed "
    "the same way, with one exception: the published Hamming loss of PML-NI cuts scores by the true labels of training "
    "rows, and ours does so in the row PML-NI (oracle) only. What is best where, the ranks and the second table of "
    "each metric follow our own conventions (ties averaged, predictions of 0 and 1)."
)
MIRFLICKR = "MIRFlickr circulates in copies of 5000 and of 10433 rows; the paper used the latter."


class Mean(NamedTuple):
    """One number of a table, the paper's or ours, in percent, over ``n`` folds and seeds; ``n`` is 0 for the paper's.

    ``dataset`` is its name in :mod:`propml.datasets`. ``noise`` is ``None`` for real candidates; the supervised rows of
    the vision tables have a flip rate of 0. Our ``std`` divides by ``n - 1``; the paper does not say what its own
    divides by. The vision tables print none, and a single value has none: NaN.
    """

    experiment: str
    dataset: str
    noise: Noise | None
    method: str
    metric: str
    mean: float
    std: float
    n: int = 0

    @property
    def setting(self) -> Setting:
        return Setting(self.dataset, self.noise)


def load_published(experiment: str | None = None) -> list[Mean]:
    """All printed numbers, or those of one experiment, in the order of the tables.

    Parameters
    ----------
    experiment : str, optional
        ``"real-world"``, ``"artificial"`` or ``"vision"``.

    Examples
    --------
    >>> load_published("real-world")[0]
    Mean(experiment='real-world', dataset='mirflickr', noise=None, method='CPLST', metric='average_precision', \
mean=78.67, std=0.53, n=0)
    """
    rows = _results()
    known = list(dict.fromkeys(row.experiment for row in rows))
    if experiment not in (None, *known):
        raise ValueError(f"the paper has no experiment {experiment!r}; choose from {', '.join(known)}")
    return [row for row in rows if experiment in (None, row.experiment)]


def published_lams() -> dict[Setting, float]:
    """The λ of each table row that the supplement gives: all but YeastBP's.

    >>> published_lams()[Setting("birds", Noise("svm", 0.5))]
    0.09
    """
    return {Setting(row["dataset"], _noise(row["noise"])): float(row["lam"]) for row in _read("lambdas.csv")}


@cache
def _results() -> tuple[Mean, ...]:
    return tuple(
        Mean(**row | {"noise": _noise(row["noise"]), "mean": float(row["mean"]), "std": float(row["std"] or "nan")})
        for row in _read("results.csv")
    )


def _read(name: str) -> Iterator[dict[str, Any]]:
    text = (resources.files("propml.paper") / name).read_text(encoding="utf-8")
    return csv.DictReader(line for line in text.splitlines() if not line.startswith("#"))


def _noise(text: str) -> Noise | None:
    return Noise.read(float(text)) if text else None


def published_method(method: str) -> str:
    """The name under which the paper prints a method of ours."""
    return method.removesuffix(ORACLE_SUFFIX).removesuffix(AS_PUBLISHED_SUFFIX)


def listed(items: Sequence[str], limit: int = 6) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], limit=2)
    ('a, b and c', 'a, b and 2 more')
    """
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def slips_note(methods: Collection[str]) -> str:
    """That the Hamming losses of some of these methods follow slips in coding; nothing where none does."""
    slipped = listed([name for name in SLIPPED_HAMMING_LOSS if name in methods])
    return slipped and f"The Hamming losses of {slipped} follow the paper's slips in coding, and so do their ranks."


def reading_notes(
    methods: Iterable[str], datasets: Collection[str], tuned: Collection[str] = (), *, compared: bool, paper_rules: bool
) -> list[str]:
    """What a reader must know to read tables rightly.

    ``methods`` are those of the tables, ``tuned`` those of them that saw test labels; ``datasets`` only those of tables
    that stand beside the paper. ``paper_rules`` says whether ours were computed by the paper's conventions there.
    """
    notes = [CONVENTIONS] if paper_rules else []
    names = list(dict.fromkeys(methods))
    if oracles := [method for method in names if method in tuned]:
        notes.append(
            f"{listed(oracles)}: what was tuned, such as λ, was tuned on true labels. It takes no part in bold, first "
            f"places and ranks."
        )
    if compared and (ours := [method for method in names if published_method(method) == "ProPML"]):
        notes.append(f"The paper chose the λ of ProPML on test labels. {_like_for_like(ours, tuned)}")
    return [*notes, MIRFLICKR] if "mirflickr" in datasets else notes


def _like_for_like(methods: Sequence[str], tuned: Collection[str]) -> str:
    oracles, honest = (listed([each for each in methods if (each in tuned) == seen]) for seen in (True, False))
    if not oracles:
        return "Ours was chosen on held-out candidate labels, so that the published row has an advantage."
    like = f"{oracles} did the same and is the like-for-like comparison with its row."
    beside = f" {honest} chose it on held-out candidate labels and stands beside the same row."
    return like + beside if honest else like


def own_name(name: str) -> str:
    """The metric by our conventions."""
    return name.removesuffix(PAPER_SUFFIX)


def metric_of(name: str) -> Metric:
    """Title and direction of a metric, with or without the suffix; one of the user's own counts as a gain.

    >>> metric_of("one_error:paper"), metric_of("my_score")
    (Metric(title='One-error (paper)', higher_is_better=False), Metric(title='My score', higher_is_better=True))
    """
    words = own_name(name).replace("_", " ")
    metric = METRICS.get(own_name(name)) or Metric(words[:1].upper() + words[1:], True)
    return metric._replace(title=f"{metric.title} (paper)") if name.endswith(PAPER_SUFFIX) else metric


def evaluate_metrics(
    truth: np.ndarray, scores: np.ndarray, predicted: np.ndarray, names: Sequence[str], method: str
) -> dict[str, float]:
    """The named metrics of one matrix of scores, as fractions.

    ``truth``, ``scores`` and ``predicted`` have the shape ``(n_samples, n_labels)``. ``method`` is the name in the
    tables: the published Hamming losses of "ML-kNN" and "CPLST" follow rules of their own.

    >>> truth, scores = np.array([[1, 0, 0]]), np.array([[0.5, 0.5, 0.1]])
    >>> evaluate_metrics(truth, scores, scores > 0.3, ["ranking_loss", "ranking_loss:paper"], "Ridge")
    {'ranking_loss': 0.25, 'ranking_loss:paper': 0.5}
    """
    values: dict[str, float] = {EXAMPLE_F1: example_f1(truth, predicted)} if EXAMPLE_F1 in names else {}
    for suffix in {name.removeprefix(own_name(name)) for name in names if name != EXAMPLE_F1}:
        found = evaluate(truth, scores, predicted, paper=suffix == PAPER_SUFFIX, method=method)
        values |= {f"{name}{suffix}": float(value) for name, value in found.items()}
    return {name: values[name] for name in names}
