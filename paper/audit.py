"""How well an audit finds false candidate labels, beside what one would take instead.

    PROPML_DATA=… python paper/audit.py scores --folder scratch       # fits everything once, one file per setting
    other/python paper/audit.py cleanlab --folder scratch             # needs numpy and cleanlab alone
    python paper/audit.py measure --folder scratch                    # audit.csv; regenerate.py makes the tables of it
    python paper/audit.py choice --folder scratch                     # the constants, leaving datasets out
    PROPML_DATA=… python paper/audit.py votes --folder scratch/votes  # several annotators: audit_votes.csv
    other/python paper/audit.py dawid-skene --folder scratch/votes    # needs numpy, scikit-learn and crowd-kit
    other/python paper/audit.py crowdlab --folder scratch/votes       # needs numpy, scikit-learn and cleanlab
    PROPML_DATA=… python paper/audit.py review --folder scratch/review --rows 500   # a reviewer: audit_review.csv
    PROPML_DATA=… python paper/audit.py missing --folder scratch --rows 800         # left out: audit_missing.csv

`scores` and `votes` take `--datasets scene yeast` for some of them. VOC2007 joins with `--weights lite3.safetensors`
(`--features voc.npz` keeps its features, or finds them there); audit_images.py says who labels its images.

A setting is a dataset with one kind of noise. Truth is kept aside and used only to judge. Every score of a row comes
from models that did not see it.

    audit               propml.audit as it is, and with each kind of noise stated (noise=…)
    scores              the audit's own scores, calibrated: dropped where P(candidate) < 0.5
    forest              RandomForestClassifier(200), 5 folds; dropped below 0.5
    logistic            one-vs-rest logistic regression, 5 folds; dropped below 0.5
    cleanlab            what find_multilabel_issues_per_class flags on those probabilities, ranked first

Measured: average precision of the ranking "false candidates first"; precision, recall and F1 of what is dropped; how
confident the drops are (their precision should not be 5 points below it); the share of candidates that is dropped; how
many of the dropped are true.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from audit_images import image_settings
from audit_review import do_missing, do_review
from audit_votes import do_crowdlab, do_dawid_skene, do_votes

DATASETS = ("birds", "cal500", "chd-49", "enron", "foodtruck", "genbase", "medical", "mosaic", "scene", "yeast")
REAL, IMAGES = ("mirflickr", "yeastcc"), "voc2007"
NOISES = (
    ("none", {}),
    ("flips", {"rate": 0.2}),
    ("flips", {"rate": 0.4}),
    ("class-flips", {"rate": 0.3}),
    ("neighbours", {"ratio": 1.0}),
    ("svm", {"ratio": 1.0}),
)
STATED = ("auto", "uniform", "by-label", "confusions")
METHODS = (*(f"audit, {noise}" for noise in STATED), "scores", "forest", "logistic", "cleanlab")
# What `choice` tries: the quantile of the bounds, what is taken off, and the power of a label's own bound.
QUANTILES, MARGINS, POWERS = (0.05, 0.1, 0.25), (0.0, 0.01, 0.03, 0.05), (0.0, 0.3, 0.6)


def settings(options: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray, Any]]:
    """Every (name, X, truth, candidates), at most so many rows, drawn at random."""
    from propml.corruption import corrupt
    from propml.datasets import digits_mosaic, load

    for name in options.datasets:
        if name == IMAGES:
            yield from image_settings(options)
            continue
        data = (digits_mosaic(options.rows) if name == "mosaic" else load(name)).drop_unlabelled()
        rows = np.random.default_rng(0).permutation(len(data.truth))[: options.rows]
        X, truth = data.X[rows], np.asarray(data.truth)[rows]
        if name in REAL:
            yield f"{name}|real", X, truth, data.candidates[rows]
            continue
        for noise, level in NOISES:
            yield f"{name}|{' '.join([noise, *map(str, level.values())])}", X, truth, corrupt(noise, X, truth, **level)


# -- scores -------------------------------------------------------------------------------------------------------


def do_scores(options: argparse.Namespace) -> None:
    """Fit every model on every setting."""
    import torch
    from audit_tables import current_code
    from scipy.special import expit
    from sklearn.ensemble import RandomForestClassifier

    from propml.auditing.crossfit import default_auditor, held_out_scores, split_rows

    forest = RandomForestClassifier(200, n_jobs=-1, random_state=0)
    torch.set_num_threads(1)
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, X, truth, candidates in settings(options):
        path = options.folder / f"{name}.npz"
        if path.exists():
            continue
        kept = np.flatnonzero(candidates.sizes() > 0)
        X, truth, candidates = X[kept], truth[kept], candidates[kept]
        folds = split_rows(X, 5, 0)
        states = candidates.to_matrix()
        np.savez_compressed(
            path,
            truth=truth.astype(np.int8),
            states=states,
            scores=held_out_scores(default_auditor(0, False), X, candidates, folds),
            forest=expit(held_out_scores(forest, X, candidates, folds)),
            logistic=logistic_shares(X, states, folds),
            code=current_code(),
        )
        print(name, flush=True)


def logistic_shares(X: Any, states: np.ndarray, folds: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Cross-fitted P(candidate)."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler, StandardScaler

    shares = np.zeros(states.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a rare label may be in no row of a training fold
        for train, held in folds:
            scaler = MaxAbsScaler() if hasattr(X, "tocsr") else StandardScaler()
            model = make_pipeline(scaler, OneVsRestClassifier(LogisticRegression(max_iter=300)))
            shares[held] = model.fit(X[train], (states[train] > 0).astype(int)).predict_proba(X[held])
    return shares


def do_cleanlab(options: argparse.Namespace) -> None:
    """Flag what cleanlab would; it may live in an environment of its own."""
    from cleanlab.multilabel_classification.filter import find_multilabel_issues_per_class

    for path in sorted(options.folder.glob("*.npz")):
        saved = np.load(path)
        labels = [np.flatnonzero(row > 0).tolist() for row in saved["states"]]
        try:
            issues = find_multilabel_issues_per_class(labels, saved["logistic"], n_jobs=1)
        except ValueError as error:  # a label that is a candidate nowhere, or everywhere
            print(path.stem, "refused:", error)
            continue
        np.save(path.with_suffix(".npy"), np.asarray(issues, dtype=bool))
        print(path.stem, flush=True)


# -- measures -------------------------------------------------------------------------------------------------------


def judged(method: str, saved: Any, issues: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Suspicion of each candidate, what is dropped, and how confident that is."""
    from propml.auditing.noise import fit_noise
    from propml.auditing.process import from_candidates
    from propml.auditing.verdicts import give_verdicts
    from propml.targets import Candidates

    marked = saved["states"] > 0
    if method.startswith("audit"):
        candidates = Candidates.from_matrix(saved["states"])
        rates = fit_noise(saved["scores"], candidates, method.partition(", ")[2])
        told = give_verdicts(from_candidates(saved["scores"], candidates, rates, False), candidates)
        return -told.probability, told.verdict == "drop", told.confidence
    if method == "cleanlab":
        if issues is None:
            return None
        share = saved["logistic"][marked]
        return issues[marked] - share, issues[marked], 1 - share
    if method == "scores":
        rates = fit_noise(saved["scores"], Candidates.from_matrix(saved["states"]))
        share = 1 / (1 + np.exp(-rates.logits(saved["scores"])[marked]))
    else:
        share = saved[method][marked]
    return -share, share < 0.5, 1 - share


def measure(false: np.ndarray, suspicion: np.ndarray, dropped: np.ndarray, confidence: np.ndarray) -> dict[str, Any]:
    """The columns of one row."""
    from sklearn.metrics import average_precision_score

    right, some = int((dropped & false).sum()), bool(dropped.any())
    return {
        "candidates": len(false),
        "false": f"{false.mean():.4f}",
        "average_precision": f"{average_precision_score(false, suspicion):.4f}" if false.any() else "",
        "dropped": int(dropped.sum()),
        "precision": f"{right / dropped.sum():.4f}" if some else "",
        "recall": f"{right / false.sum():.4f}" if false.any() else "",
        "f1": f"{2 * right / (dropped.sum() + false.sum()):.4f}" if false.any() else "",
        "confidence": f"{confidence[dropped].mean():.4f}" if some else "",
    }


def files(folder: Path) -> Iterator[tuple[str, str, Any, np.ndarray | None]]:
    """Dataset, noise, what `scores` saved, and what cleanlab flagged."""
    for path in sorted(folder.glob("*.npz")):
        issues = path.with_suffix(".npy")
        yield *path.stem.split("|"), np.load(path), np.load(issues) if issues.exists() else None


def do_measure(options: argparse.Namespace) -> None:
    """Write one row per setting and method; the code is known where scores and measures have the same."""
    from audit_tables import current_code

    rows = []
    for dataset, noise, saved, issues in files(options.folder):
        false = saved["truth"][saved["states"] > 0] == 0
        for method in METHODS:
            if (found := judged(method, saved, issues)) is not None:
                own = current_code() if str(saved.get("code", "")) == current_code() else ""
                row = {"dataset": dataset, "noise": noise, "method": method, **measure(false, *found), "code": own}
                rows.append(row)
    options.out.unlink(missing_ok=True)
    keep_rows(options.out, rows, 3)


def keep_rows(path: Path, rows: Sequence[Mapping[str, Any]], key: int) -> None:
    """Put rows into a CSV file, in the place of those that are alike in so many of the first columns."""
    columns = list(rows[0])
    there: list[dict[str, Any]] = []
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            there = list(csv.DictReader(file))
    kept = {tuple(row[name] for name in columns[:key]): row for row in (*there, *rows)}
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept.values())


# -- constants ------------------------------------------------------------------------------------------------------


def do_choice(options: argparse.Namespace) -> None:
    """Which constants all datasets but one would choose, and what these do on that one."""
    from propml.auditing import noise as rules

    tried = list(itertools.product(QUANTILES, MARGINS, POWERS))
    own = tried.index((rules.AUTO_QUANTILE, rules.AUTO_MARGIN, rules.AUTO_POWER))
    values: dict[str, list[list[tuple[float, float, float]]]] = {}
    for dataset, _, saved, _ in files(options.folder):
        false = saved["truth"][saved["states"] > 0] == 0
        found = []
        for rules.AUTO_QUANTILE, rules.AUTO_MARGIN, rules.AUTO_POWER in tried:
            suspicion, dropped, confidence = judged("audit, auto", saved, None)
            told = measure(false, suspicion, dropped, confidence)
            wrong = max(0.0, float(confidence[dropped].mean() - false[dropped].mean()) - 0.05) if dropped.any() else 0.0
            harm = wrong if dropped.mean() > 0.01 else 0.0
            found.append((float(told["average_precision"] or "nan"), float(told["f1"] or "nan"), harm))
        values.setdefault(dataset, []).append(found)
    means = {name: np.nanmean(np.array(found), axis=0) for name, found in values.items()}
    worst = {name: np.array(found)[:, :, 2].max(axis=0) for name, found in values.items()}
    print("| left out | chosen elsewhere (quantile, margin, power) | AP, F1, harm there | our constants |")
    print("|---|---|---|---|")
    for name in means:
        others = [other for other in means if other != name]
        # Harm counts most, then the mean of average precision and F1.
        value = np.mean([means[o][:, 0] + means[o][:, 1] for o in others], axis=0)
        harm = np.sum([worst[o] for o in others], axis=0)
        chosen = int((value - 10 * harm).argmax())
        shown = [
            f"{means[name][option][0]:.3f}, {means[name][option][1]:.3f}, {worst[name][option]:.2f}"
            for option in (chosen, own)
        ]
        print(f"| {name} | {', '.join(f'{each:g}' for each in tried[chosen])} |", " | ".join(shown), "|")


COMMANDS = {
    "scores": do_scores,
    "cleanlab": do_cleanlab,
    "measure": do_measure,
    "choice": do_choice,
    "votes": do_votes,
    "dawid-skene": do_dawid_skene,
    "crowdlab": do_crowdlab,
    "review": do_review,
    "missing": do_missing,
}

# Where the numbers of a command are kept.
FILES = dict.fromkeys(("votes", "dawid-skene", "crowdlab"), "audit_votes.csv")
FILES |= {"review": "audit_review.csv", "missing": "audit_missing.csv"}


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("--folder", type=Path, help="where scores are kept")
    parser.add_argument("--rows", type=int, default=1500, help="rows of each dataset (default: 1500)")
    parser.add_argument("--out", type=Path, help="(default: the file that regenerate.py reads)")
    parser.add_argument("--datasets", nargs="+", choices=(*DATASETS, *REAL, IMAGES), help="(default: all)")
    parser.add_argument("--weights", help="of EfficientNet-Lite3, for the images of VOC2007")
    parser.add_argument("--features", type=Path, help="an .npz file with the features of these images (X)")
    options = parser.parse_args()
    images = [IMAGES] if options.weights or options.features else []
    options.datasets = options.datasets or [*DATASETS, *REAL, *images]
    if options.folder is None:
        parser.error(f"{options.command} needs --folder, where scores and votes are kept")
    options.out = options.out or Path(__file__).parent / FILES.get(options.command, "audit.csv")
    COMMANDS[options.command](options)


if __name__ == "__main__":
    main()
