"""How much the fleet gains: hundreds of networks trained at once against one after the other.

``python benchmarks/fleet.py`` prints ratios measured in one run, on a GPU where there is one. The sizes are those of
MIRFlickr (5000 × 100 × 7) and YeastCC (2434 × 6139 × 50, sparse on the CPU); the numbers in them are random, which
costs the same. With ``--large`` also YeastBP (4257 × 6139 × 217).
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch

from propml.folds import Fold
from propml.losses import power_loss, propml_loss
from propml.neural.network import Recipe
from propml.neural.rows import DenseRows, make_rows
from propml.neural.training import StackTrainer

SHAPES = {"MIRFlickr": (5000, 100, 7, 1.0), "YeastCC": (2434, 6139, 50, 0.015), "YeastBP": (4257, 6139, 217, 0.015)}
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def data(name: str):
    n, d, c, filled = SHAPES[name]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d)) if filled == 1 else sp.random_array((n, d), density=filled, rng=rng, format="csr")
    return X, torch.as_tensor((rng.random((n, c)) < 0.3).astype(np.int8), device=DEVICE)


def folds(n: int) -> list[Fold]:
    parts = np.array_split(np.random.default_rng(0).permutation(n), 5)
    return [Fold(np.concatenate([p for g, p in enumerate(parts) if g != f]), parts[f], f) for f in range(5)]


def seconds(step: Callable[[], None], repeats: int) -> float:
    """Of one step: on a GPU the median of three rounds, on a CPU, where others may work too, the least of many."""
    for _ in range(3):
        step()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    times = []
    for _ in range(3 if DEVICE.type == "cuda" else 25):
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        if DEVICE.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() - start) / repeats)
    return float(np.median(times) if DEVICE.type == "cuda" else min(times))


def fleet_step(rows, candidates, n_lams: int, *, graphs: bool, repeats: int, hidden=(256, 256)) -> float:
    """Seconds per training step of 5 folds × ``n_lams`` networks."""
    settings = [{"lam": lam, "order": 1.0} for lam in np.geomspace(0.01, 1, n_lams)]
    trainer = StackTrainer(rows, candidates, folds(len(candidates)), Recipe(hidden), settings, (0,), power_loss)
    if graphs and DEVICE.type == "cuda":
        trainer.capture()
    trainer._shuffle()

    def step() -> None:
        trainer.at.zero_()
        if trainer.graph is None:
            trainer._step()
        else:
            trainer.graph.replay()

    return seconds(step, repeats)


def single_step(X, candidates, *, repeats: int, hidden=(256, 256)) -> float:
    """Seconds per step of one network in an ordinary PyTorch loop."""
    dense = torch.as_tensor(X.toarray() if sp.issparse(X) else X, dtype=torch.float32, device=DEVICE)
    widths = [dense.shape[1], *hidden, candidates.shape[1]]
    layers: list[torch.nn.Module] = []
    for a, b in itertools.pairwise(widths):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Dropout(0.5)]
    network = torch.nn.Sequential(*layers[:-2]).to(DEVICE)
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3, fused=True)
    order = torch.randperm(len(dense), device=DEVICE)

    def step() -> None:
        batch = order[:128]
        optimiser.zero_grad()
        propml_loss(network(dense[batch]), candidates[batch], lam=0.1).mean().backward()
        optimiser.step()

    return seconds(step, repeats)


def gpu(name: str) -> None:
    X, candidates = data(name)
    rows = make_rows(X, DEVICE)
    many = fleet_step(rows, candidates, 20, graphs=True, repeats=50)
    few = fleet_step(rows, candidates, 1, graphs=True, repeats=50)
    eager = fleet_step(rows, candidates, 20, graphs=False, repeats=10)
    alone = single_step(X, candidates, repeats=50)
    print(f"{name}, {torch.cuda.get_device_name()}: a step of 5 folds × 20 λ takes {1e3 * many:.3f} ms")
    print(f"  against 5 folds × 1 λ: {many / few:.2f} × the time ({1e3 * few:.3f} ms)")
    print(f"  against the same without a CUDA graph: {eager / many:.1f} × faster ({1e3 * eager:.2f} ms)")
    print(f"  against 100 networks one after the other: {100 * alone / many:.0f} × faster ({1e3 * alone:.2f} ms each)")


def cpu() -> None:
    X, candidates = data("MIRFlickr")
    many = fleet_step(make_rows(X, DEVICE), candidates, 7, graphs=False, repeats=1)
    alone = single_step(X, candidates, repeats=5)
    print(f"MIRFlickr, {torch.get_num_threads()} threads: 35 networks at once {35 * alone / many:.1f} × as fast")


def sparse(name: str) -> None:
    X, candidates = data(name)
    by_sparse = fleet_step(make_rows(X, DEVICE), candidates, 1, graphs=False, repeats=1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    dense = DenseRows(torch.as_tensor(X.toarray(), dtype=torch.float32))
    by_dense = fleet_step(dense, candidates, 1, graphs=False, repeats=1)
    print(f"{name}: sparse features {by_dense / by_sparse:.1f} × as fast as dense ones; peak {peak:.1f} GiB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--large", action="store_true", help="also YeastBP")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if DEVICE.type == "cuda":
        for name in ("MIRFlickr", "YeastCC", *(["YeastBP"] if options.large else [])):
            gpu(name)
        return
    cpu()
    for name in ("YeastCC", *(["YeastBP"] if options.large else [])):
        sparse(name)


if __name__ == "__main__":
    main()
