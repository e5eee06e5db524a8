"""Losses on candidate labels: pure functions of logits, one value per example, and ``torch.nn`` modules over them.

Each loss has a file of its own, with its formula, its function and its module. All functions share these arguments:

logits : Tensor
    Scores before the sigmoid, any shape; one axis, ``label_dim``, runs over the labels.
candidates : Tensor, same shape as ``logits``, or CandidateBits
    1 for a candidate, 0 for an excluded label, -1 (or NaN) for an unknown one, which carries no loss. Any dtype.
    :class:`CandidateBits` hold them in one bit each, labels in the last axis whatever ``label_dim`` is.
label_dim : int
    The axis of the labels: ``-1`` for ``(N, C)`` and ``(N, A, C)``, ``1`` for ``(N, C, H, W)``.
label_weight : Tensor, shape (C,), optional
    How much each label counts.
example_weight : Tensor, optional
    How much each example counts; broadcast against the returned values.
mask : Tensor of bool, same shape as ``logits``, optional
    False where an entry carries no loss (the same as an unknown label), whatever its logit is.

They return the shape of ``logits`` without ``label_dim``, in float32 at least: float16 and bfloat16 logits are lifted
before anything is summed. Everything is computed in log space; value and gradient are finite for finite logits, and an
empty candidate set contributes its excluded labels only.

ProPML, BCE, ASL and the power mean have fused kernels, which are used where they apply (:mod:`propml.losses.kernels`).
These four take ``reduction`` ("none", "mean" or "sum" over examples): a kernel that knows it saves a pass over the
gradient.
"""

from typing import TYPE_CHECKING

from propml.losses.asl import ASLLoss, asl_loss
from propml.losses.bce import CandidateBCELoss, bce_loss
from propml.losses.candidates import CandidateBits
from propml.losses.power import power_loss
from propml.losses.problem import CandidateLoss
from propml.losses.propall import ProPaLLLoss, propall_loss
from propml.losses.propml import ProPMLLoss, propml_loss
from propml.losses.ranking import rank_loss
from propml.losses.sampled import sampled_bce_loss, sampled_propml_loss
from propml.losses.unbiased import UnbiasedLoss, unbiased_loss
from propml.messages import former_names

__all__ = [
    "ASLLoss",
    "CandidateBCELoss",
    "CandidateBits",
    "CandidateLoss",
    "ProPMLLoss",
    "ProPaLLLoss",
    "UnbiasedLoss",
    "asl_loss",
    "bce_loss",
    "power_loss",
    "propall_loss",
    "propml_loss",
    "rank_loss",
    "sampled_bce_loss",
    "sampled_propml_loss",
    "unbiased_loss",
]


if not TYPE_CHECKING:
    __getattr__ = former_names(__name__, {"BCELoss": "CandidateBCELoss"})
