"""Facts about the losses: values from plain loops in float64, gradients from the paper, numerics at the extremes."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.nn.functional import binary_cross_entropy_with_logits

from propml import as_candidates
from propml.losses import (
    asl_loss,
    bce_loss,
    power_loss,
    propall_loss,
    propml_loss,
    rank_loss,
    unbiased_loss,
)
from propml.losses.unbiased import unbiased_entries

ALL = {
    "propml": propml_loss,
    "bce": bce_loss,
    "asl": asl_loss,
    "propall": propall_loss,
    "power": power_loss,
    "unbiased": lambda z, s, **k: unbiased_loss(z, s, flip_rate=0.2, miss_rate=0.1, **k),
}
each_loss = pytest.mark.parametrize("name", ALL)


def random_batch(n=17, c=9, seed=0, dtype=torch.float64, unknown=False):
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, c, generator=generator, dtype=dtype)
    candidates = (torch.rand(n, c, generator=generator) < 0.4).to(torch.int8)
    candidates[torch.arange(n), torch.randint(c, (n,), generator=generator)] = 1
    if unknown:
        candidates[torch.rand(n, c, generator=generator) < 0.2] = -1
    return logits, candidates


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


# --- the equations, term by term ---------------------------------------------------------------------------------


def loop_propml(z, s, lam):
    inside = sum(sigmoid(v) for v, mark in zip(z, s, strict=True) if mark == 1)
    outside = sum(math.log(1 - sigmoid(v)) for v, mark in zip(z, s, strict=True) if mark == 0)
    return (-math.log(inside) if inside > 0 else 0.0) - lam * outside


def loop_bce(z, s, lam):
    return -sum(math.log(sigmoid(v)) for v, m in zip(z, s, strict=True) if m == 1) - lam * sum(
        math.log(1 - sigmoid(v)) for v, m in zip(z, s, strict=True) if m == 0
    )


def loop_propall(z, s, lam):
    none = math.prod(1 - sigmoid(v) for v, m in zip(z, s, strict=True) if m == 1)
    outside = sum(math.log(1 - sigmoid(v)) for v, m in zip(z, s, strict=True) if m == 0)
    return -math.log(1 - none) - lam * outside


def loop_asl(z, s, lam, gp=1.0, gn=4.0, clip=0.05):
    total = 0.0
    for v, m in zip(z, s, strict=True):
        p = sigmoid(v)
        shifted = max(p - clip, 0.0)
        if m == 1:
            total -= (1 - p) ** gp * math.log(p)
        elif m == 0:
            total -= lam * shifted**gn * math.log(1 - shifted)
    return total


def loop_power(z, s, lam, a=0.5):
    inside = [sigmoid(v) for v, m in zip(z, s, strict=True) if m == 1]
    outside = sum(math.log(1 - sigmoid(v)) for v, m in zip(z, s, strict=True) if m == 0)
    mean = (sum(p**a for p in inside) / len(inside)) ** (1 / a)
    return -(len(inside) ** (1 - a)) * math.log(mean) - lam * outside


@pytest.mark.parametrize("lam", [0.02, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("unknown", [False, True])
@pytest.mark.parametrize(
    ("loss", "loop"),
    [
        (propml_loss, loop_propml),
        (bce_loss, loop_bce),
        (propall_loss, loop_propall),
        (asl_loss, loop_asl),
        (power_loss, loop_power),
    ],
)
def test_equals_the_equation_written_as_a_loop(loss, loop, lam, unknown):
    logits, candidates = random_batch(unknown=unknown)
    rows = [i for i in range(len(logits)) if (candidates[i] == 1).any()]
    expected = [loop(logits[i].tolist(), candidates[i].tolist(), lam) for i in rows]
    np.testing.assert_allclose(loss(logits[rows], candidates[rows], lam=lam), expected, rtol=1e-10)


def test_a_value_worked_out_by_hand():
    # p = 1/2 everywhere: -log(1/2 + 1/2) - 0.1 * 2 log(1/2)
    value = propml_loss(torch.zeros(1, 4, dtype=torch.float64), torch.tensor([[1, 0, 1, 0]]), lam=0.1)
    assert value.item() == pytest.approx(0.2 * math.log(2))


def test_one_candidate_and_lambda_one_is_binary_cross_entropy():
    logits, _ = random_batch()
    candidates = torch.nn.functional.one_hot(torch.arange(17) % 9, 9)
    expected = binary_cross_entropy_with_logits(logits, candidates.double(), reduction="none").sum(dim=1)
    for loss in (propml_loss, bce_loss, propall_loss):
        torch.testing.assert_close(loss(logits, candidates), expected)


def test_bce_is_torch_bce_on_any_candidate_set():
    logits, candidates = random_batch()
    expected = binary_cross_entropy_with_logits(logits, candidates.double(), reduction="none").sum(dim=1)
    torch.testing.assert_close(bce_loss(logits, candidates), expected)


def test_asl_without_focus_and_clip_is_bce():
    logits, candidates = random_batch()
    plain = asl_loss(logits, candidates, gamma_positive=0, gamma_negative=0, clip=0)
    torch.testing.assert_close(plain, bce_loss(logits, candidates))


def test_asl_detached_focus_keeps_the_value_and_changes_the_gradient():
    logits, candidates = random_batch()
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    through, detached = asl_loss(a, candidates), asl_loss(b, candidates, detach_focus=True)
    torch.testing.assert_close(through, detached)
    through.sum().backward()
    detached.sum().backward()
    assert not torch.allclose(a.grad, b.grad)


def test_asl_fractional_exponent_has_a_finite_gradient_at_the_clip():
    logits = torch.full((1, 2), math.log(0.05 / 0.95), dtype=torch.float64, requires_grad=True)  # p is the clip itself
    asl_loss(logits, torch.tensor([[1, 0]]), gamma_negative=0.5).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_power_loss_lies_between_bce_and_propml():
    logits, candidates = random_batch()
    size = (candidates == 1).sum(dim=1).double()
    torch.testing.assert_close(
        power_loss(logits, candidates, lam=0.3, order=0.0), bce_loss(logits, candidates, lam=0.3)
    )
    propml = propml_loss(logits, candidates, lam=0.3) + size.log()
    torch.testing.assert_close(power_loss(logits, candidates, lam=0.3, order=1.0), propml)
    torch.testing.assert_close(  # nearly the limit, by the general formula
        power_loss(logits, candidates, order=1.01e-3), bce_loss(logits, candidates), rtol=0.02, atol=0.02
    )


def test_power_loss_gradient_shares_the_pull_by_powers_of_p():
    logits, candidates = random_batch()
    logits.requires_grad_()
    power_loss(logits, candidates, lam=0.3, order=0.4).sum().backward()
    p = logits.detach().sigmoid()
    powers = p**0.4 * (candidates == 1)
    size = (candidates == 1).sum(dim=1, keepdim=True).double()
    pull = -(size**0.6) * powers / powers.sum(dim=1, keepdim=True) * (1 - p)
    torch.testing.assert_close(logits.grad, torch.where(candidates == 1, pull, 0.3 * p))


def test_power_loss_takes_an_order_per_example():
    logits, candidates = random_batch(n=3)
    orders = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    expected = torch.stack([power_loss(logits[i], candidates[i], order=orders[i].item()) for i in range(3)])
    torch.testing.assert_close(power_loss(logits, candidates, order=orders), expected)


# --- gradients ---------------------------------------------------------------------------------------------------


def test_gradient_on_a_candidate_is_the_papers():
    logits, candidates = random_batch()
    logits.requires_grad_()
    propml_loss(logits, candidates, lam=0.3).sum().backward()
    p = logits.detach().sigmoid()
    inside = (p * (candidates == 1)).sum(dim=1, keepdim=True)
    expected = torch.where(candidates == 1, -p * (1 - p) / inside, 0.3 * p)
    torch.testing.assert_close(logits.grad, expected)


@each_loss
def test_gradcheck(name):
    logits, candidates = random_batch(n=4, c=5, unknown=True)
    assert torch.autograd.gradcheck(lambda z: ALL[name](z, candidates), logits.requires_grad_())


@each_loss
def test_gradcheck_with_label_and_example_weights(name):
    logits, candidates = random_batch(n=4, c=5, unknown=True)
    weights = {"label_weight": torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0]), "example_weight": torch.arange(1.0, 5.0)}
    assert torch.autograd.gradcheck(lambda z: ALL[name](z, candidates, **weights), logits.requires_grad_())


@each_loss
def test_permuting_labels_permutes_the_gradient(name):
    logits, candidates = random_batch()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    a, b = logits.clone().requires_grad_(), logits[:, order].clone().requires_grad_()
    ALL[name](a, candidates).sum().backward()
    ALL[name](b, candidates[:, order]).sum().backward()
    torch.testing.assert_close(a.grad[:, order], b.grad)


# --- numerics ----------------------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("marks", ["empty", "full", "one", "mixed", "unknown"])
def test_value_and_gradient_are_finite_for_any_logits(name, dtype, marks):
    grid = torch.tensor([-1e4, -1e3, -88.0, -30.0, -1.0, 0.0, 1.0, 30.0, 88.0, 1e3, 1e4], dtype=dtype)
    logits = torch.cartesian_prod(grid, grid, grid).requires_grad_()
    candidates = {
        "empty": torch.zeros(3, dtype=torch.int8),
        "full": torch.ones(3, dtype=torch.int8),
        "one": torch.tensor([1, 0, 0], dtype=torch.int8),
        "mixed": torch.tensor([1, 1, 0], dtype=torch.int8),
        "unknown": torch.tensor([-1, -1, -1], dtype=torch.int8),
    }[marks].expand(logits.shape)
    value = ALL[name](logits, candidates, lam=0.3) if name != "unbiased" else ALL[name](logits, candidates)
    assert value.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.isfinite(value).all()
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    assert gradient.dtype == dtype
    assert torch.isfinite(gradient).all()


def test_far_negative_candidates_have_the_exact_value():
    # log(e^-1000 + e^-1001) cannot be had from p, which is 0 in float64
    logits = torch.tensor([[-1000.0, -1001.0, -2000.0]], dtype=torch.float64)
    candidates = torch.tensor([[1, 1, 0]])
    expected = 1000 - math.log(1 + math.exp(-1))
    assert propml_loss(logits, candidates).item() == pytest.approx(expected, rel=1e-14)
    assert propall_loss(logits, candidates).item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_propall_is_accurate_on_both_sides_of_its_switch(dtype):
    logits = torch.linspace(-60, 20, 321, dtype=dtype).unsqueeze(1).repeat(1, 2)
    exact = [-math.log(-math.expm1(-2 * math.log1p(math.exp(z)))) for z in logits[:, 0].double().tolist()]
    tolerance = 20 * torch.finfo(dtype).eps
    value = propall_loss(logits, torch.ones_like(logits))
    np.testing.assert_allclose(value.double(), exact, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight", [1e-30, 1e-10, 1e-6, 1.0])
@pytest.mark.parametrize("z", [-50.0, -3.0, 5.0, 1e4])
def test_propall_is_accurate_for_small_weights(dtype, weight, z):
    logits = torch.tensor([[z]], dtype=dtype, requires_grad=True)
    weight = torch.tensor([weight], dtype=dtype)
    value = propall_loss(logits, torch.ones(1, 1), label_weight=weight)
    value.backward()
    softplus = math.log1p(math.exp(z)) if z < 30 else z
    s = weight.item() * softplus  # -log(1 - exp(-s)), whose slope is -w σ(z) / (exp(s) - 1)
    assert value.item() == pytest.approx(-math.log(-math.expm1(-s)) if s < 30 else math.exp(-s), rel=1e-5, abs=1e-7)
    slope = -weight.item() * sigmoid(z) / (math.expm1(s) if s < 700 else math.inf)
    assert logits.grad.item() == pytest.approx(slope, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("z", [-1e4, -1e8, -1e30, -1e300])
@pytest.mark.parametrize("name", ["propml", "propall", "power"])
def test_equal_candidates_share_the_pull_however_far_they_are(name, dtype, z):
    if -z > torch.finfo(dtype).max:
        pytest.skip("the type does not hold such a logit")
    logits = torch.full((1, 4), z, dtype=dtype, requires_grad=True)
    ALL[name](logits, torch.tensor([[1, 1, 1, 1]])).backward()
    pull = 4**0.5 / 4 if name == "power" else 1 / 4  # the power mean of order 1/2 pulls |S|^(1/2) times as much
    assert logits.grad.tolist() == [pytest.approx([-pull] * 4, rel=1e-6)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("log_p", "heavy", "light"), [(-131.0, 1.0, 1e-30), (-90.0, 1e30, 1e-15), (-69.0, 1e30, 1.0)])
@pytest.mark.parametrize("name", ["propml", "power"])
def test_a_heavy_improbable_candidate_beside_a_light_probable_one(name, dtype, log_p, heavy, light):
    order = 1.0 if name == "propml" else 0.5
    logits = torch.tensor([[log_p / order, 0.0]], dtype=dtype, requires_grad=True)
    value = ALL[name](logits, torch.ones(1, 2), label_weight=torch.tensor([heavy, light], dtype=dtype))
    value.backward()
    terms = [math.exp(log_p), light / heavy * 0.5**order]
    pulls = [terms[0] / sum(terms), terms[1] / sum(terms) * 0.5]
    strength = heavy**order if name == "power" else heavy
    assert value.item() == pytest.approx(-strength / order * math.log(sum(terms)), rel=1e-5)
    assert (logits.grad / strength).tolist() == [pytest.approx([-pull for pull in pulls], rel=1e-4, abs=1e-7)]


def test_rows_without_labels_have_no_loss():
    for name in ALL:
        assert ALL[name](torch.zeros(2, 0), torch.zeros(2, 0)).tolist() == [0.0, 0.0]


@each_loss
def test_an_empty_candidate_set_contributes_its_excluded_labels_only(name):
    logits = torch.tensor([[0.3, -2.0, 5.0]], dtype=torch.float64)
    none, one = torch.zeros(1, 3), torch.tensor([[-1.0, 0.0, 0.0]])
    total, without_first = ALL[name](logits, none).item(), ALL[name](logits, one).item()
    first = ALL[name](logits[:, :1], none[:, :1]).item()
    assert total == pytest.approx(without_first + first)


@given(
    hnp.arrays(np.float64, (3, 4), elements=st.floats(-1e4, 1e4)),
    hnp.arrays(np.int8, (3, 4), elements=st.integers(-1, 1)),
    st.floats(0, 10),
)
@settings(max_examples=150, deadline=None)
def test_properties_of_propml(z, s, lam):
    logits, candidates = torch.tensor(z), torch.tensor(s)
    value = propml_loss(logits, candidates, lam=lam)
    assert torch.isfinite(value).all()
    # From below: Σp is at most |S|. From above: BCE asks for every candidate, ProPML for one.
    size = (candidates == 1).sum(dim=1).clamp(min=1)
    assert (value >= -size.double().log() - 1e-9).all()
    assert (value <= bce_loss(logits, candidates, lam=lam) + 1e-9).all()
    assert (value <= propall_loss(logits, candidates, lam=lam) + 1e-9).all()  # a union is at most the sum


# --- shapes, masks, weights --------------------------------------------------------------------------------------


@each_loss
def test_label_dim_one_is_the_transposed_problem(name):
    logits = torch.randn(2, 5, 3, 4, dtype=torch.float64)
    candidates = (torch.rand(2, 5, 3, 4) < 0.5).to(torch.uint8)
    maps = ALL[name](logits, candidates, label_dim=1)
    assert maps.shape == (2, 3, 4)
    flat = ALL[name](logits.permute(0, 2, 3, 1).reshape(-1, 5), candidates.permute(0, 2, 3, 1).reshape(-1, 5))
    torch.testing.assert_close(maps.flatten(), flat)
    assert ALL[name](logits.permute(0, 2, 3, 1), candidates.permute(0, 2, 3, 1)).shape == (2, 3, 4)


@each_loss
def test_a_mask_an_unknown_entry_and_a_missing_column_are_the_same(name):
    logits, candidates = random_batch()
    candidates[:, 0] = 1
    mask = torch.ones_like(logits, dtype=torch.bool)
    mask[:, 4] = False
    unknown = candidates.clone()
    unknown[:, 4] = -1
    as_nan = candidates.double()
    as_nan[:, 4] = torch.nan
    without = [0, 1, 2, 3, 5, 6, 7, 8]
    expected = ALL[name](logits[:, without], candidates[:, without])
    torch.testing.assert_close(ALL[name](logits, candidates, mask=mask), expected)
    torch.testing.assert_close(ALL[name](logits, unknown), expected)
    torch.testing.assert_close(ALL[name](logits, as_nan), expected)


@each_loss
@pytest.mark.parametrize("strange", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("by", ["mask", "unknown", "nan"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_entry_that_carries_no_loss_does_no_harm_whatever_its_logit(name, strange, by, dtype):
    tame, candidates = random_batch(dtype=dtype)
    given, mask = candidates.clone(), None
    if by == "mask":
        mask = torch.ones_like(tame, dtype=torch.bool)
        mask[:, 4] = False
    else:
        given = given if by == "unknown" else given.to(dtype)
        given[:, 4] = -1 if by == "unknown" else torch.nan
    wild = tame.clone()
    wild[:, 4] = strange
    results = []
    for logits in (tame.requires_grad_(), wild.requires_grad_()):
        value = ALL[name](logits, given, mask=mask)
        results.append((value, *torch.autograd.grad(value.sum(), logits)))
    torch.testing.assert_close(results[1], results[0])
    assert (results[1][1][:, 4] == 0).all()


@each_loss
@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32, torch.bfloat16])
def test_candidates_of_any_type_mean_the_same(name, dtype):
    logits, candidates = random_batch()
    torch.testing.assert_close(ALL[name](logits, candidates.to(dtype)), ALL[name](logits, candidates))


@each_loss
def test_weights_one_change_nothing_and_zero_removes_the_label(name):
    logits, candidates = random_batch()
    candidates[:, 0] = 1
    plain = ALL[name](logits, candidates)
    torch.testing.assert_close(ALL[name](logits, candidates, label_weight=torch.ones(9)), plain)
    weight = torch.ones(9)
    weight[2] = 0
    keep = [0, 1, 3, 4, 5, 6, 7, 8]
    expected = ALL[name](logits[:, keep], candidates[:, keep])
    torch.testing.assert_close(ALL[name](logits, candidates, label_weight=weight), expected)
    scale = torch.arange(17.0, dtype=torch.float64)
    torch.testing.assert_close(ALL[name](logits, candidates, example_weight=scale), plain * scale)


def test_propml_weights_multiply_bce_where_sets_are_singletons():
    logits, _ = random_batch()
    candidates = torch.nn.functional.one_hot(torch.arange(17) % 9, 9)
    weight = torch.linspace(0.1, 4, 9, dtype=torch.float64)
    expected = binary_cross_entropy_with_logits(logits, candidates.double(), weight, reduction="none").sum(dim=1)
    torch.testing.assert_close(propml_loss(logits, candidates, label_weight=weight), expected)


def test_propml_weight_common_to_all_labels_is_a_factor():
    logits, candidates = random_batch()
    doubled = propml_loss(logits, candidates, lam=0.2, label_weight=torch.full((9,), 2.0))
    torch.testing.assert_close(doubled, 2 * propml_loss(logits, candidates, lam=0.2))


def test_lambda_per_example():
    logits, candidates = random_batch(n=3)
    lams = torch.tensor([0.1, 1.0, 5.0], dtype=torch.float64)
    expected = torch.stack([propml_loss(logits[i], candidates[i], lam=lams[i].item()) for i in range(3)])
    torch.testing.assert_close(propml_loss(logits, candidates, lam=lams), expected)


# --- the unbiased correction -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("flip", "miss"), [(0.0, 0.0), (0.3, 0.0), (0.2, 0.25)])
def test_expectation_over_the_noise_is_the_loss_on_the_truth(flip, miss):
    logits = torch.tensor([[0.7, -1.3]], dtype=torch.float64)
    truth = torch.tensor([[1, 0]])
    expected = bce_loss(logits, truth)
    mean = torch.zeros(1, dtype=torch.float64)
    for a in (0, 1):
        for b in (0, 1):
            chance = ((1 - miss) if a else miss) * (flip if b else (1 - flip))
            mean = mean + chance * unbiased_loss(logits, torch.tensor([[a, b]]), flip_rate=flip, miss_rate=miss)
    torch.testing.assert_close(mean, expected)


def test_rate_per_label():
    logits, candidates = random_batch(c=2)
    rates = torch.tensor([0.1, 0.4], dtype=torch.float64)
    entries = unbiased_entries(logits, candidates, rates, 0.0)
    for j in range(2):
        alone = unbiased_entries(logits[:, j : j + 1], candidates[:, j : j + 1], rates[j].item(), 0.0)
        torch.testing.assert_close(entries[:, j : j + 1], alone)


@pytest.mark.parametrize(("flip", "miss"), [(1.0, 0.0), (-0.1, 0.0), (0.5, 0.5)])
def test_impossible_rates_are_refused(flip, miss):
    with pytest.raises(ValueError, match="rate"):
        unbiased_loss(torch.zeros(1, 2), torch.zeros(1, 2), flip_rate=flip, miss_rate=miss)


# --- living inside PyTorch ---------------------------------------------------------------------------------------


@each_loss
def test_vmap_and_functional_grad(name):
    logits, candidates = random_batch(n=6)
    each = torch.func.vmap(lambda z, s: ALL[name](z, s))(logits, candidates)
    torch.testing.assert_close(each, ALL[name](logits, candidates))
    gradient = torch.func.vmap(torch.func.grad(lambda z, s: ALL[name](z, s)))(logits, candidates)
    logits.requires_grad_()
    (expected,) = torch.autograd.grad(ALL[name](logits, candidates).sum(), logits)
    torch.testing.assert_close(gradient, expected)


@each_loss
def test_autocast_gives_the_float32_value(name):
    logits, candidates = random_batch(dtype=torch.float32)
    expected = ALL[name](logits.bfloat16(), candidates)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = ALL[name](logits.bfloat16(), candidates)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected)


def test_grad_mode_is_left_alone():
    logits, candidates = random_batch()
    with torch.no_grad():
        assert not propml_loss(logits.clone().requires_grad_(), candidates).requires_grad
        assert not torch.is_grad_enabled()
    assert propml_loss(logits.requires_grad_(), candidates).requires_grad


def test_compiles_as_one_graph():
    logits, candidates = random_batch(dtype=torch.float32)
    compiled = torch.compile(lambda z, s: sum(f(z, s).sum() for f in ALL.values()), fullgraph=True, backend="aot_eager")
    a, b = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    value, expected = compiled(a, candidates), sum(f(b, candidates).sum() for f in ALL.values())
    torch.testing.assert_close(value, expected)
    value.backward()
    expected.backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_exports_within_a_model():
    class Scored(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 3)

        def forward(self, x, s):
            return propml_loss(self.layer(x), s, lam=0.5)

    model, x = Scored(), torch.randn(5, 4)
    candidates = torch.tensor([[1, 0, 1]]).expand(5, 3).contiguous()
    exported = torch.export.export(model, (x, candidates))
    torch.testing.assert_close(exported.module()(x, candidates), model(x, candidates))


# --- errors ------------------------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize(
    ("logits", "candidates", "mask", "told"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), None, r"candidates have shape \(2, 4\), logits \(2, 3\)"),
        (torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3), None, "floating-point"),
        (torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3), "mask is torch.float32"),
        (
            torch.zeros(2, 3),
            torch.zeros(2, 3),
            torch.ones(2, 1, dtype=torch.bool),
            r"mask is torch.bool of shape \(2, 1\)",
        ),
    ],
)
def test_bad_input_is_told(name, logits, candidates, mask, told):
    with pytest.raises(ValueError, match=told):
        ALL[name](logits, candidates, mask=mask)


FUSED = {name: ALL[name] for name in ("propml", "bce", "asl", "power")}
WITH_LAM = {**FUSED, "propall": propall_loss, "rank": rank_loss}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gradient", [False, True])
def test_a_misspelt_reduction_is_told(name, dtype, gradient):
    logits = torch.zeros(2, 3, dtype=dtype, requires_grad=gradient)
    with pytest.raises(ValueError, match='reduction is \'avg\'; choose "mean", "sum" or "none"'):
        FUSED[name](logits, torch.ones(2, 3), reduction="avg")


@pytest.mark.parametrize("name", WITH_LAM)
@pytest.mark.parametrize("lam", [-1, -0.5, math.nan, math.inf])
def test_an_impossible_lambda_is_told(name, lam):
    with pytest.raises(ValueError, match=f"lam is {lam}; give a finite number of at least 0"):
        WITH_LAM[name](torch.zeros(2, 3), torch.ones(2, 3), lam=lam)


@pytest.mark.parametrize("name", WITH_LAM)
@pytest.mark.parametrize("lam", ["auto", None, [0.1, 0.2]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_lambda_that_is_no_number_is_told(name, lam, dtype):
    with pytest.raises(ValueError, match=re.escape(f"lam is {lam!r}; give a finite number of at least 0, or a tensor")):
        WITH_LAM[name](torch.zeros(2, 3, dtype=dtype), torch.ones(2, 3), lam=lam)


@pytest.mark.parametrize("name", [*ALL, "rank"])
@pytest.mark.parametrize("logits", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (torch.float32, 0.7),
        (torch.float32, math.inf),
        (torch.float64, 0.3),
        (torch.bfloat16, 0.5),
        (torch.uint8, 255),
        (torch.int8, 2),
        (torch.int8, -100),
        (torch.int64, -2),
    ],
)
def test_candidates_that_are_neither_0_nor_1_nor_unknown_are_told(name, logits, dtype, value):
    if name == "rank" and 0 < value < 1:
        pytest.skip("a candidate of the ranking loss may count in part")
    loss, logits = (ALL | WITH_LAM)[name], torch.zeros(3, 4, dtype=logits)
    candidates = torch.ones(3, 4).to(dtype)
    candidates[2, 1] = value
    with pytest.raises(ValueError, match=f"candidates hold {value:g}; give 1 for a candidate, 0 for an excluded label"):
        loss(logits, candidates)
    mask = torch.ones(3, 4, dtype=torch.bool)
    mask[2, 1] = False
    torch.testing.assert_close(loss(logits, candidates, mask=mask), loss(logits, torch.ones(3, 4), mask=mask))


@pytest.mark.parametrize("order", [-1.0, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_impossible_order_is_told(order, dtype):
    with pytest.raises(ValueError, match=f"order is {order}; give a finite number of at least 0"):
        power_loss(torch.zeros(2, 3, dtype=dtype), torch.ones(2, 3), order=order)


@pytest.mark.parametrize("name", [*ALL, "rank"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_candidates_that_are_no_tensor_are_told(name, dtype):
    loss, logits = (ALL | WITH_LAM)[name], torch.zeros(2, 3, dtype=dtype)
    matrix = np.array([[1, 0, 0], [0, 1, 1]])
    with pytest.raises(TypeError, match=r"candidates are of type ndarray; give a tensor: torch.as_tensor\(array\)"):
        loss(logits, matrix)
    with pytest.raises(TypeError, match=r"of type Candidates; .*torch.as_tensor\(candidates.to_matrix\(\)\)"):
        loss(logits, as_candidates(matrix))


@pytest.mark.slow
def test_compiles_to_machine_code():
    logits, candidates = random_batch(dtype=torch.float32)
    compiled = torch.compile(propml_loss, fullgraph=True)
    torch.testing.assert_close(compiled(logits, candidates, lam=0.2), propml_loss(logits, candidates, lam=0.2))
