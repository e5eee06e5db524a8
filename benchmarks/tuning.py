"""How much a rung gains by being one stacked model: ``python benchmarks/tuning.py``.

A rung of 27 trials (3 folds each, 256-256 networks that differ in λ, order, learning rate and weight decay) trains for
three epochs at once, and one trial after the other; and as a user would write it, one network after the other in an
ordinary PyTorch loop. Ratios are measured in one run. The sizes are those of the paper's tables, the numbers random.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable

import numpy as np
import torch

from propml.losses import power_loss
from propml.neural.criteria import average_precision_loss
from propml.tuning.rungs import DeviceTable, Rung
from propml.tuning.tasks import TableData

SHAPES = {"birds": (351, 260, 19), "scene": (2407, 294, 6), "MIRFlickr": (5000, 100, 7)}
EPOCHS = 3


def trials(count: int) -> list[dict]:
    rng = np.random.default_rng(0)
    return [
        {
            "loss": "power",
            "hidden": (256, 256),
            "dropout": 0.5,
            "lam": float(10 ** rng.uniform(-2, 0)),
            "order": float(rng.random()),
            "learning_rate": float(10 ** rng.uniform(-4, -2)),
            "weight_decay": float(10 ** rng.uniform(-5, -1)),
        }
        for _ in range(count)
    ]


def plain_loop(networks: DeviceTable, trial: dict) -> None:
    """What one trial costs without any stacking: a network per fold, trained and judged in turn."""
    X = networks.rows.X
    for fold in networks.data.folds:
        layers: list[torch.nn.Module] = []
        for a, b in itertools.pairwise([X.shape[1], *trial["hidden"], networks.candidates.shape[1]]):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU(), torch.nn.Dropout(trial["dropout"])]
        network = torch.nn.Sequential(*layers[:-2]).to(X.device)
        optimiser = torch.optim.AdamW(
            network.parameters(), lr=trial["learning_rate"], weight_decay=trial["weight_decay"], fused=True
        )
        train, held = (torch.as_tensor(rows, device=X.device) for rows in (fold.train, fold.held))
        for _ in range(EPOCHS):
            network.train()
            for batch in train[torch.randperm(len(train), device=X.device)].split(128):
                loss = power_loss(network(X[batch]), networks.candidates[batch], lam=trial["lam"], order=trial["order"])
                optimiser.zero_grad(set_to_none=True)
                loss.mean().backward()
                optimiser.step()
            network.eval()
            with torch.no_grad():
                average_precision_loss(network(X[held]), networks.answers[held]).mean().item()


def seconds(work: Callable[[], object], device: torch.device) -> float:
    """The least of five; on the CPU processor time, which other programs on the machine do not lengthen."""
    clock = time.process_time if device.type == "cpu" else time.perf_counter
    times = []
    for _ in range(5):
        start = clock()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append(clock() - start)
    return min(times)


def compare(name: str, chosen: list[dict], few: int = 3) -> None:
    """Print what a trial costs in a rung, by itself (a few are enough to know), and network by network."""
    n, d, c = SHAPES[name]
    rng = np.random.default_rng(0)
    data = TableData(rng.normal(size=(n, d)), (rng.random((n, c)) < 0.3).astype(int))
    networks = DeviceTable(data)

    def rung(some: list[dict]) -> None:
        Rung(networks, some, EPOCHS).train_to(EPOCHS)

    together = seconds(lambda: rung(chosen), networks.device) / len(chosen)
    alone = seconds(lambda: [rung([one]) for one in chosen[:few]], networks.device) / few
    plain = seconds(lambda: [plain_loop(networks, one) for one in chosen[:few]], networks.device) / few
    threads = torch.get_num_threads()
    print(
        f"{name} ({n} × {d}, {c} labels), {networks.device}, {threads} thread{'s' * (threads > 1)}: a rung of "
        f"{len(chosen)} trials as one stacked model costs {1e3 * together:.0f} ms a trial; "
        f"one trial at a time {alone / together:.1f} × that, one network at a time {plain / together:.1f} ×"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["birds", "scene"], choices=list(SHAPES))
    parser.add_argument("--trials", type=int, default=27)
    options = parser.parse_args()
    for name in options.datasets:
        compare(name, trials(options.trials))


if __name__ == "__main__":
    main()
