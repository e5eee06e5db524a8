"""The fused losses as PyTorch operators, so that ``torch.compile`` and ``torch.export`` take them for one step each.

``torch.ops.propml.row_losses`` takes the fields of :class:`propml.losses.kernels.rows.KernelRows`. It returns one
value per row, and two numbers per row from which ``torch.ops.propml.row_losses_backward`` computes the gradient on the
logits.
"""

from typing import Any, get_type_hints

import torch
from torch import Tensor

from propml.losses.kernels.engines import engine_of
from propml.losses.kernels.rows import KernelRows, per_row

__all__ = ["row_losses", "row_losses_backward"]

_TYPES = {Tensor | None: "Tensor?", list[float]: "float[]"}
_ROWS = ", ".join(f"{_TYPES.get(kind) or kind.__name__} {name}" for name, kind in get_type_hints(KernelRows).items())


@torch.library.custom_op("propml::row_losses", mutates_args=(), schema=f"({_ROWS}) -> (Tensor, Tensor)")
def row_losses(*fields: Any) -> tuple[Tensor, Tensor]:
    rows = KernelRows(*fields).laid_out()
    values, stats = engine_of(rows.logits.device.type).losses(rows)
    return values, values.new_zeros((2, len(values))) if stats is None else stats


@row_losses.register_fake
def _(logits: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    n_rows = logits.shape[0]
    return logits.new_empty(n_rows, dtype=torch.float32), logits.new_empty((2, n_rows), dtype=torch.float32)


@torch.library.custom_op(
    "propml::row_losses_backward", mutates_args=(), schema=f"(Tensor grad_output, Tensor stats, {_ROWS}) -> Tensor"
)
def row_losses_backward(grad_output: Tensor, stats: Tensor, *fields: Any) -> Tensor:
    rows = KernelRows(*fields).laid_out()
    return engine_of(rows.logits.device.type).gradient(rows, stats, per_row(grad_output))


@row_losses_backward.register_fake
def _(grad_output: Tensor, stats: Tensor, logits: Tensor, *others: Any) -> Tensor:
    return logits.new_empty(logits.shape)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    ctx.numbers = [None if isinstance(field, Tensor) else field for field in inputs]
    ctx.save_for_backward(output[1], *(field if isinstance(field, Tensor) else None for field in inputs))


def _backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple:
    stats, *tensors = ctx.saved_tensors
    fields = [number if tensor is None else tensor for tensor, number in zip(tensors, ctx.numbers, strict=True)]
    return torch.ops.propml.row_losses_backward(grad_output, stats, *fields), *(None for _ in fields[1:])


row_losses.register_autograd(_backward, setup_context=_keep)
