"""What the Triton kernels read of rows, and how they write the gradient. Arguments in capitals are compiled in.

``ALIGN`` divides the strides and the number of labels, which are passed in units of it: so the compiler can prove that
loads are aligned, and makes them wide. Entries come as (rows, groups, GROUP): a thread loads a group's logits, 16
bytes, at once.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from propml.losses.kernels.triton_math import POWER, PROPML, choose, clamped, logistic, masks_of_bits, masks_of_bytes

__all__ = ["read_entries", "row_factors", "write_slopes"]

TINY_ORDER = tl.constexpr(1e-3)  # below it the power mean is the geometric one to float precision
OUTSIDE = tl.constexpr(-1e4)  # what is read beyond a row: σ of it is 0, and float16 holds it


@triton.jit
def bits_of(plane, rows, stride, start, there, end, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Masks of a plane of packed candidates."""
    label = GROUP * tl.arange(0, BLOCK // GROUP)[None, :]
    place = plane + rows[:, None] * stride + start // 8 + label // 8
    bits = tl.load(place, mask=there[:, None] & (start + label < end), other=0).to(tl.int32)
    return masks_of_bits(bits >> (label & 7), GROUP)


@triton.jit
def read_entries(source, rows, start, there, end, FORM: tl.constexpr, BLOCK: tl.constexpr, EVICTION: tl.constexpr):
    """Of the labels from ``start`` on: z, σ(z), σ(−z), exp(z), masks of candidates, weights, columns, which are inside.

    An unknown, masked or outside entry gets a logit so low that as an excluded label it has neither value nor slope:
    what is no candidate is excluded. Without ``UNKNOWN`` there are none of the first two.
    """
    logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight = source
    KIND: tl.constexpr = FORM[0]
    PACKED: tl.constexpr = FORM[1]
    UNKNOWN: tl.constexpr = FORM[2]
    ALIGN: tl.constexpr = FORM[3]
    GROUP: tl.constexpr = FORM[4]
    group = start + GROUP * tl.arange(0, BLOCK // GROUP)[None, :, None]
    column = group + tl.arange(0, GROUP)[None, None, :]
    row = rows[:, None, None]
    inside = there[:, None, None] & (column < end)
    if ALIGN == GROUP:  # whole groups are in the row, or none of it
        inside = there[:, None, None] & (group < end) & (column >= 0)
    place = logits + row * (logit_stride * ALIGN) + column
    z = tl.load(place, mask=inside, other=OUTSIDE, eviction_policy=EVICTION)
    told = inside
    if PACKED:
        positive = bits_of(candidates, rows, candidate_stride, start, there, end, GROUP, BLOCK)
        if ALIGN < GROUP:
            positive = tl.where(inside, positive, 0)
        if known is not None:
            told = inside & (bits_of(known, rows, candidate_stride, start, there, end, GROUP, BLOCK) != 0)
    else:
        place = candidates + row * (candidate_stride * ALIGN) + column
        marks = tl.load(place, mask=inside, other=0, eviction_policy=EVICTION)
        if marks.dtype == tl.uint8:
            positive = masks_of_bytes(marks)
        elif marks.dtype.is_floating():
            positive = tl.where(marks > 0.5, -1, 0)
            told = marks > -0.5  # not so for NaN
        else:
            positive = tl.where(marks > 0, -1, 0)
            told = marks >= 0
    if mask is not None:
        told = told & (tl.load(mask + row * (mask_stride * ALIGN) + column, mask=inside, other=0) != 0)
    if UNKNOWN:
        positive = tl.where(told, positive, 0)
        z = tl.where(told, z, tl.full(z.shape, OUTSIDE, tl.float32).to(z.dtype))
    weight = 1.0
    if label_weight is not None:
        weight = tl.load(label_weight + column, mask=inside, other=0.0).to(tl.float32)
        if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
            positive = tl.where(weight > 0, positive, 0)
    p, q, t = logistic(clamped(z))
    return z.to(tl.float32), p, q, t, positive, weight, column, inside


@triton.jit
def row_factors(per_row, rows, there, STRIDES: tl.constexpr):
    """What a row's candidates and its excluded labels count; the order of its power mean, 0 where that is geometric."""
    lam_rows, lam, order_rows, order, example_weight, scale = per_row
    factor = tl.zeros_like(rows).to(tl.float32) + scale
    if example_weight is not None:
        factor *= tl.load(example_weight + rows * STRIDES[2], mask=there, other=0.0).to(tl.float32)
    excluded_factor = factor * lam
    if lam_rows is not None:
        excluded_factor = factor * tl.load(lam_rows + rows * STRIDES[0], mask=there, other=0.0).to(tl.float32)
    orders = tl.zeros_like(factor) + order
    if order_rows is not None:
        orders = tl.load(order_rows + rows * STRIDES[1], mask=there, other=0.0).to(tl.float32)
    return factor, excluded_factor, tl.where(orders < TINY_ORDER, 0.0, orders)


@triton.jit
def write_slopes(
    gradient, rows, column, end, half, weight, factor, excluded_factor, inside, mask, EVICTION: tl.constexpr
):
    """The gradient, rounded alike in all kernels: where no mask was kept, its sign tells candidates."""
    if mask is None:
        counts = tl.where(half < 0, factor[:, None, None], excluded_factor[:, None, None])
    else:
        counts = choose(mask, factor[:, None, None], excluded_factor[:, None, None])
    place = gradient + rows[:, None, None] * end + column
    tl.store(place, half * counts * weight, mask=inside, eviction_policy=EVICTION)
