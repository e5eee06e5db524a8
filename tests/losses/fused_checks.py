"""What must hold of the fused losses on any device; a float64 formula on the CPU is the judge.

``test_losses_fused.py`` runs the checks on the CPU, and on a GPU where there is one. Where there is no pytest, this
file runs them all by itself: ``PYTHONPATH=src python tests/losses/fused_checks.py`` (``TRITON_INTERPRET=1`` sends them
through Triton's interpreter, without a GPU).
"""

import functools
import inspect
import itertools
import os
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import torch

from propml.losses import (
    ASLLoss,
    CandidateBCELoss,
    CandidateBits,
    CandidateLoss,
    ProPMLLoss,
    asl_loss,
    bce_loss,
    power_loss,
    propml_loss,
)
from propml.losses.kernels.engines import INTERPRETED, engine_of
from propml.losses.kernels.rows import rows_of
from propml.losses.problem import BCE, PROPML, Problem

LOSSES = {"propml": propml_loss, "bce": bce_loss, "asl": asl_loss, "power": power_loss}
KINDS_OF_CANDIDATES = ("bool", "uint8", "int8", "unknown", "float", "nan", "bits", "bits unknown")
# Float32 loses some digits on the way; a bfloat16 gradient is rounded twice where it was written ahead, by half a unit
# each time, float16 once. (The interpreter cuts bfloat16 off instead of rounding.)
RELATIVE = {torch.float32: 2e-5, torch.bfloat16: 2**-6 if INTERPRETED else 1.01 * 2**-7, torch.float16: 2**-10}
ABSOLUTE = 3e-7
seeds = itertools.count(time.time_ns() // 1000)  # fresh numbers at every check; printed where a check fails


@contextmanager
def poisoned():
    """Uninitialised memory is filled with NaN, and anything that is not deterministic raises."""
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def types_on(device):
    """The logits' types that are fused on the device."""
    gpu = torch.device(device).type == "cuda" or INTERPRETED
    return (torch.float32, torch.bfloat16, torch.float16) if gpu else (torch.float32, torch.bfloat16)


def losses_on(device):
    if torch.device(device).type == "cuda" or INTERPRETED:
        return "propml", "bce", "asl", "power"
    return "propml", "bce", "power"


def random_problem(shape, device, dtype=torch.float32, candidates="uint8", spread=4.0):
    """Logits and candidates; every tenth row or so has an empty set, a full one, or one far below float32's reach."""
    generator = torch.Generator().manual_seed(next(seeds))
    logits = spread * torch.randn(shape, generator=generator)
    marks = (torch.rand(shape, generator=generator) < 0.3).to(torch.int8)
    fate = torch.randint(0, 30, shape[:-1], generator=generator)
    marks[fate == 0], marks[fate == 1] = 0, 1
    far = (fate == 2).unsqueeze(-1) & (marks == 1)
    logits = torch.where(far, 20 * logits.abs() * -1 - 150, logits).to(dtype)
    if candidates in ("unknown", "nan", "bits unknown"):
        marks[torch.rand(shape, generator=generator) < 0.2] = -1
        marks[fate == 3] = -1
    converted = {
        "bool": lambda: marks == 1,
        "uint8": lambda: marks.to(torch.uint8),
        "int8": lambda: marks,
        "unknown": lambda: marks,
        "float": lambda: marks.float(),
        "nan": lambda: torch.where(marks < 0, torch.nan, marks.float()),
        "bits": lambda: CandidateBits.from_matrix(marks),
        "bits unknown": lambda: CandidateBits.from_matrix(marks),
    }[candidates]()
    return logits.to(device), converted.to(device), marks


def judge(name, logits, marks, grad_output=None, **options):
    """Values and gradient by the plain formula: in float64 nothing else computes them."""
    z = logits.detach().cpu().double().requires_grad_()
    values = LOSSES[name](z, marks, **{key: to_double(value) for key, value in options.items()})
    assert "Gradient" not in type(values.grad_fn).__name__, f"{name} was fused in float64"
    incoming = torch.ones_like(values) if grad_output is None else grad_output.detach().cpu().double()
    (gradient,) = torch.autograd.grad(values, z, incoming)
    return values.detach(), gradient


def to_double(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.cpu() if value.dtype == torch.bool else value.cpu().double()


def assert_close(actual, expected, dtype, what, slack=1.0):
    actual = actual.detach().cpu().double()
    bound = ABSOLUTE + slack * RELATIVE[dtype] * expected.abs()
    wrong = ~((actual - expected).abs() <= bound)
    assert not wrong.any(), (
        f"{what}: {int(wrong.sum())} of {wrong.numel()} entries off, the first by "
        f"{(actual - expected)[wrong][0].item():.3g} at {expected[wrong][0].item():.6g} (next seed {seeds})"
    )


def compare(name, logits, candidates, marks, incoming=None, slack=1.0, **options):
    """A fused loss, value and gradient, against the judge; the value may be off by ``slack`` times the usual bound."""
    logits = logits.detach().requires_grad_()
    with poisoned():
        values = LOSSES[name](logits, candidates, **options)
        assert "Gradient" in type(values.grad_fn).__name__, f"{name} was not fused: {values.grad_fn}"
        if incoming is None:
            incoming = torch.randn(values.shape, generator=torch.Generator().manual_seed(next(seeds))).to(values.device)
        (gradient,) = torch.autograd.grad(values, logits, incoming)
    expected, slopes = judge(name, logits, marks, incoming, **options)
    assert values.dtype == torch.float32
    assert gradient.dtype == logits.dtype
    assert_close(values, expected, torch.float32, f"{name} value {tuple(logits.shape)}", slack)
    assert_close(gradient, slopes, logits.dtype, f"{name} gradient {tuple(logits.shape)} {logits.dtype}")


# --- the checks: each takes a device -----------------------------------------------------------------------------


def check_rows_of_all_lengths(device, name):
    """From one label to a hundred thousand, in every type of logits."""
    shapes = [(1, 1), (3, 7), (70, 16), (33, 80), (9, 257), (5, 1000), (4, 1001), (2, 3000), (2, 5001), (2, 8192)]
    shapes += [(2, 12288), (3, 100_001)]
    for dtype in types_on(device):
        few = INTERPRETED or dtype != torch.float32 or name != "propml"
        for shape in shapes[:: 4 if few else 1]:
            compare(name, *random_problem(shape, device, dtype), lam=0.3)


def check_candidates_of_all_kinds(device, name):
    for kind in KINDS_OF_CANDIDATES if name == "propml" else ("bool", "nan", "bits unknown"):
        for shape in ((40, 80), (3, 9000)):
            logits, candidates, marks = random_problem(shape, device, candidates=kind)
            compare(name, logits, candidates, marks, lam=0.7)
    for dtype in types_on(device):
        compare(name, *random_problem((9, 1000), device, dtype, "bits"), lam=0.7)
    for dtype in (torch.int32, torch.int64, torch.float64, torch.bfloat16):
        logits, candidates, marks = random_problem((40, 21), device, candidates="unknown")
        compare(name, logits, candidates.to(dtype), marks)


def check_numbers_per_example(device, name):
    """λ and weights per example, given in any shape that spreads over the examples, and masks."""
    for dtype in types_on(device) if name == "propml" else (torch.float32,):
        logits, candidates, marks = random_problem((4, 9, 24), device, dtype, "unknown")
        rows = torch.rand(4, 9, device=device)
        compare(name, logits, candidates, marks, lam=rows)
        compare(name, logits, candidates, marks, lam=rows[:, :1], example_weight=rows[0])
        compare(name, logits, candidates, marks, lam=rows[0, 0], example_weight=rows.half())
        mask = torch.rand(logits.shape, device=device) < 0.7
        compare(name, logits, candidates, marks, lam=0.2, mask=mask, example_weight=rows)


def check_label_weights(device, name):
    """A label of weight 0 leaves the set."""
    for n_labels in (24, 9001):
        logits, candidates, marks = random_problem((30, n_labels), device, candidates="unknown")
        weight = torch.rand(n_labels, device=device)
        weight[::3] = 0
        compare(name, logits, candidates, marks, lam=0.4, label_weight=weight)
        for strided in views_of(weight):
            compare(name, logits, candidates, marks, lam=0.4, label_weight=strided)
        compare(name, logits, candidates, marks, label_weight=weight.double())
        compare(name, logits, candidates, marks, label_weight=(weight > 0.5))


def views_of(values):
    """The same numbers with other numbers between them, one number for all, and signs that memory does not hold."""
    among_others = torch.full((len(values), 3), 1e30, device=values.device)
    among_others[:, 1] = values
    return among_others[:, 1], values[-1:].expand(len(values)), torch.complex(values, -values).conj().imag


def check_memory_of_all_sorts(device, name):
    """Whatever the strides, types and lazy signs of tensors, their numbers are what counts."""
    logits, candidates, marks = random_problem((20, 33), device, candidates="unknown")
    for numbers in views_of(0.2 + torch.rand(20, device=device)):  # a small order of the power mean costs digits
        options = {"order": numbers} if name == "power" else {}
        compare(name, logits, candidates, marks, incoming=numbers, lam=numbers, example_weight=numbers, **options)
        compare(name, logits, candidates, marks, incoming=numbers)
    compare(name, torch.complex(logits, -logits).conj().imag, candidates, marks)
    mask = torch.rand(33, 20, 2, device=device) < 0.7
    compare(name, logits, candidates, marks, mask=mask[..., 1].t())
    compare(name, logits, candidates, marks, mask=mask[:, :1, 1].t().expand(20, 33))
    spread = torch.full((20, 66), 1, dtype=torch.bool, device=device)
    spread[:, ::2] = candidates > 0
    compare(name, logits, spread[:, ::2], marks > 0)
    packed = CandidateBits.from_matrix(candidates)
    wide = torch.full((20, 9), 255, dtype=torch.uint8, device=device)
    wide[:, 2:7] = packed.bits
    compare(name, logits, CandidateBits(wide[:, 2:7], 33, packed.known), marks)
    compare(name, logits, CandidateBits(packed.bits, 33, packed.known.t().contiguous().t()), marks)


def check_orders_of_the_power_mean(device):
    """One for all or one per row, from the geometric mean to beyond ProPML's."""
    if "power" not in losses_on(device):
        return
    for order in (0.0, 5e-4, 0.01, 0.3, 1.0, 1.7):
        logits, candidates, marks = random_problem((20, 30), device, candidates="unknown")
        slack = 4.0 if order == 0.01 else 1.0  # 1/order multiplies the rounding of the value, not of the gradient
        compare("power", logits, candidates, marks, slack=slack, lam=0.5, order=order)
    logits, candidates, marks = random_problem((4, 6, 30), device)
    orders = torch.tensor([[0.0], [0.2], [1.0], [2.0]], device=device)
    compare("power", logits, candidates, marks, lam=orders + 0.1, order=orders)


def check_focus_of_the_asymmetric_loss(device):
    if "asl" not in losses_on(device):
        return
    for clip, detached, gamma in (
        (0.0, False, 0.0),
        (0.0, True, 2.0),
        (0.05, True, 0.5),
        (0.0, False, 0.5),
        (0.2, False, 2.0),
    ):
        logits, candidates, marks = random_problem((20, 30), device)
        focus = {"gamma_positive": gamma, "gamma_negative": 2 * gamma, "clip": clip, "detach_focus": detached}
        compare("asl", logits, candidates, marks, lam=0.5, **focus)


def check_extremes(device, name):
    """All triples of far and near logits with every kind of set: finite, and what float64 says."""
    points = [-1e4, -1e3, -150.0, -88.0, -87.0, -60.0, -46.0, -30.0, -1.0, 0.0, 1.0, 19.0, 21.0, 30.0, 81.0, 1e3, 1e4]
    grid = torch.cartesian_prod(*(torch.tensor(points[:: 3 if INTERPRETED else 1]),) * 3)
    for dtype in types_on(device):
        for row in ([0, 0, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0], [1, -1, 0], [-1, -1, -1]):
            marks = torch.tensor(row, dtype=torch.int8).expand(grid.shape)
            if name == "asl":  # its focus comes out of p, which float32 does not tell from 1 far out: finite is enough
                logits = grid.to(device, dtype).requires_grad_()
                value = asl_loss(logits, marks.to(device))
                (gradient,) = torch.autograd.grad(value.sum(), logits)
                assert torch.isfinite(value).all()
                assert torch.isfinite(gradient).all()
            else:
                compare(name, grid.to(device, dtype), marks.to(device), marks, lam=0.3)
    if name not in ("propml", "power"):
        return
    for width in (3, 80, 9000):  # candidates all far below -88: the shares among them are what counts
        logits = -100.0 - 3 * torch.rand(20, width)
        marks = (torch.rand(20, width) < 0.5).to(torch.int8)
        marks[:, 0] = 1
        compare(name, logits.to(device), marks.to(device), marks, lam=0.3)


def check_masked_logits_of_any_kind(device, name):
    """An entry that carries no loss may have any logit: the others' values and slopes stay the same, its own is 0."""
    for dtype, kind in itertools.product(types_on(device), ("uint8", "unknown", "nan", "bits unknown")):
        for shape in ((40, 7), (3, 9000)) if kind == "unknown" else ((40, 7),):
            tame, candidates, marks = random_problem(shape, device, dtype, kind)
            mask = (torch.rand(tame.shape) < 0.7).to(device) if kind in ("uint8", "nan") else None
            ignored = (marks < 0).to(device) if mask is None else (marks < 0).to(device) | ~mask
            strange = torch.tensor([torch.nan, torch.inf, -torch.inf])[torch.randint(3, tame.shape)].to(device, dtype)
            results = []
            for logits in (tame, torch.where(ignored, strange, tame)):
                z = logits.requires_grad_()
                values = LOSSES[name](z, candidates, lam=0.3, mask=mask)
                (gradient,) = torch.autograd.grad(values.sum(), z)
                results.append((values.detach().cpu().double(), gradient.cpu().double()))
            for wild, expected in zip(results[1], results[0], strict=True):
                assert_close(wild, expected, dtype, f"{name}, {kind}, {dtype}")
            assert (results[1][1][ignored.cpu()] == 0).all()


def check_reductions(device, name):
    """Mean and sum; the incoming number may be anything; a large gradient goes through the kernel that may skip it."""
    engine = engine_of(torch.device(device).type)
    usual = getattr(engine, "SMALL", None)
    power = CandidateLoss(power_loss, lam=0.3)
    module = {"propml": ProPMLLoss(0.3), "bce": CandidateBCELoss(), "asl": ASLLoss(), "power": power}[name]
    try:
        for dtype, small, width in itertools.product(types_on(device), (usual, 0), (24, 33)):
            if usual is not None:
                engine.SMALL = small
            logits, candidates, marks = random_problem((50, width), device, dtype)
            for reduction, factor in itertools.product(("mean", "sum"), (1.0, 0.37)):
                module.reduction = reduction
                z = logits.detach().requires_grad_()
                with poisoned():
                    loss = module(z, candidates)
                    (factor * loss).backward()
                each = torch.full((50,), factor / 50 if reduction == "mean" else factor)
                values, slopes = judge(name, logits, marks, each, lam=0.3 if name in ("propml", "power") else 1.0)
                assert loss.shape == ()
                total = values.mean() if reduction == "mean" else values.sum()
                assert_close(loss, total, torch.float32, f"{name} {reduction}")
                assert_close(z.grad, slopes, dtype, f"{name} {reduction} {dtype}")
    finally:
        if usual is not None:
            engine.SMALL = usual


def check_foreseen_factors(device, name):
    """A large gradient is written for the last step's factor; whether that was right is not seen in any bit of it."""
    engine = engine_of(torch.device(device).type)
    if not hasattr(engine, "SMALL"):
        return
    usual, engine.SMALL = engine.SMALL, 0
    try:
        cases = [(dtype, (12, 24)) for dtype in types_on(device)] + [(torch.float32, (2, 4099))]
        for dtype, shape in cases:
            logits, candidates, marks = random_problem(shape, device, dtype)
            alone, in_a_row = [], []
            factors = (1.0, 3.0, 3.0, 0.3)
            for found, forget in ((alone, True), (in_a_row, False)):
                engine._last_factors.clear()
                for factor in factors:
                    if forget:
                        engine._last_factors.clear()
                    z = logits.detach().requires_grad_()
                    (LOSSES[name](z, candidates, reduction="mean") * factor).backward()
                    found.append(z.grad)
            assert all(torch.equal(*pair) for pair in zip(alone, in_a_row, strict=True)), f"{name} {dtype} {shape}"
            _, slopes = judge(name, logits, marks, torch.full((shape[0],), 0.3 / shape[0]))
            assert_close(in_a_row[3], slopes, dtype, f"{name} times 0.3")
            z = logits.detach().requires_grad_()
            loss = 0.3 * LOSSES[name](z, candidates, reduction="mean")
            candidates.zero_()
            if dtype == torch.float16:
                assert_noticed(loss, "candidates")
            else:
                loss.backward()
                assert_close(z.grad, slopes, dtype, f"{name}, candidates changed in between")
    finally:
        engine.SMALL = usual


def check_backward_twice(device):
    """The gradient that was written ahead is given away once; a second backward pass computes its own."""
    for reduction in ("mean", "none"):
        logits, candidates, marks = random_problem((20, 24), device)
        z = logits.requires_grad_()
        loss = propml_loss(z, candidates, lam=0.3, reduction=reduction)
        incoming = torch.full(loss.shape, 3.0, device=device)
        (first,) = torch.autograd.grad(loss, z, incoming, retain_graph=True)
        kept = first.clone()
        first.zero_()
        (second,) = torch.autograd.grad(loss, z, incoming)
        each = torch.full((20,), 3 / 20 if reduction == "mean" else 3.0)
        _, slopes = judge("propml", logits, marks, each, lam=0.3)
        assert_close(kept, slopes, torch.float32, "first")
        assert_close(second, slopes, torch.float32, "second")


def check_second_derivative(device):
    for reduction in ("mean", "none"):
        logits, candidates, marks = random_problem((6, 8), device, spread=2.0)
        logits = logits.clamp(-5, 5)
        direction = torch.randn(6, 8, dtype=torch.float64)
        results = []
        for z, s, loss in (
            (logits.detach().requires_grad_(), candidates, propml_loss),
            (logits.detach().cpu().double().requires_grad_(), marks, propml_loss),
        ):
            value = loss(z, s, lam=0.3, reduction=reduction).sum()
            (gradient,) = torch.autograd.grad(value, z, create_graph=True)
            (second,) = torch.autograd.grad((gradient * direction.to(z)).sum(), z)
            results.append(second)
        assert_close(results[0], results[1], torch.float32, f"second derivative, {reduction}")


def check_layouts(device):
    """Label axes, strides and offsets of all sorts."""
    generator = torch.Generator().manual_seed(next(seeds))
    base = torch.randn(6, 10, 8, generator=generator)
    marks = torch.randint(-1, 2, (6, 10, 8), generator=generator).to(torch.int8)
    for label_dim in (0, 1, 2, -1, -2):
        compare("propml", base.to(device), marks.to(device), marks, lam=0.3, label_dim=label_dim)
    wide, more = base.flatten(1), marks.flatten(1)
    cuts = [slice(0, 33), slice(1, 34), slice(5, 6), slice(3, 80)]
    for cut in cuts:
        compare("propml", wide.to(device)[:, cut], more.to(device)[:, cut], more[:, cut], lam=0.3)
    compare("propml", wide.to(device)[1:], more.to(device)[1:], more[1:])
    compare("propml", wide.to(device).t(), more.to(device).t(), more.t())
    compare("propml", wide.to(device)[:, ::2], more.to(device)[:, ::2], more[:, ::2])
    compare("propml", wide.to(device), more[:1].to(device).expand(6, 80), more[:1].expand(6, 80))
    compare("propml", wide[0].to(device), more[0].to(device), more[0])
    bits = CandidateBits.from_matrix(marks.movedim(1, -1).to(device))
    compare("propml", base.to(device), bits, marks, lam=0.3, label_dim=1)


def check_same_bits_every_time(device):
    for shape in ((500, 80), (30, 1000), (3, 20_000)):
        logits, candidates, _ = random_problem(shape, device)
        runs = []
        for _ in range(3):
            z = logits.detach().requires_grad_()
            loss = propml_loss(z, candidates, lam=0.3, reduction="mean")
            loss.backward()
            runs.append((loss.detach(), z.grad))
        assert all(torch.equal(run[0], runs[0][0]) and torch.equal(run[1], runs[0][1]) for run in runs)


def check_rows_that_programs_share(device):
    """Programs that wait for each other's sums: more rows than are there at a time, on two streams, always the same."""
    engine = engine_of(torch.device(device).type)
    if not getattr(engine, "SHARES_ROWS", False):
        return
    with smaller_blocks(engine):
        n_rows, n_labels = (6, 360) if INTERPRETED else (700, 40_000)
        for dtype, kind in itertools.product(types_on(device), ("uint8", "bits")):
            logits, candidates, marks = random_problem((n_rows, n_labels), device, dtype, kind)
            rows = rows_of(Problem(PROPML, None, candidates, 0.3, -1, None, None, None), logits)
            assert engine.tile_of(rows).joint, "no row is shared"
            values, slopes = judge("propml", logits, marks, lam=0.3)
            found = []
            for stream in two_streams(device):
                with stream:
                    for _ in range(1 if INTERPRETED else 5):
                        z = logits.detach().requires_grad_()
                        loss = propml_loss(z, candidates, lam=0.3, reduction="sum")
                        loss.backward()
                        found.append((loss.detach(), z.grad))
            if torch.device(device).type == "cuda":
                torch.cuda.synchronize()
            for loss, gradient in found:
                assert torch.equal(loss, found[0][0])
                assert torch.equal(gradient, found[0][1])
            assert_close(found[0][0], values.sum(), torch.float32, f"shared rows, {kind}")
            assert_close(found[0][1], slopes, dtype, f"gradient of shared rows, {kind}, {dtype}")


@contextmanager
def smaller_blocks(engine):
    """The interpreter takes its time."""
    usual = engine.LONGER_THAN, engine.JOINT, engine.JOINT_16_BIT, engine.SMALL
    if INTERPRETED:
        small = engine.JOINT._replace(block=64)
        engine.LONGER_THAN, engine.JOINT, engine.JOINT_16_BIT, engine.SMALL = 64, small, small, 0
    try:
        yield
    finally:
        engine.LONGER_THAN, engine.JOINT, engine.JOINT_16_BIT, engine.SMALL = usual


def two_streams(device):
    if torch.device(device).type != "cuda":
        return (nullcontext(),)
    torch.cuda.synchronize()  # what they read is there
    return torch.cuda.stream(torch.cuda.Stream()), torch.cuda.stream(torch.cuda.Stream())


def check_without_gradient(device):
    logits, candidates, marks = random_problem((20, 24), device)
    expected, _ = judge("propml", logits, marks, lam=0.3)
    with poisoned():
        assert_close(propml_loss(logits, candidates, lam=0.3), expected, torch.float32, "no gradient asked for")
        with torch.no_grad():
            value = propml_loss(logits.clone().requires_grad_(), candidates, lam=0.3, reduction="sum")
        with torch.inference_mode():
            again = propml_loss(logits, candidates, lam=0.3, reduction="mean")
    assert not value.requires_grad
    assert_close(value, expected.sum(), torch.float32, "no_grad")
    assert_close(again, expected.mean(), torch.float32, "inference_mode")


def check_autocast(device):
    kind = torch.device(device).type
    layer = torch.nn.Linear(12, 24).to(device)
    x = torch.randn(20, 12, device=device)
    _, candidates, marks = random_problem((20, 24), device)
    with torch.autocast(kind, dtype=torch.bfloat16):
        logits = layer(x)
        assert logits.dtype == torch.bfloat16
        loss = propml_loss(logits, candidates, lam=0.3, reduction="mean")
    loss.backward()
    assert loss.dtype == torch.float32
    assert_close(loss, judge("propml", logits, marks, lam=0.3)[0].mean(), torch.float32, "autocast")
    assert torch.isfinite(layer.weight.grad).all()


def check_changed_candidates_do_no_harm(device):
    """A backward pass gives the gradient at what the forward pass saw, or says that it cannot."""
    logits, candidates, marks = random_problem((20, 24), device)
    loss = propml_loss(logits.requires_grad_(), candidates, lam=0.3, reduction="mean")
    candidates.zero_()
    loss.backward(retain_graph=True)
    expected = judge("propml", logits, marks, lam=0.3)[1] / 20
    assert_close(logits.grad, expected, torch.float32, "candidates that change between the passes")
    assert_noticed(loss, "candidates")


def assert_noticed(loss, changed):
    told = ""
    try:
        loss.backward()
    except RuntimeError as error:
        told = str(error)
    assert "modified by an inplace operation" in told, f"{changed} changed between the passes, and nobody noticed"


def check_changed_arguments_are_noticed(device):
    """The same for all else that the loss reads, also where the kernel was given a copy of it."""
    for changed in ("candidates", "mask", "lam", "example_weight"):
        logits, candidates, _ = random_problem((24, 20), device)
        given = {
            "candidates": candidates.t(),
            "mask": torch.rand(24, 20, device=device).t() < 0.7,
            "lam": torch.rand(20, 2, device=device)[:, 0],
            "example_weight": torch.rand(20, 2, device=device)[:, 0],
        }
        loss = propml_loss(logits.t().requires_grad_(), **given)
        if torch.device(device).type == "cpu":
            loss.sum().backward(retain_graph=True)  # which gives away the gradient that was written ahead
        given[changed].zero_()
        assert_noticed(loss.sum(), changed)


def check_functional_transforms(device):
    """vmap and grad go the plain way."""
    logits, candidates, marks = random_problem((6, 24), device)
    each = torch.func.vmap(torch.func.grad(lambda z, s: propml_loss(z, s, lam=0.3)))(logits, candidates)
    assert_close(each, judge("propml", logits, marks, lam=0.3)[1], torch.float32, "vmap of grad")


def check_compiled(device):
    """One graph, with the kernel as one step on a GPU; sizes may change."""
    torch._dynamo.reset()
    backend = "inductor" if torch.device(device).type == "cuda" else "aot_eager"
    module = torch.compile(ProPMLLoss(0.3), fullgraph=True, backend=backend)
    each = torch.compile(lambda z, s, w: propml_loss(z, s, lam=w, label_dim=1), fullgraph=True, backend=backend)
    for n in (7, 11, 20):
        logits, candidates, marks = random_problem((n, 24), device, torch.bfloat16)
        z = logits.detach().requires_grad_()
        loss = module(z, candidates)
        loss.backward()
        values, slopes = judge("propml", logits, marks, torch.full((n,), 1 / n), lam=0.3)
        assert_close(loss, values.mean(), torch.float32, "compiled")
        assert_close(z.grad, slopes, torch.bfloat16, "compiled gradient")
        logits, candidates, marks = random_problem((n, 24), device, torch.float32, "bits unknown")
        lam = torch.rand(n, device=device)
        z = logits.detach().requires_grad_()
        out = each(z, candidates, lam)
        out.sum().backward()
        values, slopes = judge("propml", logits, marks, lam=lam)
        assert_close(out, values, torch.float32, "compiled with bits")
        assert_close(z.grad, slopes, torch.float32, "compiled gradient with bits")


def check_compiled_with_arguments_of_all_kinds(device):
    """By the compiler that people use, which takes the operator's arguments as they come."""
    if torch.device(device).type != "cuda":
        return  # there torch.compile takes the plain formula; test_losses_functional.py compiles that
    compiled = torch.compile(propml_loss, fullgraph=True)
    kinds = [(kind, torch.float32) for kind in (*KINDS_OF_CANDIDATES, "int64")]
    for kind, dtype in [*kinds, ("bool", torch.bfloat16), ("bool", torch.float16)]:
        logits, candidates, marks = random_problem((12, 24), device, dtype, "unknown" if kind == "int64" else kind)
        candidates = candidates.long() if kind == "int64" else candidates
        weight, mask = views_of(torch.rand(24, device=device))[0], torch.rand(24, 12, device=device).t() < 0.8
        lam = torch.rand(12, 2, device=device)[:, 1]
        for options in ({}, {"label_weight": weight, "mask": mask, "lam": lam, "example_weight": lam}):
            torch._dynamo.reset()  # each is another function to the compiler, which has a limit of them
            z = logits.detach().requires_grad_()
            values = compiled(z, candidates, **options)
            values.sum().backward()
            expected, slopes = judge("propml", logits, marks, **options)
            assert_close(values, expected, torch.float32, f"compiled, {kind}, {dtype}, {set(options)}")
            assert_close(z.grad, slopes, dtype, f"compiled gradient, {kind}, {dtype}, {set(options)}")


def check_operators(device):
    """torch.library's own examination of the custom operators."""
    for kernel, kind in ((PROPML, "bits unknown"), (BCE, "bool"), (PROPML, "nan")):
        logits, candidates, _ = random_problem((9, 24), device, candidates=kind)
        lam = torch.rand(9, device=device) if kind == "nan" else 0.3
        weight = torch.rand(9, device=device)
        rows = rows_of(Problem(kernel, None, candidates, lam, -1, None, weight, None), logits)
        fields = (logits.clone().requires_grad_(), *rows[1:])
        torch.library.opcheck(torch.ops.propml.row_losses.default, fields)
        stats = torch.ops.propml.row_losses(*rows)[1]
        torch.library.opcheck(
            torch.ops.propml.row_losses_backward.default,
            (torch.rand(9, device=device), stats, *rows),
            test_utils=("test_schema", "test_faketensor"),
        )


def check_distributed(device):
    """Inside DistributedDataParallel, of one process."""
    import torch.distributed as dist

    backend = "nccl" if torch.device(device).type == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    try:
        layer = torch.nn.Linear(12, 24).to(device)
        model = torch.nn.parallel.DistributedDataParallel(layer)
        x = torch.randn(20, 12, device=device)
        _, candidates, marks = random_problem((20, 24), device)
        propml_loss(model(x), candidates, lam=0.3, reduction="mean").backward()
        with torch.no_grad():
            logits = layer(x)
        _, slopes = judge("propml", logits, marks, torch.full((20,), 1 / 20), lam=0.3)
        assert_close(layer.bias.grad, slopes.sum(0), torch.float32, "bias under DDP")
    finally:
        dist.destroy_process_group()


def check_graph_capture(device):
    """A captured step replays with new numbers in the same places."""
    if torch.device(device).type != "cuda":
        return
    for shape in ((64, 80), (64, 40_000)):
        logits, candidates, _ = random_problem(shape, device)
        z = logits.detach().requires_grad_()
        loss = ProPMLLoss(0.3)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            for _ in range(2):
                torch.autograd.grad(loss(z, candidates), z)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            value = loss(z, candidates)
            (gradient,) = torch.autograd.grad(value, z)
        for _ in range(2):
            fresh, marks, _ = random_problem(shape, device)
            with torch.no_grad():
                z.copy_(fresh)
                candidates.copy_(marks)
            graph.replay()
            values, slopes = judge("propml", z, marks.cpu(), torch.full((64,), 1 / 64), lam=0.3)
            assert_close(value, values.mean(), torch.float32, "replayed")
            assert_close(gradient, slopes, torch.float32, "replayed gradient")


def check_memory(device):
    """Beside the gradient no memory of the logits' size is taken, forward and backward together."""
    if torch.device(device).type != "cuda":
        return
    for kind in ("bool", "bits"):
        logits, candidates, _ = random_problem((4096, 1000), device, candidates=kind)
        z = logits.requires_grad_()
        for reduction in ("mean", "none"):
            z.grad = None
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            propml_loss(z, candidates, lam=0.3, reduction=reduction).mean().backward()
            more = torch.cuda.max_memory_allocated() - before
            assert more < 1.05 * z.numel() * z.element_size(), f"{reduction}: {more} bytes for {z.numel()} entries"


def checks_on(device):
    """Name → check, those of every loss one by one."""
    found = {}
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            title = name.removeprefix("check_").replace("_", " ")
            if "name" in inspect.signature(check).parameters:
                found |= {f"{title}, {loss}": functools.partial(check, name=loss) for loss in losses_on(device)}
            else:
                found[title] = check
    return found


def run(names, device):
    """The checks one after the other; how many failed."""
    failed = 0
    for name in names:
        start, verdict = time.perf_counter(), "ok"
        try:
            checks_on(device)[name](device)
        except Exception:
            failed += 1
            verdict = "FAILED\n" + traceback.format_exc(limit=-4)
        tell(f"{time.perf_counter() - start:6.1f} s  {name}: {verdict}")
    return failed


def run_apart(names, workers):
    """Each check in a process of its own, several at a time: most of the time goes into compiling kernels."""

    def one(name):
        return subprocess.run([sys.executable, __file__, name], capture_output=True, text=True)

    failed = 0
    with ThreadPoolExecutor(workers) as pool:
        for name, done in zip(names, pool.map(one, names), strict=True):
            failed += done.returncode != 0
            tell(done.stdout.rstrip())
            if done.returncode:
                tell(f"{name}: ended with {done.returncode}: {done.stderr[-500:]}")
    return failed


def tell(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main():
    device = "cuda" if torch.cuda.is_available() else "cpu"
    names = sys.argv[1:]
    if names:
        sys.exit(run(names, device) > 0)
    names = list(checks_on(device))
    tell(f"checks of the fused losses on {device}{', interpreted' if INTERPRETED else ''}")
    failed = run_apart(names, max(1, (os.cpu_count() or 2) - 2)) if device == "cuda" else run(names, device)
    tell(f"{len(names) - failed} of {len(names)} checks hold")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
