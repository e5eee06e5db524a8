"""Facts about the ranking loss: against all pairs written out, and what it does not care about."""

import pytest
import torch

from propml.losses import CandidateBits, CandidateLoss, rank_loss


def all_pairs(z, candidates, weight=None):
    """The definition, pair by pair."""
    rows = []
    weight = [1.0] * z.shape[1] if weight is None else weight.tolist()
    for logits, states in zip(z, candidates, strict=True):
        inside = [i for i, state in enumerate(states.tolist()) if state > 0]
        outside = [k for k, state in enumerate(states.tolist()) if state == 0]
        counts = [states[i].item() * weight[i] * weight[k] for i in inside for k in outside]
        pairs = [torch.clamp(1 - logits[i] + logits[k], min=0) ** 2 for i in inside for k in outside]
        total = sum((n * pair for n, pair in zip(counts, pairs, strict=True)), start=0 * logits.sum())
        rows.append(total / (sum(counts) or 1.0))
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


def test_a_pair_counts_by_its_labels_weights():
    z, candidates = torch.randn(6, 5, dtype=torch.float64), torch.randint(-1, 2, (6, 5))
    weight = torch.tensor([0.1, 0.0, 0.5, 3.0, 0.2], dtype=torch.float64)
    torch.testing.assert_close(rank_loss(z, candidates, label_weight=weight), all_pairs(z, candidates, weight))


def test_a_candidate_counts_as_much_as_it_says():
    z = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    soft = torch.tensor([[1, 0.25, 0, 0, -1], [0.01, 1, 1, 0, 0], [0.5, 0.5, 0.5, 0, 0], [0, 0, 0, 0, 1]])
    value, expected = rank_loss(z, soft), all_pairs(z, soft)
    torch.testing.assert_close(value, expected, check_dtype=False)
    gradients = [torch.autograd.grad(each.sum(), z)[0] for each in (value, expected)]
    torch.testing.assert_close(*gradients)
    torch.testing.assert_close(value[2], rank_loss(z, soft.ceil())[2])  # shares: halving all of a row changes nothing
    with pytest.raises(ValueError, match=r"candidates hold 1\.5; give 1 for a candidate"):
        rank_loss(torch.zeros(1, 2), torch.tensor([[1.5, 0.0]]))


def test_it_takes_what_the_other_losses_take():
    z, candidates = torch.randn(3, 5, 4), torch.randint(-1, 2, (3, 5, 4))
    expected = rank_loss(z.movedim(1, -1), candidates.movedim(1, -1))
    torch.testing.assert_close(rank_loss(z, candidates, label_dim=1), expected)
    bits = CandidateBits.from_matrix(candidates.movedim(1, -1))
    torch.testing.assert_close(rank_loss(z, bits, label_dim=1), expected)
    torch.testing.assert_close(CandidateLoss(rank_loss, label_dim=1)(z, candidates), expected.mean())
    weight = torch.rand(3, 4)
    torch.testing.assert_close(rank_loss(z, candidates, label_dim=1, example_weight=weight), weight * expected)
    known = torch.where(candidates < 0, 1, candidates)
    torch.testing.assert_close(rank_loss(z, known, label_dim=1, mask=candidates >= 0), expected)


def test_an_entry_that_carries_no_loss_does_no_harm_whatever_its_logit():
    z = torch.tensor([[0.0, 0.5, torch.nan, torch.inf, -torch.inf]], requires_grad=True)
    value = rank_loss(z, torch.tensor([[1, 0, -1, -1, -1]]))
    value.backward()
    assert value.item() == 2.25  # (1 - 0 + 0.5)²
    assert z.grad.tolist() == [[-3.0, 3.0, 0.0, 0.0, 0.0]]


def test_shapes_that_differ_are_told():
    with pytest.raises(ValueError, match=r"candidates have shape \(1, 6\), logits \(4, 6\)"):
        rank_loss(torch.zeros(4, 6), torch.ones(1, 6))
