"""Facts about the loss with soft targets: beside BCE, and what it takes."""

import pytest
import torch

from propml.losses import CandidateBits, CandidateLoss, bce_loss, refined_loss


def test_it_takes_what_the_other_losses_take():
    z, states = torch.randn(3, 5, 4, dtype=torch.float64), torch.randint(-1, 2, (3, 5, 4))
    given = {"lam": 0.3, "label_dim": 1, "label_weight": torch.rand(5), "example_weight": torch.rand(3, 4)}
    expected = bce_loss(z, states, **given)  # which it is where q is 1 for all candidates
    torch.testing.assert_close(refined_loss(z, states.half(), **given), expected)
    torch.testing.assert_close(refined_loss(z, CandidateBits.from_matrix(states.movedim(1, -1)), **given), expected)
    mask, known = states >= 0, states.abs()
    torch.testing.assert_close(refined_loss(z, known, mask=mask, **given), expected)
    module = CandidateLoss(refined_loss, lam=0.3, label_dim=1)
    torch.testing.assert_close(module(z, states), bce_loss(z, states, lam=0.3, label_dim=1).mean())


@pytest.mark.parametrize("unknown", [-1.0, torch.nan])
@pytest.mark.parametrize("logit", [2.0, torch.nan, torch.inf, -torch.inf])
def test_an_unknown_entry_does_no_harm_whatever_its_logit(unknown, logit):
    z = torch.tensor([[0.4, -1.0, logit]], dtype=torch.float64, requires_grad=True)
    refined_loss(z, torch.tensor([[0.7, 0.0, unknown]]), lam=0.5).backward()
    p = torch.sigmoid(torch.tensor([0.4, -1.0], dtype=torch.float64))
    # The slopes are -q (1 - p) + λ (1 - q) p.
    expected = [-0.7 * (1 - p[0]).item() + 0.5 * 0.3 * p[0].item(), 0.5 * p[1].item(), 0.0]
    assert z.grad.tolist() == [pytest.approx(expected, rel=1e-6)]


def test_shapes_that_differ_are_told():
    with pytest.raises(ValueError, match=r"have shape \(1, 6\), logits \(4, 6\)"):
        refined_loss(torch.zeros(4, 6), torch.ones(1, 6))
