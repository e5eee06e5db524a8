"""The tables of ``docs/audit.md`` from ``audit.csv`` and the files beside it, and whether the audit changed since."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean

from kept import age_text

from propml.benchmark.provenance import age_of, fingerprint
from propml.benchmark.reporting.formats import markdown_table
from propml.benchmark.wording import dataset_title

# What scores, estimates the noise and judges.
MODULES = ("propml.auditing.crossfit", "propml.auditing.noise", "propml.auditing.process", "propml.auditing.verdicts")
TITLES = {
    "audit, auto": "audit",
    "scores": "the same scores without the noise model, dropped below 0.5",
    "forest": "random forest, dropped below 0.5",
    "logistic": "logistic regression, dropped below 0.5",
    "cleanlab": "cleanlab 2.9 on the logistic regression",
}
COLUMNS = {
    "average_precision": "AP",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "confidence": "mean confidence of drops",
}
# The kind of noise that whoever knows it would state.
STATED = {
    "flips 0.2": ("flips at rate 0.2", "uniform"),
    "flips 0.4": ("flips at rate 0.4", "uniform"),
    "class-flips 0.3": ("flips at a rate for each label, 0 to 0.6", "by-label"),
    "svm 1.0": ("SVM confusions, as many false labels as true ones", "confusions"),
    "neighbours 1.0": ("labels of the nearest rows", "confusions"),
}
# Who voted, as audit_votes.py calls them; what the columns and orders of the other tables are called.
ANNOTATORS = {"good and bad": "five of mixed quality"}
VOTERS = {
    "audit": "audit",
    "majority": "majority vote",
    "dawid-skene": "Dawid–Skene (crowd-kit 1.4)",
    "crowdlab": "CROWDLAB (cleanlab 2.9)",
}
ORDERS = {"random": "random order", "cleanlab": "cleanlab 2.9", "audit": "one audit", "audit, again": "audited again"}
NOISES = {"class-flips 0.3": "a rate for each label", "svm 1.0": "SVM confusions"}
ROUNDS = ("100", "200", "300", "400")
Rows = list[dict[str, str]]


def current_code() -> str:
    return fingerprint(MODULES)


def audit_parts(path: Path) -> dict[str, str]:
    """The generated parts by their names."""
    rows = _read(path)
    return {
        "audit": f"{_methods(rows)}\n\n{_harm(rows)} {_age(rows)}",
        "audit-noise": _noises(rows),
        "audit-deleted": _deleted(rows),
    }


def further_parts(folder: Path) -> dict[str, str]:
    """Votes, labels that were left out, and reviews, each from its own file of this folder."""
    made = {"votes": _votes, "missing": _missing, "review": _review}
    rows = {name: _read(folder / f"audit_{name}.csv") for name in made}
    return {f"audit-{name}": f"{table(rows[name])}\n\n{_ages(rows[name])}" for name, table in made.items()}


def _read(path: Path) -> Rows:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _mean(rows: Rows, column: str) -> float:
    return fmean(float(row[column]) for row in rows if row[column])


def _methods(rows: Rows) -> str:
    """Means over the settings with noise; beside them the share that is dropped where there is none."""
    lines = []
    for method, title in TITLES.items():
        own = [row for row in rows if row["method"] == method]
        noisy, clean = ([row for row in own if (row["noise"] == "none") == is_clean] for is_clean in (False, True))
        dropped = fmean(int(row["dropped"]) / int(row["candidates"]) for row in clean)
        lines.append(
            [title, str(len(own)), *(f"{_mean(noisy, column):.3f}" for column in COLUMNS), f"{100 * dropped:.1f} %"]
        )
    return markdown_table(["method", "settings", *COLUMNS.values(), "dropped of clean labels"], lines)


def _noises(rows: Rows) -> str:
    """F1 of the drops by kind of noise: nothing known, the kind stated, and the best of the others."""
    lines = []
    for noise, (title, stated) in STATED.items():
        f1 = {
            method: _mean([row for row in rows if (row["noise"], row["method"]) == (noise, method)], "f1")
            for method in (*TITLES, f"audit, {stated}")
        }
        best = max((name for name in TITLES if name != "audit, auto"), key=lambda name: f1[name])
        known = f'`"{stated}"`: {f1[f"audit, {stated}"]:.2f}'
        lines.append([title, f"{f1['audit, auto']:.2f}", known, f"{best} {f1[best]:.2f}"])
    return markdown_table(["noise", '`noise="auto"`', "stated", "best other"], lines)


def _deleted(rows: Rows) -> str:
    """How many true labels are dropped with the false ones, by dataset; settings in which these are the larger part."""
    lines, methods = [], {"audit, auto": "audit", "cleanlab": "cleanlab"}
    for dataset in sorted({row["dataset"] for row in rows}):
        noisy = [row for row in rows if row["dataset"] == dataset and row["noise"] != "none"]
        own = [row for row in noisy if row["method"] == "audit, auto"]
        candidates = sum(int(row["candidates"]) for row in own)
        false = sum(int(row["candidates"]) * float(row["false"]) for row in own)
        line = [dataset, str(candidates), f"{100 * false / candidates:.0f} %"]
        for method in methods:
            drops = [(int(row["dropped"]), row["precision"]) for row in noisy if row["method"] == method]
            dropped = sum(n for n, _ in drops)
            true = sum(n * (1 - float(precision)) for n, precision in drops if n)
            line += [str(dropped), f"{100 * true / dropped:.1f} %" if dropped else "–"]
        lines.append(line)
    harm = {
        title: sum(row["method"] == method and row["dropped"] != "0" and float(row["precision"]) < 0.5 for row in rows)
        for method, title in methods.items()
    }
    header = ["dataset", "candidates", "false", "audit drops", "of these true", "cleanlab drops", "of these true"]
    told = (
        f"Settings in which more true labels than false ones are dropped (any, where nothing is false): "
        f"{harm['audit']} by the audit, {harm['cleanlab']} by cleanlab."
    )
    return f"{markdown_table(header, lines)}\n\n{told}"


def _harm(rows: Rows) -> str:
    some = [row for row in rows if row["method"] == "audit, auto" and row["dropped"] != "0"]
    fair = [row for row in some if float(row["precision"]) >= float(row["confidence"]) - 0.05]
    return (
        f"The audit drops something in {len(some)} settings; in {len(fair)} of them its drops are as precise as they "
        f"are confident, within five points."
    )


def _age(rows: Rows) -> str:
    return age_text(age_of(row.get("code") or "", MODULES) for row in rows if row["method"].startswith("audit"))


# -- votes, labels that were left out, reviews ------------------------------------------------------------------------


def _votes(rows: Rows) -> str:
    lines = []
    for name in dict.fromkeys(row["annotators"] for row in rows):
        dataset, _, who = name.partition(", ")
        here = [row for row in rows if row["annotators"] == name]
        own = {row["method"]: [float(row["average_precision"]), float(row["f1"])] for row in here}
        best = [values for values in own.values() if values == max(own.values())]
        texts = {method: " / ".join(f"{value:.3f}" for value in values) for method, values in own.items()}
        marked = [f"**{texts[m]}**" if [own.get(m)] == best else texts.get(m, "–") for m in VOTERS]
        lines.append([f"{dataset_title(dataset)}, {ANNOTATORS.get(who, who)}", *marked])
    return markdown_table(["annotators", *VOTERS.values()], lines)


def _missing(rows: Rows) -> str:
    digits = {"precision": 2, "recall": 2, "probability": 2, "average_precision": 3}
    lines = [
        [dataset_title(row["dataset"]), row["removed"], row["called"]]
        + [f"{float(row[name]):.{n}f}" if row[name] else "–" for name, n in digits.items()]
        for row in rows
    ]
    heads = ["removed", "called missing", "precision", "recall", "mean P of these", "average precision"]
    return markdown_table(["dataset", *heads], lines)


def _review(rows: Rows) -> str:
    lines = []
    for name in dict.fromkeys(row["setting"] for row in rows):
        dataset, _, noise = name.partition(", ")
        own = {row["order"]: row for row in rows if row["setting"] == name}
        most = max(int(row[ROUNDS[-1]]) for row in own.values())
        again = own["audit, again"]
        line = [f"{dataset_title(dataset)}, {NOISES.get(noise, noise)}", f"{again['false']} of {again['candidates']}"]
        for order in ORDERS:
            counts = [own[order][after] for after in ROUNDS] if order in own else ["refuses"]
            line.append(", ".join(f"**{each}**" if each == str(most) else each for each in counts))
        left = [f"{again[f'said_left_{after}']} ({int(again['false']) - int(again[after])})" for after in ROUNDS]
        lines.append([*line, ", ".join(left)])
    heads = ["false", *ORDERS.values(), "errors left: said (true), after each round"]
    return markdown_table(["setting", *heads], lines, left=range(1 + len(heads)))


def _ages(rows: Rows) -> str:
    """Which numbers come from code that has changed since; what others make of the same data does not age."""
    by_audit = [row for row in rows if row.get("method", row.get("order", "audit")).startswith("audit")]
    return age_text(age_of(row["code"], MODULES) for row in by_audit)
