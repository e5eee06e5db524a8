"""Many labels: quality and time of a network that scores a sample of them, in one run.

    python benchmarks/many_labels.py                           # beside the network that scores all labels
    python benchmarks/many_labels.py --large                   # 200 000 rows, 100 000 labels
    python benchmarks/many_labels.py --choices                 # what the defaults of λ and of the sample rest on
    python benchmarks/many_labels.py --all --device cuda       # all of this
    python benchmarks/many_labels.py --rows 2500 --no-folds    # the first in minutes, on two cores
    python benchmarks/many_labels.py --large --rows 5000 --labels 20000

Made-up rows have two topics; most of their true labels, words and false candidates come from these. Bibtex and Enron
(below ``PROPML_DATA``) get three false candidates a row, drawn by frequency. Precision at 1, 3 and 5 and
propensity-scored precision at 5 are measured on rows that no model saw, against true labels, in percent.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch

from propml import ProPMLClassifier, datasets
from propml.methods.many_labels import ManyLabelClassifier
from propml.metrics.top import precision_at_k, psp_at_k

WORDS_OF_LABEL, WORDS_OF_TOPIC, TOPICS_OF_ROW = 3, 10, 2


class Rows(NamedTuple):
    """Sparse counts of words, true labels and candidates, all with one row per example."""

    X: sp.csr_array
    truth: sp.csr_array
    candidates: sp.csr_array


def made_rows(n_rows: int, n_words: int, n_labels: int, n_topics: int, n_true: int, n_false: int, seed: int) -> Rows:
    """Rows of a world of topics: labels and words come from them, and so do most false candidates."""
    world, rng = np.random.default_rng(0), np.random.default_rng([1, seed])
    popularity = world.permutation(1 / (np.arange(n_labels) + 10.0))
    reach = np.cumsum(popularity)  # neighbours share a topic, so a topic is an interval of this scale
    edges = np.append(0.0, reach)[np.linspace(0, n_labels, n_topics + 1).astype(int)]
    words_of_label = world.integers(n_words, size=(n_labels, WORDS_OF_LABEL))
    words_of_topic = world.integers(n_words, size=(n_topics, WORDS_OF_TOPIC))

    def labels_at(point: np.ndarray) -> np.ndarray:
        return np.minimum(np.searchsorted(reach, point, side="right"), n_labels - 1)

    topics = np.searchsorted(edges[1:-1], reach[-1] * rng.random((n_rows, TOPICS_OF_ROW)), side="right")

    def labels_of_topics(number: int) -> np.ndarray:
        topic = topics[:, np.arange(number) % TOPICS_OF_ROW]
        return labels_at(edges[topic] + (edges[topic + 1] - edges[topic]) * rng.random(topic.shape))

    true = labels_of_topics(n_true)
    lookalikes = labels_of_topics(n_false - n_false // 3)
    strangers = labels_at(reach[-1] * rng.random((n_rows, n_false // 3)))
    of_labels = words_of_label[true].reshape(n_rows, -1)
    of_topics = words_of_topic[topics].reshape(n_rows, -1)
    noise = rng.integers(n_words, size=(n_rows, 10))
    kept = rng.random(of_labels.shape) < 0.8
    words = np.hstack([np.where(kept, of_labels, noise[:, :1]), of_topics, noise])
    truth = _marked(true, n_labels)
    candidates = truth + _marked(np.hstack([lookalikes, strangers]), n_labels)
    candidates.data[:] = 1
    return Rows(_marked(words, n_words, counts=True).astype(np.float32), truth, candidates)


def _marked(columns: np.ndarray, width: int, counts: bool = False) -> sp.csr_array:
    n_rows, per_row = columns.shape
    starts = np.arange(0, n_rows * per_row + 1, per_row)
    matrix = sp.csr_array((np.ones(columns.size, np.int8), columns.ravel(), starts), shape=(n_rows, width))
    matrix.sum_duplicates()
    if not counts:
        matrix.data[:] = 1
    return matrix


def real_rows(name: str) -> Rows:
    """A dataset of the registry, with three false candidates in each row."""
    data = datasets.load(name)
    rng, truth = np.random.default_rng(0), sp.csr_array(data.truth, dtype=np.int8)
    frequency = np.asarray(truth.sum(axis=0)).ravel() / truth.nnz
    false = rng.choice(truth.shape[1], size=(truth.shape[0], 3), p=frequency)
    candidates = truth + _marked(false, truth.shape[1])
    candidates.data[:] = 1
    return Rows(sp.csr_array(data.X), truth, candidates)


def parted(rows: Rows) -> tuple[Rows, Rows]:
    """Four fifths to learn from, and a fifth to measure on."""
    order = np.random.default_rng(1).permutation(rows.X.shape[0])
    cut = len(order) * 4 // 5
    return Rows(*(part[order[:cut]] for part in rows)), Rows(*(part[order[cut:]] for part in rows))


def measured(title: str, model: Any, train: Rows, test: Rows) -> float:
    """Fit, rank and print one line; the seconds of the fit."""
    start = time.perf_counter()
    model.fit(train.X, train.candidates)
    seconds = time.perf_counter() - start
    ours = isinstance(model, ManyLabelClassifier)
    top = model.predict_top(test.X, 5)[0] if ours else model.decision_function(test.X)
    values = [precision_at_k(test.truth, top, k) for k in (1, 3, 5)]
    values.append(psp_at_k(test.truth, top, 5, train=train.candidates))
    held = f"{100 * max(epoch['ndcg'] for epoch in model.history_):6.1f}" if ours else "      "
    print(f"  {title:34}" + " ".join(f"{100 * v:6.1f}" for v in values) + f" {held} {seconds:8.1f} s", flush=True)
    return seconds


def heading(name: str, train: Rows, test: Rows) -> None:
    shape = f"{train.X.shape[0]} + {test.X.shape[0]} rows, {train.X.shape[1]} words, {train.truth.shape[1]} labels"
    sizes = f"{train.truth.nnz / train.X.shape[0]:.1f} true, {train.candidates.nnz / train.X.shape[0]:.1f} candidates"
    print(f"{name}: {shape}, {sizes} a row\n" + " " * 36 + "   P@1    P@3    P@5  PSP@5   held     time", flush=True)


def beside_all_labels(device: str, n_rows: int, folds: bool) -> None:
    """The network that scores all labels, with folds and with one held-out part, and ours, on three datasets."""
    for name in ("topics", "bibtex", "enron"):
        rows = made_rows(n_rows, 500, 983, 30, 10, 10, seed=0) if name == "topics" else real_rows(name)
        train, test = parted(rows)
        heading(name, train, test)
        n, common = train.X.shape[0], {"device": device, "random_state": 0}
        one = [(np.arange(n // 10, n), np.arange(n // 10))]
        for title, model in {
            **({"all labels, 5 folds": ProPMLClassifier("propml", **common)} if folds else {}),
            "all labels, one held-out part": ProPMLClassifier("propml", cv=one, **common),
            "sample of 50": ManyLabelClassifier(n_sampled=50, **common),
            "sample of 200": ManyLabelClassifier(n_sampled=200, **common),
            "default (sample of 1000)": ManyLabelClassifier(**common),
            "default, BCE": ManyLabelClassifier("bce", **common),
        }.items():
            measured(title, model, train, test)


def large_rows(n_rows: int, n_labels: int) -> tuple[Rows, Rows]:
    """Twenty candidates a row, of which five are true; and 2000 rows to measure on."""
    shape = (1000, n_labels, max(20, n_labels // 100), 5, 25)
    return made_rows(n_rows, *shape, seed=0), made_rows(2000, *shape, seed=1)


def large(device: str, n_rows: int, n_labels: int) -> None:
    """Time per epoch, memory and precision where no matrix of rows × labels would fit."""
    train, test = large_rows(n_rows, n_labels)
    heading("large", train, test)
    model = ManyLabelClassifier(device=device, random_state=0, verbose=True)
    epochs_took = measured("default", model, train, test) / len(model.history_)
    per_gib = 2**30 if sys.platform == "darwin" else 2**20
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_gib
    gpu = f"{torch.cuda.max_memory_allocated() / 2**30:.2f} GiB" if torch.cuda.is_available() else "none"
    told = f"{len(model.history_)} epochs of {epochs_took:.1f} s; peak memory: host {host:.2f} GiB, GPU {gpu}"
    print(f"  {told}", flush=True)


def choices(device: str, n_rows: int, n_labels: int) -> None:
    """What the defaults of λ and of the sample are taken from: the column "held" (nDCG@5 of held-out candidates)."""
    train, test = large_rows(n_rows, n_labels)
    heading("choices", train, test)
    lam = 1 / (train.candidates.nnz / n_rows)
    common: dict[str, Any] = {"device": device, "random_state": 0, "epochs": 10}
    for factor in (3, 1, 1 / 3, 1 / 10, 1 / 100):
        measured(f"λ = {factor:.2f} / mean |S|", ManyLabelClassifier(lam=factor * lam, **common), train, test)
    for frequent in (0.0, 0.25, 0.5, 0.75):
        measured(f"{frequent:.0%} frequent labels", ManyLabelClassifier(frequent=frequent, **common), train, test)
    for n_sampled in (100, 300, 3000):
        measured(f"sample of {n_sampled}", ManyLabelClassifier(n_sampled=n_sampled, **common), train, test)
    for dropout in (0.0, 0.5):
        measured(f"dropout {dropout}", ManyLabelClassifier(dropout=dropout, **common), train, test)
    measured("table_rate 0.05", ManyLabelClassifier(table_rate=0.05, **common), train, test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--choices", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--rows", type=int, help="by default 200 000 of --large, else 20 000")
    parser.add_argument("--labels", type=int, default=100_000, help="of --large and --choices")
    parser.add_argument("--no-folds", action="store_true", help="leave out the slowest, with 15 networks")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    if asked.all or not (asked.large or asked.choices):
        beside_all_labels(asked.device, asked.rows or 20_000, not asked.no_folds)
    if asked.all or asked.choices:
        choices(asked.device, asked.rows or 20_000, asked.labels)
    if asked.all or asked.large:
        large(asked.device, asked.rows or 200_000, asked.labels)


if __name__ == "__main__":
    main()
