"""How fast the methods are: ratios against plain transcriptions and scikit-multilearn in one run, and their growth.

Run with ``python benchmarks/methods.py``, or with the names of some parts only. With ``PROPML_DATA`` set, PML-NI is
timed on the real Bibtex, otherwise on random data of its shape; scikit-multilearn(-ng) is compared where it can be
imported. The transcriptions are in ``benchmarks/method_transcriptions.py``.
"""

import argparse
import importlib.util
import multiprocessing
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import method_transcriptions as transcribed
import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from propml.datasets import load
from propml.methods import METHODS, method_class
from propml.methods.cplst import CPLSTClassifier
from propml.methods.fpml import FPMLClassifier
from propml.methods.linear_algebra import InnerProducts
from propml.methods.ml_knn import MLkNNClassifier
from propml.methods.particle_pairs import count_votes, train_pairs
from propml.methods.particle_propagation import credible_labels
from propml.methods.pml_lc_fp import ranking_costs
from propml.methods.pml_lrs import PMLLRSClassifier
from propml.methods.pml_ni import PMLNIClassifier

# Rows, features, labels.
ML_KNN = (4000, 50, 20)
CPLST = FPML = PML_LRS = (1700, 1000, 53)  # the shape of Enron
PARTICLE = (400, 30, 12)
PARTICLE_FOLDS = 10
RANKING = (3000, 300, 150)
GROWTH = (2000, 200, 20)
# ProPML is a network, measured by benchmarks/fleet.py.
GROWING = [name for name in METHODS if name != "propml"]


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


def with_new_rows(n: int, d: int, n_labels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features and labels of n rows, and the features of a quarter as many new ones."""
    X, S = random_case(n + n // 4, d, n_labels)
    return X[:n], S[:n], X[n:]


def headline(what: str, shape: tuple[int, ...]) -> None:
    """What is compared, and at which size."""
    print(f"{what}, {' × '.join(map(str, shape))}")


def ours_took(seconds: float, note: str = "") -> None:
    """The line of our time."""
    print(f"  {'ours':25} {seconds:9.4f} s {note}".rstrip())


def theirs_took(name: str, seconds: float, ours: float, note: str) -> None:
    """The line of another way to compute the same."""
    print(f"  {name:25} {seconds:9.4f} s {seconds / ours:8.1f} times ours; {note}", flush=True)


def apart(ours: np.ndarray, theirs: np.ndarray) -> str:
    """How far two answers are from each other."""
    return f"scores differ by at most {np.abs(ours - theirs).max():.1e}"


def compare_ml_knn() -> None:
    """Ours, plain loops and scikit-multilearn: time, and how far each is from the definition."""
    X, S, test = with_new_rows(*ML_KNN)
    headline(f"ML-kNN, fit and scores of {len(test)} new rows", ML_KNN)
    ours, seconds = timed(lambda: MLkNNClassifier().fit(X, S).decision_function(test), 3)
    ours_took(seconds)
    loops, loop_seconds = timed(lambda: transcribed.ml_knn_by_loops(X, S, test))
    theirs_took("definition, plain loops", loop_seconds, seconds, apart(ours, loops))
    if importlib.util.find_spec("skmultilearn") is None:
        print("  scikit-multilearn is not installed: not compared (pip install --no-deps scikit-multilearn-ng)")
        return
    from skmultilearn.adapt import MLkNN

    def theirs() -> np.ndarray:
        model = MLkNN(k=10, s=1.0).fit(X, sp.lil_matrix(S))
        return model.predict_proba(test).toarray()

    their_scores, their_seconds = timed(theirs)
    differ = ((their_scores > 0.5) != (loops > 0.5)).mean()
    theirs_took(
        "scikit-multilearn",
        their_seconds,
        seconds,
        f"differs from the definition by up to {np.abs(their_scores - loops).max():.2f} and in {100 * differ:.2f} % of "
        f"the labels (it counts each row among its own neighbours)",
    )


def compare_cplst() -> None:
    """Half as many codes as labels, so that the codes matter."""
    X, S, test = with_new_rows(*CPLST)
    n_codes = CPLST[2] // 2
    headline(f"CPLST, {n_codes} codes, fit and scores", CPLST)
    ours, seconds = timed(lambda: CPLSTClassifier(code_length=n_codes).fit(X, S).decision_function(test), 3)
    ours_took(seconds)
    theirs, their_seconds = timed(lambda: transcribed.cplst(X, S, test, n_codes), 3)
    theirs_took("published formulas", their_seconds, seconds, apart(ours, theirs))


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
    headline(f"PML-NI, {name}, fit", (n, X.shape[1], S.shape[1]))
    model, seconds = timed(lambda: PMLNIClassifier().fit(X[:n], S[:n]))
    ours_took(seconds, f"{model.n_iter_} iterations")
    (U, n_iter), their_seconds = timed(lambda: transcribed.pml_ni(X[:n], S[:n]))
    note = f"{n_iter} iterations, {apart(model.decision_function(X[n:]), transcribed.with_ones(X[n:]) @ U)}"
    theirs_took("published updates", their_seconds, seconds, note)


def compare_fpml() -> None:
    """The same start and the same rule to stop, so the same path."""
    X, S, test = with_new_rows(*FPML)
    headline("fPML (reconstructed), fit", FPML)
    model, seconds = timed(lambda: FPMLClassifier().fit(X, S), 2)
    ours_took(seconds, f"{model.n_iter_} iterations, objective {model.objective_[-1]:.6f}")
    (W, objective, n_iter), their_seconds = timed(lambda: transcribed.fpml(X, S, model.label_factor_.shape[1]))
    note = f"{n_iter} iterations, objective {objective:.6f}, "
    note += apart(model.decision_function(test), transcribed.with_ones(test) @ W)
    theirs_took("updates as written", their_seconds, seconds, note)


def compare_pml_lrs() -> None:
    """The same settings and number of iterations; we judge when to stop along the principal axes."""
    X, S, test = with_new_rows(*PML_LRS)
    headline("PML-LRS, fit", PML_LRS)
    model, seconds = timed(lambda: PMLLRSClassifier().fit(X, S), 2)
    ours_took(seconds, f"{model.n_iter_} iterations")
    settings = model.eta, model.beta, model.gamma, model.n_iter_
    Z, their_seconds = timed(lambda: transcribed.pml_lrs(X, S, *settings))
    note = f"as many iterations, {apart(model.decision_function(test), transcribed.with_ones(test) @ Z)}"
    theirs_took("updates as written", their_seconds, seconds, note)


def compare_particle() -> None:
    """Both stages: credible labels row by row, and the pairs in a loop over machines that see the features."""
    X, S, test = with_new_rows(*PARTICLE)
    candidates, folds = S == 1, np.arange(len(X)) % PARTICLE_FOLDS

    def credible() -> np.ndarray:
        return credible_labels(InnerProducts(X), candidates, k=10, alpha=0.95, threshold=0.9, folds=folds)

    headline(f"PARTICLE, stage 1, credible labels in {PARTICLE_FOLDS} folds", PARTICLE)
    ours, seconds = timed(credible, 3)
    ours_took(seconds)
    theirs, their_seconds = timed(lambda: transcribed.particle_propagation(X, S, folds))
    agree = f"{100 * (ours == theirs)[candidates].mean():.2f} % of the candidates are judged alike"
    theirs_took("published, row by row", their_seconds, seconds, agree)

    def votes() -> tuple[np.ndarray, dict[str, Any]]:
        machines = train_pairs(InnerProducts(X), ours, candidates, 1.0, 1e-3, virtual=False)
        return count_votes(test, machines, weighted=False), machines

    headline(f"PARTICLE, stage 2, pairwise machines and votes on {len(test)} new rows", PARTICLE)
    with threadpool_limits(limits=1, user_api="blas"):  # as PAR-MAP and PAR-VLS do
        (our_votes, machines), seconds = timed(votes, 3)
    ours_took(seconds, f"{len(machines['pairs'])} pairs")
    inputs = test if machines["rows"] is None else test @ machines["rows"].T
    first_won = machines["weights"] @ inputs.T + machines["bias"][:, None] > 0
    (their_votes, theirs_won), their_seconds = timed(
        lambda: transcribed.particle_votes(X, ours, candidates, test, lambda: SVC(kernel="linear", C=1.0))
    )
    agree, far = (first_won == theirs_won).mean(), np.abs(our_votes - their_votes).max()
    note = f"{100 * agree:.2f} % of the votes agree, a label has at most {far:.0f} more or fewer"
    theirs_took("loop of LIBSVM (release)", their_seconds, seconds, note)


def compare_ranking() -> None:
    """One evaluation of the loss that PML-lc and PML-fp share, and of its gradient."""
    X, S = random_case(*RANKING)
    rng, phi, candidates = np.random.default_rng(1), transcribed.with_ones(X), S == 1
    W = rng.normal(size=(phi.shape[1], S.shape[1])) / np.sqrt(phi.shape[1])
    confidences = np.where(candidates, rng.random(S.shape), 0.0)
    sizes = candidates.sum(axis=1, keepdims=True)
    per_pair = 1 / np.maximum(sizes * (S.shape[1] - sizes), 1)

    def sorted_rows() -> tuple[float, np.ndarray]:
        costs, slopes = ranking_costs(phi @ W, candidates, confidences)
        return float(np.vdot(per_pair * costs, confidences)), phi.T @ (per_pair * slopes)

    headline("PML-lc and PML-fp, one value and gradient of the ranking loss", RANKING)
    (value, gradient), seconds = timed(sorted_rows, 5)
    ours_took(seconds, f"value {value:.6f}")
    (their_value, their_gradient), their_seconds = timed(
        lambda: transcribed.ranking_by_pairs(phi, W, candidates, confidences), 2
    )
    far = np.abs(gradient - their_gradient).max() / np.abs(their_gradient).max()
    note = f"value differs by {abs(value / their_value - 1):.1e}, gradient by {far:.1e} of its largest entry"
    theirs_took("every pair", their_seconds, seconds, note)


def memory(which: str) -> float:
    """Mebibytes that this process has (``VmRSS``) or has had at most (``VmHWM``); nan where there is no /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(which)), float("nan"))


def grown(name: str, shape: tuple[int, int, int]) -> tuple[float, float]:
    """Seconds of fit and scores, and the mebibytes that they take at most; for a process of its own."""

    def run(X: np.ndarray, S: np.ndarray) -> None:
        method_class(name)().fit(X, S).decision_function(X)

    run(*random_case(60, 10, 4))  # libraries are read now, and not counted
    X, S = random_case(*shape)
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")  # the most that was held so far is forgotten
    before = memory("VmRSS")
    seconds = timed(lambda: run(X, S))[1]
    most = memory("VmHWM") - before
    return min(seconds, timed(lambda: run(X, S))[1]), most


def growth() -> None:
    """Time and memory of fit and scores when rows, features or labels double."""
    n, d, n_labels = GROWTH
    shapes = [GROWTH, (2 * n, d, n_labels), (n, 2 * d, n_labels), (n, d, 2 * n_labels)]
    headline("Growth of fit and scores on the same rows", GROWTH)
    print("  best of two runs; memory is the peak of resident memory (VmHWM) over what the process held with libraries")
    print(f"  and data before fit (data: {n * (d + n_labels) * 8 / 2**20:.1f} MiB), each case in a fresh process")
    axes = "".join(f"{axis:>10}" for axis in ("rows", "features", "labels"))
    print(f"  {'':13}{'':>10}{'times as long with twice the':>30}{'':>12}{'times as much with twice the':>30}")
    print(f"  {'':13}{'time':>10}{axes}{'memory':>12}{axes}")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["method_transcriptions", "propml.datasets", *(METHODS[m].module for m in GROWING)])
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as processes:
        for name in GROWING:
            times, peaks = zip(*processes.map(grown, [name] * len(shapes), shapes), strict=True)
            longer, more = ("".join(f"{v / max(x[0], 1e-9):10.1f}" for v in x[1:]) for x in (times, peaks))
            print(f"  {METHODS[name].title:13}{times[0]:8.3f} s{longer}{peaks[0]:8.1f} MiB{more}", flush=True)


PARTS = {
    "ml-knn": compare_ml_knn,
    "cplst": compare_cplst,
    "pml-ni": compare_pml_ni,
    "fpml": compare_fpml,
    "pml-lrs": compare_pml_lrs,
    "particle": compare_particle,
    "ranking": compare_ranking,
    "growth": growth,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=", ".join(PARTS))
    for part in parser.parse_args().parts:
        PARTS[part]()
