"""The fused losses as PyTorch operators, so that ``torch.compile`` and ``torch.export`` take them for one step each.

``torch.ops.propml.row_losses`` takes the fields of :class:`propml.losses.rows.Rows` and returns one value per row, and
two numbers per row from which ``torch.ops.propml.row_losses_backward`` computes the gradient on the logits.
"""

from typing import Any

import torch
from torch import Tensor

from propml.losses.engines import engine_of
from propml.losses.rows import Rows, per_row

_ROWS = (
    "Tensor logits, Tensor marks, Tensor? known, Tensor? mask, Tensor? label_weight, Tensor? lam_rows, float lam, "
    "Tensor? example_weight, float[] focus, int kind, bool packed, Tensor? order_rows"
)


@torch.library.custom_op("propml::row_losses", mutates_args=(), schema=f"({_ROWS}) -> (Tensor, Tensor)")
def row_losses(*fields: Any) -> tuple[Tensor, Tensor]:
    rows = Rows(*fields).laid_out()
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
    rows = Rows(*fields).laid_out()
    return engine_of(rows.logits.device.type).gradient(rows, stats, per_row(grad_output))


@row_losses_backward.register_fake
def _(grad_output: Tensor, stats: Tensor, logits: Tensor, *others: Any) -> Tensor:
    return logits.new_empty(logits.shape)


def _keep(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    rows = Rows(*inputs)
    ctx.numbers = (rows.lam, rows.focus, rows.kind, rows.packed)
    tensors = (rows.logits, rows.marks, rows.known, rows.mask, rows.label_weight, rows.lam_rows, rows.example_weight)
    ctx.save_for_backward(output[1], *tensors, rows.order_rows)


def _backward(ctx: Any, grad_output: Tensor, _: Tensor) -> tuple:
    stats, logits, marks, known, mask, label_weight, lam_rows, example_weight, order_rows = ctx.saved_tensors
    lam, focus, kind, packed = ctx.numbers
    fields = (logits, marks, known, mask, label_weight, lam_rows, lam, example_weight, focus, kind, packed, order_rows)
    return torch.ops.propml.row_losses_backward(grad_output, stats, *fields), *(None for _ in fields[1:])


row_losses.register_autograd(_backward, setup_context=_keep)
