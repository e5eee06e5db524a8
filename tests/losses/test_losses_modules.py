"""Facts about the loss modules: drop-in behaviour beside ``torch.nn.BCEWithLogitsLoss``."""

import subprocess
import sys

import pytest
import torch

import propml
from propml.losses import ASLLoss, CandidateBCELoss, CandidateLoss, ProPaLLLoss, ProPMLLoss, UnbiasedLoss, propml_loss

MODULES = [
    ProPMLLoss(0.3),
    CandidateBCELoss(),
    ASLLoss(),
    ProPaLLLoss(),
    UnbiasedLoss(0.2),
    UnbiasedLoss(0.2, clamp=None),
]


def batch():
    torch.manual_seed(0)
    return torch.randn(6, 4), torch.tensor([[1, 1, 0, 0]]).repeat(6, 1)


@pytest.mark.parametrize("loss", MODULES, ids=repr)
def test_one_scalar_with_a_gradient_comes_back(loss):
    logits, candidates = batch()
    value = loss(logits.requires_grad_(), candidates)
    assert value.shape == ()
    value.backward()
    assert torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_reductions(reduction):
    logits, candidates = batch()
    values = propml_loss(logits, candidates, lam=0.3)
    expected = {"mean": values.mean(), "sum": values.sum(), "none": values}[reduction]
    torch.testing.assert_close(ProPMLLoss(0.3, reduction=reduction)(logits, candidates), expected)


def test_bce_module_is_torchs_times_the_number_of_labels():
    logits, candidates = batch()
    theirs = torch.nn.BCEWithLogitsLoss()(logits, candidates.float())
    torch.testing.assert_close(CandidateBCELoss()(logits, candidates), 4 * theirs)


def test_the_old_name_of_bce_still_works_and_says_what_to_write():
    with pytest.warns(DeprecationWarning, match="now called CandidateBCELoss"):
        from propml.losses import BCELoss
    assert BCELoss is CandidateBCELoss
    with pytest.raises(AttributeError, match="has no attribute 'BCEloss'"):
        propml.losses.BCEloss  # noqa: B018


def test_the_paper_s_loss_is_at_the_top_without_importing_torch():
    program = "import sys, propml; assert 'torch' not in sys.modules; print(propml.propml_loss.__module__)"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout == "propml.losses.propml\n"
    assert propml.ProPMLLoss is ProPMLLoss


def test_segmentation_logits():
    logits = torch.randn(2, 5, 8, 8)
    candidates = torch.randint(0, 2, (2, 5, 8, 8))
    value = ProPMLLoss(0.1, label_dim=1)(logits, candidates)
    expected = propml_loss(logits.permute(0, 2, 3, 1), candidates.permute(0, 2, 3, 1), lam=0.1).mean()
    torch.testing.assert_close(value, expected)


def test_label_weight_moves_with_the_module_and_masks_pass_through():
    logits, candidates = batch()
    loss = ProPMLLoss(0.3, label_weight=torch.tensor([1.0, 2.0, 3.0, 0.0])).double()
    assert loss.label_weight.dtype == torch.float64
    mask = torch.ones_like(logits, dtype=torch.bool)
    weight = torch.rand(6)
    value = loss(logits, candidates, example_weight=weight, mask=mask)
    expected = propml_loss(logits, candidates, lam=0.3, label_weight=loss.label_weight, example_weight=weight).mean()
    torch.testing.assert_close(value, expected)


def test_any_function_becomes_a_module():
    def squared(logits, candidates, *, label_dim, label_weight, example_weight, mask, power):
        return (logits - candidates).abs().pow(power).sum(label_dim)

    logits, candidates = batch()
    loss = CandidateLoss(squared, power=2)
    torch.testing.assert_close(loss(logits, candidates), (logits - candidates).square().sum(1).mean())
    assert repr(loss) == "CandidateLoss(power=2)"


def test_a_small_network_learns_the_true_label_among_candidates():
    # Label 0 is true whenever x > 0, label 1 otherwise; label 2 is a distractor in half of the sets.
    torch.manual_seed(0)
    x = torch.randn(400, 1)
    truth = torch.cat([x > 0, x <= 0, torch.zeros(400, 1, dtype=torch.bool)], dim=1)
    candidates = truth.clone()
    candidates[:, 2] = torch.rand(400) < 0.5
    layer, loss = torch.nn.Linear(1, 3), ProPMLLoss(lam=1.0)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        loss(layer(x), candidates).backward()
        optimiser.step()
    assert (layer(x)[:, :2].argmax(1) == truth[:, :2].float().argmax(1)).float().mean() > 0.97


@pytest.mark.parametrize("clamp", ["label", "batch"])
def test_clamped_correction_never_falls_below_zero(clamp):
    # Excluded labels with far negative logits make the corrected loss negative: -rho * l1 dominates.
    logits = torch.full((4, 3), -20.0, requires_grad=True)
    candidates = torch.zeros(4, 3)
    assert UnbiasedLoss(0.4, clamp=None)(logits, candidates) < 0
    value = UnbiasedLoss(0.4, clamp=clamp)(logits, candidates)
    assert value == 0
    value.backward()
    assert (logits.grad == 0).all()


def test_label_clamp_is_finer_than_batch_clamp():
    logits = torch.tensor([[-20.0, 3.0]])
    candidates = torch.tensor([[0, 0]])
    per_label = UnbiasedLoss(0.4, clamp=None, reduction="none")
    first, second = (per_label(logits[:, j : j + 1], candidates[:, j : j + 1]).item() for j in (0, 1))
    assert first < 0 < second
    assert UnbiasedLoss(0.4, clamp="label")(logits, candidates).item() == pytest.approx(second)
    assert UnbiasedLoss(0.4, clamp="batch")(logits, candidates).item() == pytest.approx(max(first + second, 0))


def test_clamped_correction_takes_weights():
    logits, candidates = batch()
    label_weight, example_weight = torch.tensor([1.0, 0.0, 2.0, 1.0]), torch.rand(6)
    clamped = UnbiasedLoss(0.05, clamp="batch", label_weight=label_weight)
    free = UnbiasedLoss(0.05, clamp=None, label_weight=label_weight)
    a = clamped(logits, candidates, example_weight=example_weight)
    torch.testing.assert_close(a, free(logits, candidates, example_weight=example_weight))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ProPMLLoss(-1), "lam is -1"),
        (lambda: ProPMLLoss(float("nan")), "lam is nan"),
        (lambda: ProPMLLoss("auto"), "lam is 'auto'; give a finite number of at least 0"),
        (lambda: UnbiasedLoss("auto"), "a noise rate lies in \\[0, 1\\), got 'auto'"),
        (lambda: ASLLoss(clip=-0.1), "clip is -0.1"),
        (lambda: ProPMLLoss(reduction="average"), 'choose "mean", "sum" or "none"'),
        (lambda: UnbiasedLoss(1.2), "got 1.2"),
        (lambda: UnbiasedLoss(0.6, 0.5), "the labels tell nothing"),
        (lambda: UnbiasedLoss(0.1, clamp="row"), "clamp is 'row'"),
        (lambda: UnbiasedLoss(0.1, reduction="sum"), "works on batch means"),
    ],
)
def test_bad_settings_are_told(make, told):
    with pytest.raises(ValueError, match=told):
        make()
