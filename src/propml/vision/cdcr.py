r"""CDCR: after a warm-up the network itself selects the candidates that it learns from.

Sun, Xie, Huang: Deep Partial Multi-Label Learning with Curriculum Disambiguation (and consistency regularisation).
arXiv 2207.02410; Machine Learning 2024.

1. Warm-up: binary cross entropy on all candidates, strong augmentation; its averaged weights start the second stage,
   with a fresh optimiser and schedule.
2. At the start of each epoch the network, in evaluation mode, looks at the *weak* view (flip only) of every training
   image: :math:`p_{ij}`. A candidate is kept where :math:`p_{ij} \ge 0.6`; by difficulty, where
   :math:`p_{ij} - m_j \ge 0.6 - m`, with the mean :math:`m_j` over the candidates of class j and :math:`m` over all.
   Candidates that are not kept carry no loss, excluded labels always do: labels selected on the weak view supervise the
   *strong* view.

As published: 16 epochs of warm-up, 41 of the second stage (21 by difficulty), both under a one-cycle schedule of 80
epochs that is not run to its end: ``VisionRecipe(curriculum="cdcr", epochs=57, warmup_epochs=16, schedule_epochs=80)``.

Deviations
----------
The schedule ends with its stage unless ``schedule_epochs`` says otherwise: short trainings from scratch need the low
rates at its end. Epoch and weights are chosen on held-out candidates, not on the test set. Losses are means over images
(theirs are sums, which under Adam only changes how much weight decay weighs).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from propml.vision.batches import Augment, step_generator
from propml.vision.distributed import Precision, Process
from propml.vision.evaluation import score_images
from propml.vision.recipe import VisionRecipe
from propml.vision.training_data import TrainingData, ordered_batches


def select_labels(
    confidences: Tensor, candidates: Tensor, *, threshold: float = 0.6, by_difficulty: bool = False
) -> Tensor:
    """Which entries carry loss: all excluded labels, and the candidates that the network is confident of.

    Confidences ``(n_images, n_labels)`` are probabilities on the weak view. By difficulty the threshold is lower for
    classes whose candidates get less confidence than the average. What comes out is what the losses take as ``mask``.
    """
    is_candidate = candidates > 0
    if by_difficulty:
        among = torch.where(is_candidate, confidences, 0.0)
        per_class = among.sum(dim=0) / is_candidate.sum(dim=0).clamp(min=1)
        overall = among.sum() / is_candidate.sum().clamp(min=1)
        confidences, threshold = confidences - per_class, threshold - float(overall)
    return ~is_candidate | (confidences >= threshold)


def select_for_epoch(
    network: nn.Module,
    epoch: int,
    data: TrainingData,
    recipe: VisionRecipe,
    augment: Augment,
    precision: Precision,
    here: Process,
) -> Tensor:
    """:func:`select_labels` for all rows, on the device; those that are not learned from are all true."""

    def weak(images: Tensor, step: int) -> Tensor:
        # Behind the numbers of all training steps of the epoch, so that no generator is used twice.
        return augment.weak(images, step_generator(recipe.seed, epoch, len(data.learned) + step, here.rank))

    targets = data.targets()
    batches = ordered_batches(data.images, targets, recipe, here, data.learned)
    logits = score_images(network, batches, weak, precision, here)
    selected = torch.ones(targets.shape, dtype=torch.bool)
    rule: dict[str, Any] = {"threshold": recipe.confidence, "by_difficulty": recipe.curriculum == "cdcr-difficulty"}
    selected[data.learned] = select_labels(logits.sigmoid(), targets[data.learned], **rule)
    return selected.to(here.device)
