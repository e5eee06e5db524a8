"""Facts about the ranking loss: against all pairs written out, and what it does not care about."""

import pytest
import torch

from propml.losses import rank_loss


def all_pairs(z, candidates):
    """The definition, pair by pair."""
    rows = []
    for logits, states in zip(z, candidates, strict=True):
        inside = [i for i, state in enumerate(states.tolist()) if state == 1]
        outside = [k for k, state in enumerate(states.tolist()) if state == 0]
        pairs = [torch.clamp(1 - logits[i] + logits[k], min=0) ** 2 for i in inside for k in outside]
        rows.append(sum(pairs, start=0 * logits.sum()) / max(len(pairs), 1))
    return torch.stack(rows)


@pytest.mark.parametrize("spread", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("seed", range(5))
def test_value_and_gradient_are_those_of_all_pairs(spread, seed):
    generator = torch.Generator().manual_seed(seed)
    z = (spread * torch.randn(6, 9, dtype=torch.float64, generator=generator)).requires_grad_()
    candidates = torch.randint(-1, 2, (6, 9), generator=generator)
    value, expected = rank_loss(z, candidates), all_pairs(z, candidates)
    torch.testing.assert_close(value, expected)
    weight = torch.rand(6, dtype=torch.float64, generator=generator)
    (gradient,) = torch.autograd.grad((weight * value).sum(), z)
    (by_pairs,) = torch.autograd.grad((weight * expected).sum(), z)
    torch.testing.assert_close(gradient, by_pairs)


def test_rows_without_a_pair_have_no_loss_and_no_gradient():
    z = torch.tensor([[3.0, -2.0], [3.0, -2.0], [1.0, 5.0]], requires_grad=True)
    value = rank_loss(z, torch.tensor([[1, 1], [0, 0], [-1, 1]]))
    value.sum().backward()
    assert (value == 0).all()
    assert (z.grad == 0).all()


def test_only_differences_within_a_row_count():
    z, candidates = torch.randn(4, 6, dtype=torch.float64), torch.randint(0, 2, (4, 6))
    moved = z + 100 * torch.randn(4, 1, dtype=torch.float64)
    torch.testing.assert_close(rank_loss(moved, candidates), rank_loss(z, candidates))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_halves_are_lifted_and_extremes_stay_finite(dtype):
    z = torch.tensor([[6e4, -6e4, 0.0]], dtype=dtype, requires_grad=True)
    value = rank_loss(z, torch.tensor([[0, 1, 1]]))
    assert value.dtype == torch.float32
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(z.grad.float()).all() or dtype == torch.float16  # its largest number is 65504


def test_any_leading_shape_and_a_factor_per_model():
    z, candidates = torch.randn(2, 3, 5), torch.randint(0, 2, (2, 3, 5))
    lam = torch.tensor([[2.0], [0.5]])
    torch.testing.assert_close(rank_loss(z, candidates, lam=lam), lam * rank_loss(z, candidates))
    torch.testing.assert_close(rank_loss(z, candidates)[1], rank_loss(z[1], candidates[1]))
