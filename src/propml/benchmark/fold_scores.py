"""One method on one fold: trained on the candidates of the training rows, asked for the scores of the test rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from propml.benchmark.folds import Split
from propml.benchmark.rivals import benchmark_class
from propml.methods import CandidateClassifier
from propml.plain_values import plain
from propml.targets import Candidates
from propml.this_machine import runs_on_gpu

# What a method chose by itself, where it says so.
CHOSEN = ("lam_", "shares_", "threshold_")


@dataclass(frozen=True, eq=False)
class FoldScores:
    """What a method says about the test rows of a fold, before anybody looks at the truth.

    Attributes
    ----------
    scores : ndarray of float32, shape (n_test, n_labels)
    predicted : ndarray of uint8, shape (n_test, n_labels)
    seconds_fit, seconds_predict : float
    chosen : dict
        What was chosen on the way, such as λ; plain values that JSON can hold.
    """

    scores: np.ndarray
    predicted: np.ndarray
    seconds_fit: float
    seconds_predict: float
    chosen: dict[str, Any] = field(default_factory=dict)


def make_model(method: str, params: Mapping[str, Any], seed: int) -> CandidateClassifier:
    """A method or a rival by its name, with the seed where it draws random numbers.

    >>> make_model("ridge", {"alpha": 3.0}, seed=0)
    RidgeClassifier(alpha=3.0)
    """
    model = benchmark_class(method)(**params)
    return model.set_params(random_state=seed) if "random_state" in model.get_params() else model


def score_fold(model: CandidateClassifier, X: Any, candidates: Candidates, split: Split) -> FoldScores:
    """Fit a method on the training rows and let it score the test rows; it is given no true label."""
    train, test = split
    start = time.perf_counter()
    model.fit(X[train], candidates[train])
    fitted = time.perf_counter()
    scores = model.decision_function(X[test])
    scored = time.perf_counter()
    return FoldScores(
        scores.astype(np.float32),
        model.predict(X[test]).astype(np.uint8),
        fitted - start,
        scored - fitted,
        {name.removesuffix("_"): plain(getattr(model, name)) for name in CHOSEN if hasattr(model, name)},
    )


def uses_gpu(model: CandidateClassifier) -> bool:
    """Whether a method would run on a GPU here."""
    return runs_on_gpu(model.get_params().get("device", "cpu"))
