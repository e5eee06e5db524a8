"""λ from candidates: each value is tried for some epochs, and judged by the candidates of images held out.

The values lie around the balanced λ, at which an average image's excluded labels are pushed as hard as its candidates
are pulled (:func:`propml.neural.balance.balanced_lam`). They reach further up than those for tables: flips that do not
depend on the image make candidate sets large and mostly false, and the excluded labels are what is sure.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from propml.benchmark.durable import write_whole
from propml.neural.balance import balanced_lam
from propml.targets import Candidates
from propml.vision.recipe import Recipe

__all__ = ["choose_lam", "lams_to_try"]

# Multiples of the balanced λ.
FACTORS = (1 / 3, 1.0, 3.0, 9.0)


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
    """The λ of the highest worth; what was tried is kept in a JSON file, from which a later start reads it.

    Parameters
    ----------
    try_lam : callable
        ``try_lam(lam)`` trains for a while and returns at least ``"worth"``.
    path : Path
        Of the JSON file.
    writes : bool
        Whether this process writes it.
    """
    if path.exists():
        return float(json.loads(path.read_text(encoding="utf-8"))["lam"])
    tried = [{"lam": lam, **try_lam(lam)} for lam in lams_to_try(candidates, recipe)]
    best = max(tried, key=lambda entry: entry["worth"])
    if writes:
        kept = {"lam": best["lam"], "select": recipe.select, "criterion": recipe.criterion, "tried": tried}
        write_whole(path, (json.dumps(kept, indent=1) + "\n").encode())
    return float(best["lam"])
