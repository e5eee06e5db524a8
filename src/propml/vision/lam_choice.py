"""λ from candidates: each value is tried for some epochs, and judged by the candidates of images held out.

The values lie around the balanced λ, at which an average image's excluded labels are pushed as hard as its candidates
are pulled (:func:`propml.neural.balance.balanced_lam`). They reach further up than those for tables: flips that do not
depend on the image make candidate sets large and mostly false, and the excluded labels are what is sure.

Short runs favour small λ, at which all candidates are learned, the false ones by heart: that takes time and harms late.
So where held-out candidates cannot tell some λ apart, the one that long runs on photographs do best with is taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import write_whole
from propml.neural.balance import balanced_lam
from propml.targets import Candidates
from propml.vision.recipe import Recipe

__all__ = ["RULE", "choose_lam", "lams_to_try"]

# How λ is chosen, of which there were others before: raise it with every change, so that stored results are told apart.
RULE = 2

# Multiples of the balanced λ.
FACTORS = (1 / 3, 1.0, 3.0, 9.0)
TYPICAL = 3.0  # the one to take where nothing speaks against it


def lams_to_try(candidates: Candidates, recipe: Recipe) -> list[float]:
    """The λ that ``lam="auto"`` tries.

    >>> c = Candidates.from_matrix([[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])
    >>> [round(lam, 3) for lam in lams_to_try(c, Recipe())]
    [0.033, 0.1, 0.3, 0.9]
    """
    order = recipe.order if recipe.loss == "power" else 1.0
    balanced = balanced_lam(candidates, order)
    return [float(f"{factor * balanced:.4g}") for factor in FACTORS]


def choose_lam(
    candidates: Candidates,
    recipe: Recipe,
    path: Path,
    try_lam: Callable[[float], dict[str, Any]],
    *,
    writes: bool = True,
) -> float:
    """Try all λ and take one; what was tried is kept in a JSON file, from which a later start reads it.

    Parameters
    ----------
    try_lam : callable
        ``try_lam(lam)`` trains for a while and returns at least ``"worth"``, and ``"precisions"`` where the worth is
        the mean of these. With them all λ are equals that are not behind the best one by more than the standard error
        of that difference, and the equal that is nearest to the typical one is taken; without them, the best one.
    path : Path
        Of the JSON file.
    writes : bool
        Whether this process writes it.
    """
    if path.exists():
        return float(json.loads(path.read_text(encoding="utf-8"))["lam"])
    tried = [{"lam": lam, **try_lam(lam)} for lam in lams_to_try(candidates, recipe)]
    best = max(tried, key=lambda entry: entry["worth"])
    chosen = _nearest_equal(tried, best) if "precisions" in best else best
    if writes:
        shown = [{name: value for name, value in entry.items() if name != "precisions"} for entry in tried]
        kept = {"lam": chosen["lam"], "select": recipe.select, "criterion": recipe.criterion, "tried": shown}
        write_whole(path, (json.dumps(kept, indent=1) + "\n").encode())
    return float(chosen["lam"])


def _nearest_equal(tried: list[dict[str, Any]], best: dict[str, Any]) -> dict[str, Any]:
    """Of those that are as good as the best one, the nearest to the typical λ; notes how far each is behind."""
    for entry in tried:
        entry["behind"], entry["error"] = _behind(best["precisions"], entry["precisions"])
    equals = [
        (abs(math.log(factor / TYPICAL)), entry["behind"], entry)
        for factor, entry in zip(FACTORS, tried, strict=True)
        if entry["behind"] <= entry["error"]
    ]
    return min(equals, key=lambda equal: equal[:2])[2]


def _behind(best: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Mean and standard error of the differences; one class, or none, tells nothing of the error."""
    gap = np.asarray(best, dtype=np.float64) - other
    if len(gap) < 2:
        return float(gap.sum()), 0.0
    return float(gap.mean()), float(gap.std(ddof=1) / len(gap) ** 0.5)
