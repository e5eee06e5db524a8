"""What a review gains from an audit, and what the audit says of labels that were left out; commands of audit.py.

`review` simulates a reviewer who knows the truth and decides on candidates, one after the other:

    random              in any order
    cleanlab            what it flags first, then by P(candidate) of a logistic regression; if `cleanlab` was run on the
                        folder (audit.py cleanlab --folder), so run `review`, then that, then `review` again
    audit               by P(true) of one audit, with the small network of `--quick`, as the one below
    audit, again        by P(true), audited anew after every ROUND decisions with what was decided (reviewed=)

It counts false candidates found, and compares how many are left with how many the audit says are left.

`missing` takes clean labels, drops 30 % of them at random, and asks which are missing (incomplete=True).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

# Small settings: the dataset, and how false labels come about.
SETTINGS = (
    ("scene", "flips", {"rate": 0.2}),
    ("yeast", "class-flips", {"rate": 0.3}),
    ("chd-49", "svm", {"ratio": 1.0}),
)
ROUND, ROUNDS = 100, 4
DROPPED = 0.3


def clean(name: str, most: int) -> tuple[Any, np.ndarray]:
    """Features and true labels of a few rows, drawn at random."""
    from propml.datasets import load

    data = load(name).drop_unlabelled()
    rows = np.random.default_rng(0).permutation(len(data.truth))[:most]
    return data.X[rows], np.asarray(data.truth)[rows]


def do_review(options: argparse.Namespace) -> None:
    """Errors found after each round, in each order."""
    from audit import keep_rows, logistic_shares
    from audit_tables import current_code

    from propml.auditing.crossfit import split_rows
    from propml.corruption import corrupt

    options.folder.mkdir(parents=True, exist_ok=True)
    for name, noise, level in SETTINGS:
        X, truth = clean(name, options.rows)
        candidates = corrupt(noise, X, truth, **level)
        states = candidates.to_matrix()
        title = f"{name}|{noise} {next(iter(level.values()))}"
        path = options.folder / f"{title}.npz"
        logistic = logistic_shares(X, states, split_rows(X, 5, 0))
        np.savez_compressed(path, truth=truth.astype(np.int8), states=states, logistic=logistic)
        row, label = np.nonzero(states > 0)
        false = truth[row, label] == 0
        orders = {"random": np.random.default_rng(0).random(len(row))}
        if path.with_suffix(".npy").exists():
            issues = np.load(path.with_suffix(".npy"))
            orders["cleanlab"] = logistic[row, label] - issues[row, label]
        found = {order: [int(false[np.argsort(key, kind="stable")[: ROUND * (k + 1)]].sum()) for k in range(ROUNDS)]
                 for order, key in orders.items()}  # fmt: skip
        by_audits, left = reviewed(X, candidates, row, label, false)
        rows = []
        for order, counts in {**found, **by_audits}.items():
            setting = {
                "setting": title.replace("|", ", "),
                "order": order,
                "candidates": len(row),
                "false": false.sum(),
            }
            after = {str(ROUND * (k + 1)): count for k, count in enumerate(counts)}
            estimates = left if order == "audit, again" else [""] * ROUNDS
            said = {f"said_left_{ROUND * (k + 1)}": each for k, each in enumerate(estimates)}
            rows.append({**setting, **after, **said, "code": current_code()})
        keep_rows(options.out, rows, 2)


def reviewed(
    X: Any, candidates: Any, row: np.ndarray, label: np.ndarray, false: np.ndarray
) -> tuple[dict[str, list[int]], list[str]]:
    """By one audit, and by audits that learn from the decisions; and how many errors these say are left."""
    import propml
    from propml.auditing.crossfit import default_auditor
    from propml.auditing.decisions import Decision

    quick = default_auditor(0, False).set_params(hidden=(64,))  # that of `propml audit --quick`
    decided: list[Decision] = []
    done = np.zeros(len(row), dtype=bool)
    counts: list[int] = []
    once: list[int] = []
    left = []
    for number in range(ROUNDS + 1):
        report = propml.audit(X, candidates, reviewed=decided, model=quick)
        probability = report.probabilities[row, label]
        if number == 0:
            order = np.argsort(probability, kind="stable")
            once = [int(false[order[: ROUND * (k + 1)]].sum()) for k in range(ROUNDS)]
        else:
            left.append(f"{report.errors_left:.0f}")
        if number == ROUNDS:
            break
        open_cells = np.flatnonzero(~done)
        chosen = open_cells[np.argsort(probability[open_cells], kind="stable")[:ROUND]]
        done[chosen] = True
        counts.append(int(false[done].sum()))
        decided += [
            Decision(str(candidates.index[row[k]]), str(candidates.labels[label[k]]), not false[k]) for k in chosen
        ]
    return {"audit": once, "audit, again": counts}, left


def do_missing(options: argparse.Namespace) -> None:
    """Precision and recall of what is called missing."""
    from audit import keep_rows
    from audit_tables import current_code
    from sklearn.metrics import average_precision_score

    import propml

    for name in ("scene", "yeast", "chd-49"):
        X, truth = clean(name, options.rows)
        kept = truth * (np.random.default_rng(1).random(truth.shape) >= DROPPED)
        report = propml.audit(X, kept, incomplete=True)
        told = report.verdicts()
        missing = told[told.verdict == "missing"]
        right = truth[missing.row, missing.label] == 1
        others = kept == 0
        lost = int(truth[others].sum())
        precise = average_precision_score(truth[others], report.probabilities[others])
        row = {
            "dataset": name,
            "rows": len(truth),
            "removed": lost,
            "called": len(right),
            "precision": f"{right.mean():.4f}" if len(right) else "",
            "recall": f"{right.sum() / lost:.4f}",
            "probability": f"{missing.probability.mean():.4f}" if len(right) else "",
            "average_precision": f"{precise:.4f}",
            "code": current_code(),
        }
        keep_rows(options.out, [row], 1)
