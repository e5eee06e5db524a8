"""The losses on rows as Triton kernels: logits and candidates are read, value and gradient come out together.

A row is one example. :func:`forward` holds whole rows in registers, or walks along one row twice: for the value and the
sum of the set, then, while the row is still in the cache, for the gradient. :func:`backward` computes the gradient from
what the forward pass kept of each row. No kernel adds atomically: the same input gives the same bits.

Arguments in capitals are compiled in. ``ALIGN`` divides the strides and the number of labels, which are passed in units
of it: so the compiler can prove that loads are aligned, and makes them wide. Entries come as (rows, groups, GROUP): a
thread loads a group's logits, 16 bytes, at once.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from propml.losses.kernels.triton_math import (
    LARGE,
    POWER,
    PROPML,
    clamped,
    exp,
    half_slopes,
    logistic,
    masks_of_bits,
    masks_of_bytes,
    only,
    set_sizes,
    share_of_set,
    small_log,
    sums_by_group,
    term_of_set,
)

__all__ = ["backward", "forward"]

# One compiled kernel serves all sizes: what it may assume of them is in ALIGN.
NUMBERS = ["logit_stride", "candidate_stride", "mask_stride", "n_rows", "n_labels"]
# Below this a set's sum of probabilities is taken relative to its largest one: float32 ends at 1e-38.
TINY = tl.constexpr(1e-20)
LOWEST = tl.constexpr(-1e30)  # below all logits, and finite: differences of two of them are defined
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
def row_factors(
    lam_rows, lam, order_rows, order, example_weight, scale, rows, there,
    LAM_STRIDE: tl.constexpr, ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr,
):  # fmt: skip
    """What a row's candidates and its excluded labels count; the order of its power mean, 0 where that is geometric."""
    factor = tl.zeros_like(rows).to(tl.float32) + scale
    if example_weight is not None:
        factor *= tl.load(example_weight + rows * WEIGHT_STRIDE, mask=there, other=0.0).to(tl.float32)
    excluded_factor = factor * lam
    if lam_rows is not None:
        excluded_factor = factor * tl.load(lam_rows + rows * LAM_STRIDE, mask=there, other=0.0).to(tl.float32)
    orders = tl.zeros_like(factor) + order
    if order_rows is not None:
        orders = tl.load(order_rows + rows * ORDER_STRIDE, mask=there, other=0.0).to(tl.float32)
    return factor, excluded_factor, tl.where(orders < TINY_ORDER, 0.0, orders)


@triton.jit
def in_row(entries):
    """The sum over the labels of each row."""
    return tl.sum(tl.sum(entries, axis=2), axis=1)


@triton.jit
def both_sums(found, other, more_found, more_other):
    return found + more_found, other + more_other


@triton.jit
def write_slopes(gradient, rows, column, end, half, weight, factor, excluded_factor, inside, EVICTION: tl.constexpr):
    """The gradient, rounded alike in all kernels: its sign tells candidates, so that no mask has to be kept."""
    counts = tl.where(half < 0, factor[:, None, None], excluded_factor[:, None, None])
    place = gradient + rows[:, None, None] * end + column
    tl.store(place, half * counts * weight, mask=inside, eviction_policy=EVICTION)


@triton.jit
def careful_rows(
    source, values, stats, gradient, rows, there, n_rows, end, found, other, size, geometric, orders, factor,
    excluded_factor, by, FORM: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Once more, rows of which some set is empty, or has tiny probabilities only, or a product of a group overflowed.

    This is rare: it reads the rows again, so that nothing has to be kept for it in registers.
    """
    KIND: tl.constexpr = FORM[0]
    STEP: tl.constexpr = max(16, BLOCK // 8)
    top = tl.full([ROWS], LOWEST, tl.float32)
    relative, exact = tl.zeros([ROWS], tl.float32), tl.zeros([ROWS], tl.float32)
    for start in range(0, end, STEP):
        z, p, q, _, mask, weight, _, _ = read_entries(source, rows, start, there, end, FORM, STEP, "")
        exact += in_row(only((tl.maximum(z, 0.0) + small_log(p, q)) * weight, ~mask))
        highest = tl.max(tl.max(tl.where(mask != 0, tl.minimum(z, 0.0), LOWEST), axis=2), axis=1)
        relative *= exp(orders * tl.minimum(top - highest, 0.0))
        top = tl.maximum(top, highest)
        relative += in_row(only(share_of_set(z, p, q, top, orders, KIND) * weight, mask))
    other = tl.where(other < LARGE, other, exact)
    shift = tl.where((found < TINY) & (top > LOWEST), top, 0.0)
    found = tl.where(found < TINY, relative, found)
    value, set_factor = term_of_set(found, shift, size, geometric, orders, source[7] is not None, KIND)
    tl.store(values + rows, excluded_factor * other - factor * value, mask=there)
    if stats is not None:
        tl.store(stats + rows, shift, mask=there)
        tl.store(stats + n_rows + rows, set_factor, mask=there)
    if gradient is not None:
        factor = factor * by * set_factor
        for start in range(0, end, STEP):
            z, p, q, _, mask, weight, column, inside = read_entries(source, rows, start, there, end, FORM, STEP, "")
            half = half_slopes(z, p, q, mask, shift, orders, True, KIND, None)
            write_slopes(gradient, rows, column, end, half, weight, factor, excluded_factor * by, inside, "")


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, values, stats, gradient,
    planned, noted, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Values, and where asked for statistics and gradient, of ROWS rows of at most BLOCK labels, which are read once.

    Not ``WHOLE`` it is one row of any length, BLOCK labels at a time. The gradient is that of the values times the
    number at ``planned``, if there is one.
    """
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    FORM: tl.constexpr = (KIND, PACKED, UNKNOWN, ALIGN, GROUP)
    FOCUS: tl.constexpr = (GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
    SETS: tl.constexpr = (KIND == PROPML) | (KIND == POWER)
    WEIGHTED: tl.constexpr = label_weight is not None
    SIZED: tl.constexpr = KIND == POWER or (KIND == PROPML and WEIGHTED)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = rows < n_rows
    end = n_labels * ALIGN
    by = 1.0
    if planned is not None:
        by = tl.load(planned)
    factor, excluded_factor, orders = row_factors(
        lam_rows, lam, order_rows, order, example_weight, scale, rows, there, LAM_STRIDE, ORDER_STRIDE, WEIGHT_STRIDE
    )
    shift = tl.zeros([ROWS], tl.float32)
    if WHOLE:
        z, p, q, t, positive, weight, column, inside = read_entries(source, rows, 0, there, end, FORM, BLOCK, "")
        half = half_slopes(z, p, q, positive, shift, orders, False, KIND, FOCUS)
        if gradient is not None and not SETS:
            write_slopes(gradient, rows, column, end, half, weight, factor * by, excluded_factor * by, inside, "")
        found_lanes, other_lanes = sums_by_group(z, p, q, t, positive, weight, orders, WEIGHTED, KIND, FOCUS)
        if SIZED:
            size_lanes, geometric_lanes = set_sizes(z, p, q, positive, weight, KIND)
    else:  # one sum per group: the groups are added up once, after the walk
        found_lanes = tl.zeros([ROWS, BLOCK // GROUP], tl.float32)
        other_lanes, size_lanes, geometric_lanes = found_lanes, found_lanes, found_lanes
        for start in range(0, end, BLOCK):
            z, p, q, t, positive, weight, _, _ = read_entries(
                source, rows, start, there, end, FORM, BLOCK, "evict_last"
            )
            found, other = sums_by_group(z, p, q, t, positive, weight, orders, WEIGHTED, KIND, FOCUS)
            found_lanes += found
            other_lanes += other
            if SIZED:
                size, geometric = set_sizes(z, p, q, positive, weight, KIND)
                size_lanes = size_lanes + size if KIND == POWER else tl.maximum(size_lanes, size)
                geometric_lanes += geometric
    found, other = tl.reduce((found_lanes, other_lanes), 1, both_sums)
    is_fine = True
    if SETS:
        size, geometric = found, found
        if SIZED:
            size = tl.sum(size_lanes, axis=1) if KIND == POWER else tl.max(size_lanes, axis=1)
            geometric = tl.sum(geometric_lanes, axis=1)
        value, set_factor = term_of_set(found, shift, size, geometric, orders, WEIGHTED, KIND)
        total = excluded_factor * other - factor * value
        slope_factor = factor * by * set_factor
        if stats is not None:
            tl.store(stats + rows, shift, mask=there)
            tl.store(stats + n_rows + rows, set_factor, mask=there)
        is_fine = tl.min(tl.where((found >= TINY) & (other < LARGE) | (rows >= n_rows), 1, 0)) == 1
    else:
        total = excluded_factor * other + factor * found
        slope_factor = factor * by
    tl.store(values + rows, total, mask=there)
    excluded = excluded_factor * by
    if gradient is not None:
        if not WHOLE:
            for start in range(0, tl.where(is_fine, end, 0), BLOCK):
                z, p, q, _, positive, weight, column, inside = read_entries(
                    source, rows, start, there, end, FORM, BLOCK, "evict_first"
                )
                half = half_slopes(z, p, q, positive, shift, orders, False, KIND, FOCUS)
                write_slopes(gradient, rows, column, end, half, weight, slope_factor, excluded, inside, "evict_first")
        elif SETS:
            write_slopes(gradient, rows, column, end, half, weight, slope_factor, excluded, inside, "")
    if SETS:  # noqa: SIM102  compiled in, and looked at
        if not is_fine:
            tl.debug_barrier()  # what was written is written again, by other threads
            careful_rows(
                source, values, stats, gradient, rows, there, n_rows, end, found, other, size, geometric, orders,
                factor, excluded_factor, by, FORM, ROWS, BLOCK,
            )  # fmt: skip


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, grad_output, stats, gradient,
    planned, noted, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient from the statistics of the rows and the gradient on their values.

    Where a gradient was planned for one number, ``grad_output`` is one too: it is noted, and nothing more is done when
    they are the same.
    """
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    FORM: tl.constexpr = (KIND, PACKED, UNKNOWN, ALIGN, GROUP)
    FOCUS: tl.constexpr = (GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
    end = n_labels * ALIGN
    tiles_in_row = tl.cdiv(end, BLOCK)
    n_tiles = tl.cdiv(n_rows, ROWS) * tiles_in_row
    if planned is not None:
        came = tl.load(grad_output)
        if tl.program_id(0) == 0:
            tl.store(noted, came)
        n_tiles = tl.where(came == tl.load(planned), 0, n_tiles)
    for tile in range(tl.program_id(0), n_tiles, tl.num_programs(0)):
        rows = (tile // tiles_in_row).to(tl.int64) * ROWS + tl.arange(0, ROWS)
        start = (tile % tiles_in_row) * BLOCK
        there = rows < n_rows
        z, p, q, _, positive, weight, column, inside = read_entries(source, rows, start, there, end, FORM, BLOCK, "")
        factor, excluded_factor, orders = row_factors(
            lam_rows, lam, order_rows, order, example_weight, scale, rows, there,
            LAM_STRIDE, ORDER_STRIDE, WEIGHT_STRIDE,
        )  # fmt: skip
        by = tl.load(grad_output + rows * VALUE_STRIDE, mask=there, other=0.0).to(tl.float32)
        factor *= by
        shift = tl.zeros([ROWS], tl.float32)
        if stats is not None:
            shift = tl.load(stats + rows, mask=there, other=0.0)
            factor *= tl.load(stats + n_rows + rows, mask=there, other=0.0)
        half = half_slopes(z, p, q, positive, shift, orders, False, KIND, FOCUS)
        if KIND == PROPML:  # noqa: SIM102  compiled in, and looked at
            if tl.min(shift) < 0:
                half = half_slopes(z, p, q, positive, shift, orders, True, KIND, FOCUS)
        write_slopes(gradient, rows, column, end, half, weight, factor, excluded_factor * by, inside, "")
