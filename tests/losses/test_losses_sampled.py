"""Facts about losses on a sample of the excluded labels: on average they are the full losses."""

import itertools

import pytest
import torch

from propml.losses import bce_loss, propml_loss
from propml.losses.sampled import sampled_bce_loss, sampled_propml_loss

PAIRS = [(sampled_propml_loss, propml_loss), (sampled_bce_loss, bce_loss)]
ROWS = torch.tensor([[1, 1, 0, 0, 0, 0], [0, 1, 0, -1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 1, 0]])
each_loss = pytest.mark.parametrize(("sampled", "full"), PAIRS, ids=["propml", "bce"])


def drawn_logits(dtype=torch.float64, scale=2.0):
    return (scale * torch.randn(ROWS.shape, generator=torch.Generator().manual_seed(0), dtype=dtype)).requires_grad_()


def on_sample(loss, z, sample, weight, **options):
    """The loss where these labels are drawn for all rows; whatever a mask hides is NaN."""
    inside, outside = ROWS > 0, (ROWS == 0)[:, sample]
    candidates = torch.where(inside, z, torch.nan)
    excluded = torch.where(outside, z[:, sample], torch.nan)
    return loss(candidates, excluded, weight=weight, candidate_mask=inside, excluded_mask=outside, **options)


def slopes(values, z):
    return torch.autograd.grad(values.sum(), z)[0]


@each_loss
@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_the_mean_over_all_samples_is_the_full_loss(sampled, full, size):
    z, n_labels = drawn_logits(), ROWS.shape[1]
    samples = list(itertools.combinations(range(n_labels), size))
    values = sum(on_sample(sampled, z, list(s), n_labels / size, lam=0.3) for s in samples) / len(samples)
    expected = full(z, ROWS, lam=0.3)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(slopes(values, z), slopes(expected, z))


@each_loss
def test_labels_that_are_always_there_weigh_one(sampled, full):
    z, always, rest = drawn_logits(), [0, 3], [1, 2, 4, 5]
    weight = torch.tensor([1.0, 1.0, 2.0, 2.0])  # two of the four others are drawn
    samples = [[*always, *pair] for pair in itertools.combinations(rest, 2)]
    values = sum(on_sample(sampled, z, s, weight) for s in samples) / len(samples)
    expected = full(z, ROWS)
    torch.testing.assert_close(values, expected)
    torch.testing.assert_close(slopes(values, z), slopes(expected, z))


@each_loss
def test_a_weight_by_the_row_s_own_count_is_unbiased_where_one_is_always_drawn(sampled, full):
    z, samples = drawn_logits(), list(itertools.combinations(range(6), 5))  # no row has five that are not excluded
    outside = ROWS == 0
    values = 0
    for sample in map(list, samples):
        own = outside.sum(dim=1, keepdim=True) / outside[:, sample].sum(dim=1, keepdim=True)
        values = values + on_sample(sampled, z, sample, own) / len(samples)
    torch.testing.assert_close(values, full(z, ROWS))


@pytest.mark.parametrize("sampled", [sampled_propml_loss, sampled_bce_loss])
@pytest.mark.parametrize("scale", [1e-3, 30.0, 1e4, 1e30])
def test_float32_agrees_with_float64_and_slopes_are_finite_at_any_logit(sampled, scale):
    z = drawn_logits(torch.float32, scale)
    exact = z.detach().double().requires_grad_()
    values = on_sample(sampled, z, [0, 2, 5], 2.0)
    expected = on_sample(sampled, exact, [0, 2, 5], 2.0)
    torch.testing.assert_close(values.double(), expected, rtol=1e-5, atol=1e-5)
    found = slopes(values, z)
    assert found.isfinite().all()
    torch.testing.assert_close(found.double(), slopes(expected, exact), rtol=1e-4, atol=1e-6)


def test_half_precision_is_summed_in_float32():
    z = torch.full((1, 4000), -1.0, dtype=torch.float16)
    values = sampled_bce_loss(z[:, :1], z[:, 1:], weight=100.0)
    assert values.dtype == torch.float32
    torch.testing.assert_close(values, torch.tensor([1.31326 + 399_900 * 0.313262]), rtol=1e-4, atol=0)


def test_example_weights_multiply():
    z, weight = drawn_logits(), torch.tensor([0.0, 1.0, 2.0, 3.0])
    plain = on_sample(sampled_propml_loss, z, [1, 2], 3.0)
    torch.testing.assert_close(on_sample(sampled_propml_loss, z, [1, 2], 3.0, example_weight=weight), plain * weight)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"lam": -1.0}, "lam is -1.0"),
        ({"weight": float("nan")}, "weight is nan"),
        ({"excluded_mask": torch.ones(1, 3, dtype=torch.bool)}, "excluded_mask is torch.bool of shape"),
        ({"candidate_mask": torch.ones(1, 2)}, "candidate_mask is torch.float32"),
    ],
)
def test_wrong_arguments_are_told(arguments, told):
    with pytest.raises(ValueError, match=told):
        sampled_propml_loss(torch.zeros(1, 2), torch.zeros(1, 2), **arguments)
    with pytest.raises(ValueError, match=r"candidate_logits are torch\.int64"):
        sampled_bce_loss(torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2))
