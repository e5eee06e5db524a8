"""The fused path of a loss: when it is taken, and how it takes part in automatic differentiation.

There are two ways to a gradient. Where the loss is reduced to one number, the forward pass knows all but one factor of
the gradient, the number that comes back: it writes the gradient at once, for 1 on the CPU, on a GPU for the number of
the last step. The backward pass does not touch it when that was right. Where one value per example is returned, a GPU
computes the gradient in the backward pass from the logits and two numbers per row. On the CPU, where arithmetic costs
more than memory, the gradient is always written at once.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from propml.losses.candidates import CandidateBits
from propml.losses.kernels import c_rows, custom_ops  # noqa: F401  the latter registers torch.ops.propml
from propml.losses.kernels.engines import HAS_TRITON, INTERPRETED, engine_of
from propml.losses.kernels.rows import flat_rows, per_row, rows_of
from propml.losses.problem import Problem, Reduction, check_reduction, reduced

__all__ = ["computed", "is_fusable"]

GPU_TYPES = (torch.float32, torch.bfloat16, torch.float16)
LONG_SUM, LINE = 4096, 256
TENSORS = (Tensor, torch.nn.Parameter)  # a subclass may mean something else: the plain path leaves that to it


def computed(logits: Tensor, problem: Problem, reduction: Reduction) -> Tensor:
    """The loss by its kernel, or by the plain formula where the kernel does not apply."""
    check_reduction(reduction)
    if not is_fusable(logits, problem):
        return reduced(problem.formula(logits, problem), reduction)
    if torch.compiler.is_compiling():
        values = torch.ops.propml.row_losses(*flat_rows(problem, logits))[0]
        return reduced(values.view(problem.lead(logits)), reduction)
    engine = engine_of(logits.device.type)
    if not (torch.is_grad_enabled() and logits.requires_grad):
        values = engine.losses(rows_of(problem, logits))[0]
        return reduced(values.view(problem.lead(logits)), reduction)
    if engine.gradient_at_once(reduction != "none"):
        return _at_once(logits, problem, engine, reduction)
    return reduced(_GradientLater.apply(logits, problem, engine), reduction)


def is_fusable(logits: Tensor, problem: Problem) -> bool:
    """Whether the fused path gives what the plain one would; what is refused here, the plain path computes or tells."""
    compiling = torch.compiler.is_compiling()
    if logits.device.type == "cuda" or INTERPRETED:
        able = HAS_TRITON and logits.dtype in GPU_TYPES
    else:  # torch.compile fuses the plain formula well on the CPU
        able = logits.device.type == "cpu" and not compiling and logits.dtype in c_rows.TYPES
        able = able and c_rows.takes(problem.kernel)
    if not able or logits.numel() == 0 or not -logits.ndim <= problem.label_dim < logits.ndim:
        return False
    if torch._C._are_functorch_transforms_active() or not (compiling or type(logits) in TENSORS):
        return False
    shape, candidates, mask = logits.shape, problem.candidates, problem.mask
    packed = isinstance(candidates, CandidateBits)
    if not (packed or isinstance(candidates, Tensor)):
        return False
    return (
        candidates.shape == ((*problem.lead(logits), shape[problem.label_dim]) if packed else shape)
        and candidates.device == logits.device
        and (mask is None or (mask.dtype == torch.bool and mask.shape == shape and mask.device == logits.device))
        and _is_simple(problem.lam, problem, logits)
        and ("order" not in problem.options or _is_simple(problem.options["order"], problem, logits))
        and (problem.example_weight is None or _is_per_row(problem.example_weight, problem.lead(logits), logits))
        and (problem.label_weight is None or _is_per_label(problem.label_weight, problem, logits))
    )


class _GradientAtOnce(torch.autograd.Function):
    """The forward pass writes the gradient. It is given away by the first backward pass, later ones compute it anew.

    So the first one does not look at logits and candidates again: it gives the gradient at what they were.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, problem: Problem, engine: Any, reduction: Reduction) -> Tensor:
        rows = rows_of(problem, logits)
        scale = 1.0 / len(rows.logits) if reduction == "mean" else 1.0
        values, ctx.gradient, ctx.ahead = engine.losses_and_gradient(rows, scale)
        ctx.problem, ctx.engine, ctx.reduction = problem, engine, reduction
        ctx.in_rows, ctx.dtype = rows.logits is logits, logits.dtype
        ctx.save_for_backward(logits, *problem.tensors())
        return values.view(problem.lead(logits)) if reduction == "none" else _total(values)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        if ctx.gradient is None or torch.is_grad_enabled():
            logits = ctx.saved_tensors[0]  # fails, as it should, where they were changed in between
            return _plain_gradient(ctx.problem, ctx.reduction, logits, grad_output), None, None, None
        gradient, ahead, ctx.gradient, ctx.ahead = ctx.gradient, ctx.ahead, None, None
        if ctx.reduction == "none":
            gradient.mul_(grad_output.reshape(-1, 1))
        else:
            gradient = ctx.engine.scaled(gradient, ahead, grad_output, ctx.dtype, lambda: _is_unchanged(ctx))
        if not ctx.in_rows:
            gradient = ctx.problem.shaped_like(gradient, ctx.saved_tensors[0])
        return gradient, None, None, None


def _total(values: Tensor) -> Tensor:
    """Their sum; a long one by lines, many at a time: PyTorch takes 8 µs for one sum of 65 536 values on an H200."""
    if len(values) < LONG_SUM:
        return values.sum()
    end = len(values) // LINE * LINE
    total = values[:end].view(-1, LINE).sum(1).sum()
    return total if end == len(values) else total + values[end:].sum()


def _is_unchanged(ctx: Any) -> bool:
    """Whether all that the forward pass read is as it was."""
    try:
        return bool(ctx.saved_tensors)
    except RuntimeError:
        if ctx.dtype == torch.float16:  # what was written ahead in it may have lost too much
            raise
        return False


# Past the part of `apply` that serves functional transforms, with which nobody comes here.
_at_once = super(torch.autograd.Function, _GradientAtOnce).apply


class _GradientLater(torch.autograd.Function):
    """The forward pass keeps two numbers per row, the backward pass computes the gradient from them."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, problem: Problem, engine: Any) -> Tensor:
        rows = rows_of(problem, logits)
        values, stats = engine.losses(rows)
        ctx.problem, ctx.engine = problem, engine
        ctx.save_for_backward(logits, stats, *problem.tensors())
        return values.view(problem.lead(logits))

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        logits, stats, *_ = ctx.saved_tensors
        if torch.is_grad_enabled():
            return _plain_gradient(ctx.problem, "none", logits, grad_output), None, None
        gradient = ctx.engine.gradient(rows_of(ctx.problem, logits), stats, per_row(grad_output.reshape(-1)))
        return ctx.problem.shaped_like(gradient, logits), None, None


def _plain_gradient(problem: Problem, reduction: Reduction, logits: Tensor, grad_output: Tensor) -> Tensor:
    """The gradient by the plain formula: with ``create_graph`` it can itself be differentiated."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        z = logits if again else logits.detach().requires_grad_()
        value = reduced(problem.formula(z, problem), reduction)
        return torch.autograd.grad(value, z, grad_output, create_graph=again)[0]


def _is_simple(value: Any, problem: Problem, logits: Tensor) -> bool:
    """Whether a λ or an order is one number, or one for each row, and the loss stays in float32 with it."""
    if isinstance(value, float | int):
        return 0 <= value < math.inf
    return _is_per_row(value, problem.lead(logits), logits) and _keeps_type(value)


def _is_per_row(values: Any, lead: torch.Size, logits: Tensor) -> bool:
    """Whether the values say something to each row of the logits, and need no gradient themselves."""
    if not isinstance(values, Tensor) or values.requires_grad or values.device != logits.device:
        return False
    spare = len(lead) - values.ndim
    return spare >= 0 and all(own in (1, length) for own, length in zip(values.shape, lead[spare:], strict=True))


def _is_per_label(weight: Tensor, problem: Problem, logits: Tensor) -> bool:
    one_each = weight.shape == (logits.shape[problem.label_dim],)
    return one_each and not weight.requires_grad and weight.device == logits.device


def _keeps_type(lam: Tensor) -> bool:
    """Whether the loss stays in float32 when it is multiplied by λ."""
    return lam.ndim == 0 or torch.promote_types(lam.dtype, torch.float32) == torch.float32
