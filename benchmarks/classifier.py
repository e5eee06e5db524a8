"""How long a default fit takes beside a random forest, in one run: ``python benchmarks/classifier.py``.

Ratios of ``ProPMLClassifier().fit`` to ``RandomForestClassifier(200).fit`` on the same rows, medians of five runs of
each that take turns; on a GPU seconds as well.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import RandomForestClassifier

from propml import ProPMLClassifier

RUNS = 5
SHAPES = ((450, 72, 6), (1800, 294, 6), (3750, 100, 7))


def problem(n: int, d: int, c: int) -> tuple[np.ndarray, np.ndarray]:
    """Features, and candidates: true labels with a fifth of the others flipped in."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    truth = X[:, :c] + 0.5 * rng.normal(size=(n, c)) > 0.5
    truth[np.arange(n), rng.integers(c, size=n)] = True
    return X, (truth | (rng.random((n, c)) < 0.2)).astype(int)


def seconds(model: Any, X: np.ndarray, S: np.ndarray) -> float:
    """The time of one fit."""
    start = time.perf_counter()
    model.fit(X, S)
    return time.perf_counter() - start


def main() -> None:
    """Warm up, measure, print."""
    ProPMLClassifier(epochs=2).fit(*problem(100, 5, 4))
    on_gpu = torch.cuda.is_available()
    for shape in SHAPES:
        data = problem(*shape)
        models: dict[Any, Any] = {jobs: RandomForestClassifier(200, n_jobs=jobs) for jobs in (1, 2)}
        models |= {effort: ProPMLClassifier(effort=effort, random_state=0) for effort in ("fast", "auto")}
        runs = [{name: seconds(model, *data) for name, model in models.items()} for _ in range(RUNS)]
        spent = {name: float(np.median([run[name] for run in runs])) for name in models}
        told = ", ".join(
            f"effort={effort!r} {ours / spent[1]:.1f} × a forest on one core, {ours / spent[2]:.1f} × on two"
            + (f", {ours:.2f} s" if on_gpu else "")
            for effort, ours in spent.items()
            if effort not in (1, 2)
        )
        print(f"{' × '.join(map(str, shape))}: {told}", flush=True)


if __name__ == "__main__":
    main()
