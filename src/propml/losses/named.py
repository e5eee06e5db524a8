"""The losses by name, with where they stand between BCE and ProPML."""

from collections.abc import Callable

from torch import Tensor

from propml.losses.asl import asl_loss
from propml.losses.bce import bce_loss
from propml.losses.power import power_loss
from propml.losses.propall import propall_loss
from propml.losses.propml import propml_loss
from propml.losses.ranking import rank_loss

__all__ = ["LOSSES", "Loss", "get_loss"]

Loss = Callable[..., Tensor]

# name -> (function, order of the power mean whose balance of terms it shares)
LOSSES: dict[str, tuple[Loss, float]] = {
    "propml": (propml_loss, 1.0),
    "bce": (bce_loss, 0.0),
    "asl": (asl_loss, 0.0),
    "propall": (propall_loss, 1.0),
    "power": (power_loss, 0.5),
    "rank": (rank_loss, 0.0),
}


def get_loss(loss: str | Loss) -> tuple[Loss, float]:
    """The function and its order, by name; a function of one's own is taken to be like ProPML.

    >>> get_loss("bce")[1]
    0.0
    """
    if callable(loss):
        return loss, 1.0
    if loss not in LOSSES:
        raise ValueError(f"loss is {loss!r}; choose one of {', '.join(LOSSES)}, or give a function")
    return LOSSES[loss]
