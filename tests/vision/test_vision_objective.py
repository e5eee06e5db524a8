"""Each loss is the function it is named after, averaged over images."""

import numpy as np
import pytest
import torch

from propml.corruption import independent_flips
from propml.losses import asl_loss, bce_loss, power_loss, propall_loss, propml_loss, unbiased_loss
from propml.targets import Candidates
from propml.vision.optimiser import estimate_flip_rate, lams_to_try, make_objective
from propml.vision.recipe import VisionRecipe

LOGITS = torch.tensor([[1.0, -2.0, 0.5], [0.2, 0.1, -1.0], [3.0, 1.0, -2.0]])
TARGETS = torch.tensor([[1, 0, 1], [1, 1, 0], [0, 1, 0]], dtype=torch.int8)
CANDIDATES = Candidates.from_matrix(TARGETS)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("propml", lambda: propml_loss(LOGITS, TARGETS, lam=0.3)),
        ("bce", lambda: bce_loss(LOGITS, TARGETS, lam=0.3)),
        ("propall", lambda: propall_loss(LOGITS, TARGETS, lam=0.3)),
        ("power", lambda: power_loss(LOGITS, TARGETS, lam=0.3, order=0.5)),
        ("asl", lambda: asl_loss(LOGITS, TARGETS, lam=0.3, gamma_positive=0, gamma_negative=4, clip=0.05)),
    ],
)
def test_a_loss_by_its_name(loss, expected):
    objective = make_objective(VisionRecipe(loss=loss), 0.3, CANDIDATES)
    torch.testing.assert_close(objective(LOGITS, TARGETS), expected().mean())


def test_the_unbiased_loss_takes_the_rate_that_is_known_or_estimates_it():
    known = make_objective(VisionRecipe(loss="unbiased", flip_rate=0.1), 1.0, CANDIDATES)
    per_image = unbiased_loss(LOGITS, TARGETS, flip_rate=0.1)
    assert float(known(LOGITS, TARGETS)) >= float(per_image.mean())  # clamped label by label, never below
    estimated = make_objective(VisionRecipe(loss="unbiased"), 1.0, CANDIDATES)
    assert estimated.options["flip_rate"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.4])
def test_the_flip_rate_is_found_in_candidates_alone(rate):
    truth = (np.random.default_rng(0).random((4000, 20)) < np.linspace(0.01, 0.4, 20)).astype(np.uint8)
    truth[:, -1] |= ~truth.any(axis=1)
    candidates = independent_flips(truth, rate, random_state=0)
    assert estimate_flip_rate(candidates) == pytest.approx(rate, abs=0.02)


def test_unknown_entries_are_no_evidence_of_flips():
    states = np.array([[1, -1], [1, -1], [0, 1], [0, 1]])
    assert estimate_flip_rate(Candidates.from_matrix(states, empty="ignore")) == 0.5


def test_lams_lie_around_the_balanced_one():
    four = Candidates.from_matrix([[1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]])
    assert lams_to_try(four, VisionRecipe()) == pytest.approx([1 / 24, 1 / 8, 3 / 8, 9 / 8], rel=1e-3)
    power = lams_to_try(four, VisionRecipe(loss="power", order=0.5))  # four candidates pull twice as hard
    assert power == pytest.approx([1 / 12, 1 / 4, 3 / 4, 9 / 4], rel=1e-3)
    assert lams_to_try(four, VisionRecipe(loss="asl")) == [1.0]
    assert lams_to_try(four, VisionRecipe(lam=0.2)) == [0.2]
