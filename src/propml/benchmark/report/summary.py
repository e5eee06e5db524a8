"""What the tables say, in sentences that are computed from them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import NamedTuple

from propml.benchmark.noise_levels import noise_order
from propml.benchmark.report.ranks import RankComparison
from propml.benchmark.report.tables import MetricTable, TableCell
from propml.benchmark.report.wording import counted, listed, published_method, settings_text, signed
from propml.benchmark.results import Setting
from propml.benchmark.titles import noise_title, setting_title

# Folds and seeds alone move a mean by about this much, in points of percent.
TOLERANCE = 1.0


class Finding(NamedTuple):
    """A sentence of the summary, and what it is about."""

    topic: str
    text: str


@dataclass(frozen=True)
class Winners:
    """Who is best and second best in each setting by one metric (ties share a place)."""

    metric: str
    title: str
    higher_is_better: bool
    best: dict[Setting, tuple[str, ...]]
    second: dict[Setting, tuple[str, ...]]


@dataclass(frozen=True)
class Agreement:
    """How the numbers of one method compare with the published ones, over all metrics.

    Attributes
    ----------
    method : str
    n : int
        Numbers that have a published counterpart.
    better, close, worse : int
        By more than :data:`TOLERANCE` points better than the paper, within it, and worse by more.
    mean_gain : float
        Mean over the first metric (average precision where there is one) of ours minus the paper's, positive = better.
    most_better, most_worse : str
        The largest gap in each direction, with its metric and setting; empty where there is none.
    """

    method: str
    n: int
    better: int
    close: int
    worse: int
    mean_gain: float
    most_better: str
    most_worse: str


def own_tables(tables: Sequence[MetricTable]) -> list[MetricTable]:
    """One table per metric: ours under our own conventions where both were recorded."""
    chosen = {table.title: table for table in tables if table.by_paper_rules}
    for table in tables:
        if not table.by_paper_rules:
            chosen[table.title] = table
    return sorted(chosen.values(), key=tables.index)


def winners(table: MetricTable) -> Winners:
    """Who is best where, by the bold of our own numbers."""

    def marked(mark: str) -> dict[Setting, tuple[str, ...]]:
        found = {row.setting: tuple(c.method for c in row.cells if c.ours_mark == mark) for row in table.rows}
        return {setting: methods for setting, methods in found.items() if methods}

    return Winners(table.metric, table.title, table.higher_is_better, marked("best"), marked("second"))


def agreements(tables: Sequence[MetricTable]) -> list[Agreement]:
    """One line per method that has published numbers beside it."""
    compared = [table for table in tables if table.compared]
    methods = list(dict.fromkeys(method for table in compared for method in table.methods))
    found = []
    for method in methods:
        gains = [
            (gain, table, row.setting, cell)
            for table in compared
            for row in table.rows
            for cell in row.cells
            if cell.method == method and (gain := table.gain(cell)) is not None
        ]
        if not gains:
            continue
        values = [gain for gain, *_ in gains]
        first = [gain for gain, table, *_ in gains if table is compared[0]]
        low, high = min(gains, key=lambda g: g[0]), max(gains, key=lambda g: g[0])
        found.append(
            Agreement(
                method,
                len(values),
                sum(gain > TOLERANCE for gain in values),
                sum(abs(gain) <= TOLERANCE for gain in values),
                sum(gain < -TOLERANCE for gain in values),
                round(fmean(first), 2) if first else nan,
                _gap(*high[1:]) if high[0] > TOLERANCE else "",
                _gap(*low[1:]) if low[0] < -TOLERANCE else "",
            )
        )
    return found


def _gap(table: MetricTable, setting: Setting, cell: TableCell) -> str:
    assert cell.difference is not None
    return f"{signed(cell.difference)} ({table.title}, {setting_title(setting, table.corruption)})"


def summary(
    tables: Sequence[MetricTable],
    ranks: Sequence[RankComparison] = (),
    n_failed: int = 0,
    not_run: Sequence[tuple[Setting, str]] = (),
) -> list[Finding]:
    """The report in a few sentences: what was measured, what is best where, and how that compares with the paper."""
    findings = [_scope(tables)]
    findings += [found for table in own_tables(tables) if (found := _best(winners(table), table.corruption))]
    compared = next((made for made in ranks if made.single and made.parts), None)
    if compared:
        findings.append(Finding("Mean ranks", f"{compared.title}: {' '.join(compared.sentences)}"))
    findings += _beside_paper(tables)
    if n_failed:
        findings.append(Finding("Failed", f"{counted(n_failed, 'cell')} failed; what they said stands below."))
    if not_run:
        missing = dict.fromkeys(setting for setting, _ in not_run)
        where = settings_text(missing, _settings(tables), 12, _corruption(tables))
        cells = counted(len(not_run), "published cell has", "published cells have")
        findings.append(Finding("Not run", f"{cells} no number of ours: {where}."))
    return findings


def _settings(tables: Sequence[MetricTable]) -> list[Setting]:
    return list(dict.fromkeys(row.setting for table in tables for row in table.rows))


def _corruption(tables: Sequence[MetricTable]) -> str | None:
    return tables[0].corruption if tables else None


def _scope(tables: Sequence[MetricTable]) -> Finding:
    measured = {(r.setting, c.method): c.ours.n for t in tables for r in t.rows for c in r.cells if c.ours}
    if not measured:
        return Finding("Measured", "Nothing yet.")
    methods, datasets = {m for _, m in measured}, {s.dataset for s, _ in measured}
    noises = sorted({s.noise for s, _ in measured if s.noise is not None}, key=noise_order)
    levels = [noise_title(noise, _corruption(tables)) for noise in noises]
    at = f" at {counted(len(levels), 'noise level')} ({listed(levels)})" if levels else ""
    runs = sorted(set(measured.values()))
    values = counted(runs[0], "value") if len(runs) == 1 else f"{runs[0]} to {runs[-1]} values"
    each = " each" if len(measured) > 1 else ""
    return Finding(
        "Measured",
        f"{counted(len(methods), 'method')} on {counted(len(datasets), 'dataset')}{at}: "
        f"{counted(len(measured), 'mean')} of {values} (folds times seeds){each}.",
    )


def _best(won: Winners, corruption: str | None) -> Finding | None:
    """Who is best how often, and where the one with the most first places is."""
    places: dict[str, list[Setting]] = {}
    for setting, methods in won.best.items():
        for method in methods:
            places.setdefault(method, []).append(setting)
    if not places:
        return None
    (leader, first), *rest = sorted(places.items(), key=lambda item: -len(item[1]))
    others = listed([f"{method} in {len(where)}" for method, where in rest], 5)
    where = settings_text(first, won.best, corruption=corruption)
    if len(won.best) == 1:
        said = f"{listed(list(places))} {'is' if not rest else 'are'} best on {where}"
    elif len(first) == len(won.best):
        said = f"{leader} is best everywhere" + (f"; as good are {others}" if others else "")
    else:
        said = f"{leader} is best in {len(first)} of {len(won.best)} settings ({where}); {others}"
    return Finding(won.title, f"{said}.")


def _beside_paper(tables: Sequence[MetricTable]) -> list[Finding]:
    lines = agreements(tables)
    if not lines:
        return []
    total, better, close, worse = (
        sum(getattr(line, key) for line in lines) for key in ("n", "better", "close", "worse")
    )
    said = (
        f"Of {counted(total, 'number')} that the paper prints too, {close} {'lies' if close == 1 else 'lie'} within "
        f"{TOLERANCE:g} point, {better} {'is' if better == 1 else 'are'} better by more and {worse} "
        f"{'is' if worse == 1 else 'are'} worse by more."
    )
    far = [
        f"furthest on the {side} side: {gap}"
        for side, gap in zip(("better", "worse"), _furthest(tables), strict=True)
        if gap
    ]
    if far:
        said += f" {listed(far)}.".replace(" furthest", " Furthest", 1)
    first = next(table for table in tables if table.compared)
    propml = [line.method for line in lines if published_method(line.method) == "ProPML"]
    against = [found for method in propml if (found := _against(first, method))]
    return [Finding("Beside the paper", said), *against]


def _furthest(tables: Sequence[MetricTable]) -> tuple[str, str]:
    """The largest gaps of all in each direction, where they are larger than the tolerance."""
    gaps = [
        (gain, f"{cell.method} {_gap(table, row.setting, cell)}")
        for table in tables
        for row in table.rows
        for cell in row.cells
        if (gain := table.gain(cell)) is not None
    ]
    high, low = max(gaps, key=lambda gap: gap[0]), min(gaps, key=lambda gap: gap[0])
    return high[1] if high[0] > TOLERANCE else "", low[1] if low[0] < -TOLERANCE else ""


def _against(table: MetricTable, method: str) -> Finding | None:
    """One method beside its published row by one metric: where better, where close, where worse."""
    groups: dict[str, list[Setting]] = {"better than the paper on": [], "within a point on": [], "worse on": []}
    for row in table.rows:
        for cell in row.cells:
            gain = table.gain(cell) if cell.method == method else None
            if gain is not None:
                place = 0 if gain > TOLERANCE else 2 if gain < -TOLERANCE else 1
                list(groups.values())[place].append(row.setting)
    among = [setting for settings in groups.values() for setting in settings]
    parts = [f"{words} {settings_text(where, among, 8, table.corruption)}" for words, where in groups.items() if where]
    return Finding(method, f"{table.title}: {'; '.join(parts)}.") if parts else None


def notes(tables: Sequence[MetricTable], tuned: Collection[str] = ()) -> list[str]:
    """What a reader must know to read the tables rightly; ``tuned`` are the methods that were tuned on test labels."""
    said = []
    compared = [table for table in tables if table.compared]
    if any(table.by_paper_rules for table in compared):
        said.append(
            "The published numbers follow the tie rule of the MATLAB functions of the field and, for the Hamming loss "
            "of ML-kNN and CPLST, a slip in the coding of predictions. The numbers of ours that stand beside them were "
            "computed the same way; what is best where, the ranks and the second table of each metric follow our own "
            "conventions (ties averaged, predictions of 0 and 1)."
        )
    methods = list(dict.fromkeys(method for table in tables for method in table.methods))
    oracles = [method for method in methods if method in tuned]
    if oracles:
        said.append(
            f"{listed(oracles)}: what was tuned, such as λ, was tuned on test labels. It takes no part in bold, first "
            f"places and ranks."
        )
    if compared and any(published_method(method) == "ProPML" for method in methods):
        said.append(
            "The paper chose the λ of ProPML on test labels. "
            + _like_for_like([method for method in methods if published_method(method) == "ProPML"], tuned)
        )
    if any(row.setting.dataset == "mirflickr" for table in compared for row in table.rows):
        said.append("MIRFlickr circulates in copies of 5000 and of 10433 rows; the paper used the latter.")
    return said


def _like_for_like(methods: Sequence[str], tuned: Collection[str]) -> str:
    oracles = [method for method in methods if method in tuned]
    honest = [method for method in methods if method not in tuned]
    if not oracles:
        return "Ours was chosen on held-out candidate labels, so that the published row has an advantage."
    beside = (
        f" {listed(honest)} chose it on held-out candidate labels and stands beside the same row." if honest else ""
    )
    return f"{listed(oracles)} did the same and is the like-for-like comparison with its row.{beside}"
