"""Losses on candidate labels: pure functions (one value per example) and thin ``torch.nn`` modules over them."""

from propml.losses.candidate_bits import CandidateBits
from propml.losses.functional import asl_loss, bce_loss, power_loss, propall_loss, propml_loss, unbiased_loss
from propml.losses.modules import ASLLoss, BCELoss, CandidateLoss, ProPaLLLoss, ProPMLLoss, UnbiasedLoss
from propml.losses.ranking import rank_loss
from propml.losses.refined import refined_loss

__all__ = [
    "ASLLoss",
    "BCELoss",
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
    "refined_loss",
    "unbiased_loss",
]
