"""Several annotators, simulated and real: the audit beside models of the annotators; commands of audit.py.

`votes` audits and keeps the votes, `dawid-skene` and `crowdlab` judge the same candidates:

    majority            a label is dropped where half of those who looked, or fewer, proposed it
    dawid-skene         Dawid and Skene's model (crowd-kit), which sees the votes alone
    crowdlab            CROWDLAB (cleanlab), which sees the votes and P(candidate) of the logistic regression
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
from audit_images import voc

ANNOTATORS = {
    "good and bad": {
        "sensitivity": [0.9, 0.8, 0.7, 0.6, 0.9],
        "false_positive_rate": [0.05, 0.1, 0.2, 0.05, 0.3],
        "coverage": [0.8, 0.6, 0.6, 0.8, 0.4],
    },
    "three of five spam": {
        "sensitivity": [0.9, 0.8, 0.3, 0.3, 0.3],
        "false_positive_rate": [0.05, 0.05, 0.3, 0.3, 0.3],
        "coverage": [0.8, 0.8, 0.8, 0.8, 0.8],
    },
}


def voted(options: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray, Any]]:
    """Every (name, X, truth, candidates with votes): simulated annotators, and the three of REDv2."""
    from propml.corruption.annotators import simulated_annotators
    from propml.datasets import digits_mosaic, load

    for name in [name for name in ("mosaic", "scene", "yeast") if name in options.datasets]:
        data = (digits_mosaic(options.rows) if name == "mosaic" else load(name)).drop_unlabelled()
        rows = np.random.default_rng(0).permutation(len(data.truth))[: options.rows]
        X, truth = data.X[rows], np.asarray(data.truth)[rows]
        for who, rates in ANNOTATORS.items():
            yield f"{name}, {who}", X, truth, simulated_annotators(truth, labels=data.label_names, **rates)
    if "voc2007" in options.datasets:
        yield "voc2007, three people", *voc(options)
    yield "REDv2, three people", *redv2()


def redv2() -> tuple[Any, np.ndarray, Any]:
    """Romanian tweets, whose emotions three people marked: TF-IDF, the labels that they agreed on, and their votes."""
    import gzip
    import json

    from sklearn.feature_extraction.text import TfidfVectorizer

    from propml.datasets.locations import data_dirs
    from propml.targets import Candidates

    tweets: list[dict[str, Any]] = []
    for part in ("valid", "test"):
        with gzip.open(data_dirs()[0] / "text" / f"redv2-{part}.json.gz") as file:
            tweets += json.load(file)
    X = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(tweet["text"] for tweet in tweets)
    item, who, label = [], [], []
    for row, tweet in enumerate(tweets):
        for person in ("annotator1", "annotator2", "annotator3"):
            for j in np.flatnonzero(tweet[person]) if any(tweet[person]) else [None]:
                item.append(row)
                who.append(person)
                label.append(j)
    truth = np.array([tweet["agreed_labels"] for tweet in tweets])
    names = range(truth.shape[1])
    return X, truth, Candidates.from_votes(item, who, label, labels=names, empty="ignore")


def do_votes(options: argparse.Namespace) -> None:
    """The audit and majority vote; keeps the votes for Dawid and Skene's model."""
    from audit import keep_rows, logistic_shares, measure
    from audit_tables import current_code

    import propml
    from propml.auditing.crossfit import split_rows

    options.folder.mkdir(parents=True, exist_ok=True)
    for name, X, truth, candidates in voted(options):
        kept = np.flatnonzero(candidates.sizes() > 0)
        given, marked = candidates[kept], candidates[kept].to_matrix() > 0
        false = truth[kept][marked] == 0
        report = propml.audit(X[kept], given)
        told = report.verdicts()
        share = (given.votes.toarray() / np.maximum(given.voters, 1)[:, None])[marked]
        found = {
            "audit": measure(false, -told.probability, told.verdict == "drop", told.confidence),
            "majority": measure(false, -share, share <= 0.5, 1 - share),
        }
        rows = [{"annotators": name, "method": method, **each} for method, each in found.items()]
        keep_rows(options.out, [{**row, "code": current_code()} for row in rows], 2)
        print(name, "sensitivity of the annotators:", np.round(report.reliability.sensitivity, 3))
        votes = given.annotations
        arrays = {
            "row": votes.row,
            "who": votes.annotator,
            "label": votes.label,
            "marked": marked,
            "truth": truth[kept],
            "logistic": logistic_shares(X[kept], marked, split_rows(X[kept], 5, 0)),
        }
        np.savez(options.folder / f"{name}.npz", **arrays)


def do_dawid_skene(options: argparse.Namespace) -> None:
    """Dawid and Skene's model of crowd-kit: every (row, label) is a task with the answers yes and no."""
    import pandas as pd
    from audit import keep_rows, measure
    from crowdkit.aggregation import DawidSkene

    for path in sorted(options.folder.glob("*.npz")):
        saved = np.load(path)
        marked, n_labels = saved["marked"], saved["marked"].shape[1]
        looked = {(row, who): set() for row, who in zip(saved["row"], saved["who"], strict=True)}
        for row, who, label in zip(saved["row"], saved["who"], saved["label"], strict=True):
            looked[row, who].add(label)
        answers = [
            (row * n_labels + j, who, int(j in said)) for (row, who), said in looked.items() for j in range(n_labels)
        ]
        frame = pd.DataFrame(answers, columns=["task", "worker", "label"])
        share = DawidSkene(n_iter=100).fit_predict_proba(frame).get(1)
        cells = np.zeros(marked.size)
        cells[share.index] = share
        probable = cells.reshape(marked.shape)[marked]
        found = measure(saved["truth"][marked] == 0, -probable, probable < 0.5, 1 - probable)
        keep_rows(options.out, [{"annotators": path.stem, "method": "dawid-skene", **found, "code": ""}], 2)


def do_crowdlab(options: argparse.Namespace) -> None:
    """CROWDLAB, label by label, with the answers yes and no."""
    from audit import keep_rows, measure
    from cleanlab.multiannotator import get_label_quality_multiannotator

    for path in sorted(options.folder.glob("*.npz")):
        saved = np.load(path)
        marked, people = saved["marked"], saved["who"].max() + 1
        share = saved["logistic"]
        true = np.where(marked, share, 0.0)
        for j in range(marked.shape[1]):
            answers = np.full((len(marked), people), np.nan)
            answers[saved["row"], saved["who"]] = 0
            voted = saved["label"] == j
            answers[saved["row"][voted], saved["who"][voted]] = 1
            seen = np.flatnonzero(~np.isnan(answers).all(axis=1))
            given = np.column_stack([1 - share[seen, j], share[seen, j]])
            try:
                told = get_label_quality_multiannotator(answers[seen], given, verbose=False)["label_quality"]
            except ValueError as error:  # a label that nobody, or everybody, proposed
                print(path.stem, j, "refused:", error)
                continue
            quality, yes = told["consensus_quality_score"].to_numpy(), told["consensus_label"].to_numpy() == 1
            true[seen, j] = np.where(yes, quality, 1 - quality)
        probable = true[marked]
        found = measure(saved["truth"][marked] == 0, -probable, probable < 0.5, 1 - probable)
        keep_rows(options.out, [{"annotators": path.stem, "method": "crowdlab", **found, "code": ""}], 2)
