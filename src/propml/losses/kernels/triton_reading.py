"""How the Triton kernels read rows: logits, marks of any kind, weights, and the numbers that a row has for itself.

Entries come as (rows, groups, 8): a thread holds the eight labels of one byte of packed candidates side by side.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from propml.losses.kernels.triton_math import POWER, PROPML

__all__ = ["read_entries", "row_factors", "row_orders"]

TINY_ORDER = tl.constexpr(1e-3)  # below it the power mean is the geometric one to float precision
OUTSIDE = tl.constexpr(-1e4)  # what is read beyond a row: σ of it is 0, and float16 holds it


@triton.jit
def bits_of(plane, rows, stride, start, there, end, BLOCK: tl.constexpr):
    """A plane of packed candidates: every byte is loaded once, and taken apart where its eight labels are."""
    byte = start // 8 + tl.arange(0, BLOCK // 8)[None, :]
    packed = tl.load(plane + rows[:, None] * stride + byte, mask=there[:, None] & (byte * 8 < end), other=0)
    return (packed.to(tl.int32)[:, :, None] & (1 << tl.arange(0, 8))[None, None, :]) != 0


@triton.jit
def read_entries(
    source, rows, start, there, end,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, ONLY_SET: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Logits of the labels from ``start`` on, which are candidates, label weights; their columns, which are in the row.

    An unknown, masked or outside entry gets a logit so low that as an excluded label it has neither value nor slope:
    what is no candidate is excluded. Without ``UNKNOWN`` there are none of the first two; with ``ONLY_SET`` no other
    logits than the candidates' are read.
    """
    logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight = source
    group = start + 8 * tl.arange(0, BLOCK // 8)[None, :, None]
    column = group + tl.arange(0, 8)[None, None, :]
    row = rows[:, None, None]
    inside = there[:, None, None] & (column < end)
    if ALIGN == 8:  # whole groups are in the row, or none of it
        inside = there[:, None, None] & (group < end) & (column >= 0)
    told = inside
    if PACKED:
        positive = bits_of(candidates, rows, candidate_stride, start, there, end, BLOCK)
        if ALIGN < 8:
            positive = positive & inside
        if known is not None:
            told = inside & bits_of(known, rows, candidate_stride, start, there, end, BLOCK)
    else:
        marks = tl.load(candidates + row * (candidate_stride * ALIGN) + column, mask=inside, other=0)
        if marks.dtype.is_floating():
            positive = marks > 0.5
            told = marks > -0.5  # not so for NaN
        else:
            positive = marks > 0
            if marks.dtype.is_int_signed():
                told = marks >= 0
    if mask is not None:
        told = told & (tl.load(mask + row * (mask_stride * ALIGN) + column, mask=inside, other=0) != 0)
    if UNKNOWN:
        positive = positive & told
    weight = 1.0
    if label_weight is not None:
        weight = tl.load(label_weight + column, mask=inside, other=0.0).to(tl.float32)
        if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
            positive = positive & (weight > 0)
    read = inside
    if ONLY_SET:
        read = positive & inside
    z = tl.load(logits + row * (logit_stride * ALIGN) + column, mask=read, other=OUTSIDE).to(tl.float32)
    if UNKNOWN:
        z = tl.where(told, z, OUTSIDE)
    return z, positive, weight, column, inside


@triton.jit
def row_factors(
    lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr
):
    """What a row's candidates and its excluded labels count."""
    factor = tl.zeros_like(rows).to(tl.float32) + scale
    if example_weight is not None:
        factor *= tl.load(example_weight + rows * WEIGHT_STRIDE, mask=there, other=0.0).to(tl.float32)
    excluded_factor = factor * lam
    if lam_rows is not None:
        excluded_factor = factor * tl.load(lam_rows + rows * LAM_STRIDE, mask=there, other=0.0).to(tl.float32)
    return factor, excluded_factor


@triton.jit
def row_orders(order_rows, order, rows, there, ORDER_STRIDE: tl.constexpr):
    """The order of the power mean of a row; 0 where it is the geometric one."""
    orders = tl.zeros_like(rows).to(tl.float32) + order
    if order_rows is not None:
        orders = tl.load(order_rows + rows * ORDER_STRIDE, mask=there, other=0.0).to(tl.float32)
    return tl.where(orders < TINY_ORDER, 0.0, orders)
