"""How fast the baselines are: ratios against plain transcriptions and scikit-multilearn in one run, and their growth.

Run with ``python benchmarks/methods.py``. With ``PROPML_DATA`` set, PML-NI is timed on the real Bibtex,
otherwise on random data of its shape; scikit-multilearn(-ng) is compared where it can be imported.
"""

import argparse
import importlib.util
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.datasets import load
from propml.methods import METHODS, method_class
from propml.methods.ml_knn import MLkNNClassifier
from propml.methods.pml_ni import PMLNIClassifier

BASELINES = ("ridge", "kernel-ridge", "cplst", "ml-knn", "pml-ni")


def timed(call: Callable[[], Any], repeats: int = 1) -> tuple[Any, float]:
    """What a call gives, and the seconds of its best run."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return result, best


def random_case(n: int, d: int, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Features in [-1, 1] and labels that depend on them, about a fifth of all."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, d))
    scores = X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels))
    return X, (scores > np.quantile(scores, 0.8)).astype(np.int64)


def ml_knn_by_loops(X: np.ndarray, S: np.ndarray, test: np.ndarray, k: int = 10, s: float = 1.0) -> np.ndarray:
    """ML-kNN as it is defined, row by row and label by label."""

    def neighbours(x: np.ndarray, own: int | None = None) -> np.ndarray:
        distances = ((X - x) ** 2).sum(axis=1)
        if own is not None:
            distances[own] = np.inf
        return np.argsort(distances, kind="stable")[:k]

    n, n_labels = S.shape
    counts = [S[neighbours(X[i], i)].sum(axis=0) for i in range(n)]
    test_counts = [S[neighbours(x)].sum(axis=0) for x in test]
    scores = np.zeros((len(test), n_labels))
    for j in range(n_labels):
        seen = np.zeros((2, k + 1))
        for i in range(n):
            seen[S[i, j], counts[i][j]] += 1
        prior = (s + seen[1].sum()) / (2 * s + n)
        absent, present = ((s + row) / (s * (k + 1) + row.sum()) for row in seen)
        for t, count in enumerate(test_counts):
            for_it, against = prior * present[count[j]], (1 - prior) * absent[count[j]]
            scores[t, j] = for_it / (for_it + against)
    return scores


def compare_ml_knn(n: int = 4000, d: int = 50, n_labels: int = 20) -> None:
    """Ours, plain loops and scikit-multilearn: time, and what they disagree about."""
    X, S = random_case(n + n // 4, d, n_labels)
    test, X, train_labels = X[n:], X[:n], S[:n]
    print(f"ML-kNN, {n} × {d} × {n_labels}, scores of {len(test)} new rows")
    ours, seconds = timed(lambda: MLkNNClassifier().fit(X, train_labels).decision_function(test), 3)
    print(f"  ours                      {seconds:8.3f} s")
    loops, loop_seconds = timed(lambda: ml_knn_by_loops(X, train_labels, test))
    print(
        f"  plain loops               {loop_seconds:8.3f} s {loop_seconds / seconds:8.1f} times slower; "
        f"scores differ by at most {np.abs(ours - loops).max():.1e}"
    )
    if importlib.util.find_spec("skmultilearn") is None:
        print("  scikit-multilearn is not installed: not compared")
        return
    from skmultilearn.adapt import MLkNN

    def theirs() -> np.ndarray:
        model = MLkNN(k=10, s=1.0).fit(X, sp.lil_matrix(train_labels))
        return model.predict_proba(test).toarray()

    their_scores, their_seconds = timed(theirs)
    differ = ((their_scores > 0.5) != (ours > 0.5)).mean()
    print(
        f"  scikit-multilearn         {their_seconds:8.3f} s {their_seconds / seconds:8.1f} times slower; "
        f"{100 * differ:.2f} % of the labels differ (it counts each row among its own neighbours)"
    )


def pml_ni_transcribed(X: np.ndarray, S: np.ndarray, lam: float = 10.0, beta: float = 0.5, gamma: float = 0.5) -> Any:
    """The published updates as they are written: a solve and a singular value decomposition in each."""
    phi = np.hstack([X, np.ones((len(X), 1))])
    gram, moments, identity = phi.T @ phi, phi.T @ S, np.eye(phi.shape[1])
    U, V, L = np.zeros((3, *moments.shape))
    mu = 1e-4
    for iteration in range(1, 501):
        before, n_iter = U, iteration
        W = np.linalg.solve(gram + (lam + mu) * identity, moments + mu * (U + V) + L)
        left, values, right = np.linalg.svd(W - V - L / mu, full_matrices=False)
        U = (left * np.maximum(values - beta / mu, 0)) @ right
        rest = W - U - L / mu
        V = np.sign(rest) * np.maximum(np.abs(rest) - gamma / mu, 0)
        settled = mu * np.linalg.norm(U - before) / np.linalg.norm(W) < 1e-5
        equal = np.linalg.norm(W - U - V) / np.linalg.norm(W) < 1e-7
        mu = min(1.1 * mu, 1e10) if settled else mu
        L = L + mu * (U + V - W)
        if settled and equal:
            break
    return U, n_iter


def compare_pml_ni() -> None:
    """Ours against the transcription, on four fifths of Bibtex."""
    if os.environ.get("PROPML_DATA"):
        data = load("bibtex")
        X, S, name = 2 * data.X.toarray() - 1, data.truth.astype(np.int64), "Bibtex"  # its features are 0 and 1
    else:
        rng = np.random.default_rng(0)
        X, S = np.where(rng.random((7395, 1836)) < 0.04, 1.0, -1.0), (rng.random((7395, 159)) < 0.015).astype(np.int64)
        name = "random data of Bibtex's shape"
    S = S | (np.random.default_rng(0).random(S.shape) < 0.01)
    n = len(X) * 4 // 5
    print(f"PML-NI, {name}, {n} × {X.shape[1]} × {S.shape[1]}, fit")
    model, seconds = timed(lambda: PMLNIClassifier().fit(X[:n], S[:n]))
    print(f"  ours                      {seconds:8.2f} s {model.n_iter_:8} iterations")
    (U, iterations), their_seconds = timed(lambda: pml_ni_transcribed(X[:n], S[:n]))
    print(
        f"  published updates         {their_seconds:8.2f} s {iterations:8} iterations, "
        f"{their_seconds / seconds:.1f} times slower; weights differ by at most {np.abs(U - model.coef_).max():.1e}"
    )


def growth(n: int = 2000, d: int = 200, n_labels: int = 20) -> None:
    """The time of fit and scores when rows, features or labels double."""
    shapes = {
        "base": (n, d, n_labels),
        "rows": (2 * n, d, n_labels),
        "features": (n, 2 * d, n_labels),
        "labels": (n, d, 2 * n_labels),
    }
    print(f"fit and scores from {n} × {d} × {n_labels} on: seconds, then times as long with twice the")
    print(f"  {'':24}{'base':>10}{'rows':>10}{'features':>10}{'labels':>10}")
    for name in BASELINES:
        times = []
        for shape in shapes.values():
            X, S = random_case(*shape)
            times.append(timed(lambda X=X, S=S, name=name: method_class(name)().fit(X, S).decision_function(X), 3)[1])
        ratios = "".join(f"{t / times[0]:10.1f}" for t in times[1:])
        print(f"  {METHODS[name].title:24}{times[0]:9.3f}s{ratios}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["ml-knn", "pml-ni", "growth"], help="ml-knn, pml-ni, growth")
    parts = {"ml-knn": compare_ml_knn, "pml-ni": compare_pml_ni, "growth": growth}
    for part in parser.parse_args().parts:
        parts[part]()
