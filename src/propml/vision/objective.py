"""The loss that a recipe asks for, as a module: logits and candidates in, one number out; and its λ.

Where λ is "auto", several are tried, and the one that is best on held-out candidates is taken. They lie around the
balanced λ, at which an average image's excluded labels are pushed as hard as its candidates are pulled
(:func:`propml.neural.balance.balanced_lam`), by powers of three to both sides.
"""

from __future__ import annotations

import numpy as np

from propml.losses import CandidateLoss, UnbiasedLoss, asl_loss, bce_loss, power_loss, propall_loss, propml_loss
from propml.neural.balance import balanced_lam
from propml.targets import Candidates
from propml.vision.recipe import VisionRecipe

__all__ = ["estimate_flip_rate", "lams_to_try", "make_objective"]

FACTORS = (1 / 3, 1.0, 3.0, 9.0)  # of the balanced λ


def make_objective(recipe: VisionRecipe, lam: float, candidates: Candidates) -> CandidateLoss:
    """The mean over images of the recipe's loss.

    Parameters
    ----------
    lam : float
        Weight of the excluded labels; ``unbiased`` has none.
    candidates : Candidates
        Of the training images; what the flip rate is estimated from where the recipe does not give it.
    """
    if recipe.loss == "unbiased":
        rate = estimate_flip_rate(candidates) if recipe.flip_rate is None else recipe.flip_rate
        return UnbiasedLoss(rate)
    if recipe.loss == "asl":
        return CandidateLoss(
            asl_loss,
            lam=lam,
            gamma_positive=recipe.gamma_positive,
            gamma_negative=recipe.gamma_negative,
            clip=recipe.clip,
            detach_focus=True,  # as in the training scripts of ASL and Query2Label
        )
    if recipe.loss == "power":
        return CandidateLoss(power_loss, lam=lam, order=recipe.order)
    function = {"propml": propml_loss, "bce": bce_loss, "propall": propall_loss}[recipe.loss]
    return CandidateLoss(function, lam=lam)


def lams_to_try(candidates: Candidates, recipe: VisionRecipe) -> list[float]:
    """The λ to choose from; one where the recipe or the loss leaves no choice.

    >>> c = Candidates.from_matrix([[1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]])
    >>> [round(lam, 3) for lam in lams_to_try(c, VisionRecipe())], lams_to_try(c, VisionRecipe(loss="bce"))
    ([0.033, 0.1, 0.3, 0.9], [1.0])
    """
    if not recipe.chooses_lam:
        return [1.0 if recipe.lam == "auto" else float(recipe.lam)]
    balanced = balanced_lam(candidates, recipe.order if recipe.loss == "power" else 1.0)
    return [float(f"{factor * balanced:.4g}") for factor in FACTORS]


def estimate_flip_rate(candidates: Candidates) -> float:
    """P(candidate | not true) from candidates alone: how often the rarest of the labels is a candidate.

    With one flip rate ρ for all, a label that is true with frequency π is a candidate with π + (1 − π) ρ: the rarest
    label's frequency is the closest to ρ, and above it by less than its π.

    >>> estimate_flip_rate(Candidates.from_matrix([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]]))
    0.5
    """
    states = candidates.states
    known = len(candidates) - np.asarray((states < 0).sum(axis=0)).ravel()
    share = np.asarray((states > 0).sum(axis=0)).ravel() / np.maximum(known, 1)
    return float(min(share[known > 0].min(), 0.95))
