"""The losses on rows as Triton kernels: logits and candidates are read once, value and gradient come out together.

A row is one example. :func:`short_rows` holds whole rows in registers. :func:`long_rows` walks along one row twice:
first it reads the candidates' logits alone, whose sum all their slopes wait for, then everything, and writes the
gradient on the way. :func:`slopes` computes the gradient from what the forward pass kept of each row. No kernel adds
atomically, and both ways to the gradient go through the same operations: the same input gives the same bits.

Arguments in capitals are compiled in. ``ALIGN`` divides the strides and the number of labels, which are passed in units
of it: so the compiler can prove that loads are aligned, and makes them wide.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from propml.losses.kernels.triton_math import (
    ASL,
    BCE,
    POWER,
    PROPML,
    asymmetric_terms,
    exp,
    log1p,
    logistic,
    power_term,
    set_term,
    share_of_set,
    softplus_lanes,
)
from propml.losses.kernels.triton_reading import read_entries, row_factors, row_orders

__all__ = ["long_rows", "short_rows", "slopes"]

# One compiled kernel serves all sizes: what it may assume of them is in ALIGN.
NUMBERS = ["logit_stride", "candidate_stride", "mask_stride", "n_rows", "n_labels"]
# Below this a set's sum of probabilities is taken relative to its largest one: float32 ends at 1e-38.
TINY = tl.constexpr(1e-20)
LOWEST = tl.constexpr(-1e30)  # below all logits, and finite: differences of two of them are defined


@triton.jit
def value_lanes(
    z, p, q, u, positive, weight, factor, excluded_factor,
    KIND: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """What entries add to their row's value, but for the term of a set; to be summed over the last axis."""
    if KIND == ASL:
        value, _ = asymmetric_terms(z, p, q, u, positive, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
        return tl.where(positive, factor[:, None], excluded_factor[:, None]) * (value * weight)
    else:
        lanes = excluded_factor[:, None] * softplus_lanes(
            tl.maximum(z, 0.0), u, positive == 0, weight, GROUP, ROWS, BLOCK
        )
        if KIND == BCE:
            lanes += factor[:, None] * softplus_lanes(tl.maximum(z, 0.0) - z, u, positive, weight, GROUP, ROWS, BLOCK)
        return lanes


@triton.jit
def slope_in_set(push, pull, factor, excluded_factor):
    """One of the two is 0. Spelled out as it is rounded: the same wherever it is computed."""
    return tl.fma(tl.broadcast_to(excluded_factor[:, None], push.shape), push, (0.0 - factor)[:, None] * pull)


@triton.jit
def own_slopes(
    z, p, q, u, positive, weight, factor, excluded_factor, KIND: tl.constexpr,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """The slopes of losses whose labels all count for themselves: cross entropy, asymmetric loss."""
    slope = tl.where(positive, q, p)
    if KIND == ASL:
        _, slope = asymmetric_terms(z, p, q, u, positive, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
    return tl.where(positive, (0.0 - factor)[:, None], excluded_factor[:, None]) * (slope * weight)


@triton.jit(do_not_specialize=NUMBERS)
def short_rows(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, values, stats, gradient,
    planned, noted, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Values, and where asked for statistics and gradient, of ROWS rows of at most BLOCK labels.

    The gradient is that of the values times the number at ``planned``, if there is one.
    """
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    GROUP: tl.constexpr = 1 if label_weight is not None else ALIGN
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = rows < n_rows
    row, present, end = rows[:, None], there[:, None], n_labels * ALIGN
    z, positive, weight = read_entries(source, row, 0, present, end, KIND, PACKED, UNKNOWN, ALIGN, False, ROWS, BLOCK)
    factor, excluded_factor = row_factors(lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE, WEIGHT_STRIDE)
    p, q, u = logistic(z)
    total = tl.sum(
        value_lanes(
            z, p, q, u, positive, weight, factor, excluded_factor,
            KIND, GROUP, ROWS, BLOCK, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        ),
        axis=1,
    )  # fmt: skip
    by = 1.0
    if planned is not None:
        by = tl.load(planned)
    column = tl.arange(0, BLOCK)[None, :]
    inside = present & (column < end)
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        orders = tl.full([ROWS], 1.0, tl.float32)
        size = tl.full([ROWS], 1.0, tl.float32)
        geometric = tl.zeros([ROWS], tl.float32)
        heaviest = tl.full([ROWS], 1.0, tl.float32)
        if KIND == POWER:
            orders = row_orders(order_rows, order, rows, there, ORDER_STRIDE)
            log_p = tl.minimum(z, 0.0) - log1p(u)
            size = tl.sum(tl.where(positive, weight, 0.0), axis=1)
            geometric = tl.sum(tl.where(positive, log_p * weight, 0.0), axis=1)
            share = tl.where(positive, exp(orders[:, None] * log_p) * weight, 0.0)
            push = tl.where(positive, 0.0, p * weight)
        else:
            share = tl.where(positive, p * weight, 0.0)
            if label_weight is not None:
                heaviest = tl.max(tl.where(positive, weight, 0.0), axis=1)
                push = tl.where(positive, 0.0, p * weight)
            else:
                push = p - share  # rather than select once more: masks do not stay in registers
        found = tl.sum(share, axis=1)
        pull = share * q
        shift = tl.zeros([ROWS], tl.float32)
        if tl.min(tl.where(there, found, 1.0)) < TINY:  # a set is empty, or all of its probabilities are tiny
            # Read again: this is rare, and nothing has to be kept for it in registers.
            z, positive, weight = read_entries(
                source, row, 0, present, end, KIND, PACKED, UNKNOWN, ALIGN, True, ROWS, BLOCK
            )
            p, q, u = logistic(z)
            top = tl.max(tl.where(positive, tl.minimum(z, 0.0), LOWEST), axis=1)
            shift = tl.where((found < TINY) & (top > LOWEST), top, 0.0)
            share = share_of_set(z, p, q, tl.minimum(z, 0.0) - log1p(u), shift[:, None], orders[:, None], KIND)
            share = tl.where(positive, share * weight, 0.0)
            found = tl.sum(share, axis=1)
            pull = share * q
        if KIND == POWER:
            found_value, set_factor = power_term(found, shift, size, geometric, orders)
        else:
            found_value, set_factor = set_term(found, shift, heaviest, label_weight is not None)
        total -= factor * found_value
        if stats is not None:
            tl.store(stats + rows, shift, mask=there)
            tl.store(stats + n_rows + rows, set_factor, mask=there)
        if gradient is not None:
            slope = slope_in_set(push, pull, factor * by * set_factor, excluded_factor * by)
            tl.store(gradient + row * end + column, slope, mask=inside)
    elif gradient is not None:
        slope = own_slopes(
            z, p, q, u, positive, weight, factor * by, excluded_factor * by,
            KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        )  # fmt: skip
        tl.store(gradient + row * end + column, slope, mask=inside)
    tl.store(values + rows * VALUE_STRIDE, total, mask=there)


@triton.jit
def set_of_long_row(
    source, row, present, end, orders,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The log of the set's sum, what it is relative to, and the factor of its slopes, from the candidates alone."""
    label_weight = source[7]
    found_lanes = tl.zeros([1, BLOCK], tl.float32)
    size_lanes = tl.zeros([1, BLOCK], tl.float32)  # of ProPML: the heaviest weight
    geometric_lanes = tl.zeros([1, BLOCK], tl.float32)
    for start in range(0, end, BLOCK):
        z, positive, weight = read_entries(
            source, row, start, present, end, KIND, PACKED, UNKNOWN, ALIGN, True, 1, BLOCK
        )
        p, q, u = logistic(z)
        if KIND == POWER:
            log_p = tl.minimum(z, 0.0) - log1p(u)
            found_lanes += tl.where(positive, exp(orders * log_p) * weight, 0.0)
            size_lanes += tl.where(positive, weight, 0.0)
            geometric_lanes += tl.where(positive, log_p * weight, 0.0)
        else:
            found_lanes += tl.where(positive, p * weight, 0.0)
            if label_weight is not None:
                size_lanes = tl.maximum(size_lanes, tl.where(positive, weight, 0.0))
    found = tl.sum(found_lanes, axis=1)
    shift = tl.zeros([1], tl.float32)
    if tl.min(found) < TINY:  # the set is empty, or all of its probabilities are tiny: a running maximum per lane
        top_lanes = tl.full([1, BLOCK], LOWEST, tl.float32)
        found_lanes = tl.zeros([1, BLOCK], tl.float32)
        for start in range(0, end, BLOCK):
            z, positive, weight = read_entries(
                source, row, start, present, end, KIND, PACKED, UNKNOWN, ALIGN, True, 1, BLOCK
            )
            p, q, u = logistic(z)
            higher = tl.maximum(top_lanes, tl.where(positive, tl.minimum(z, 0.0), LOWEST))
            share = share_of_set(z, p, q, tl.minimum(z, 0.0) - log1p(u), higher, orders, KIND)
            found_lanes = found_lanes * exp(orders * (top_lanes - higher)) + tl.where(positive, share * weight, 0.0)
            top_lanes = higher
        top = tl.max(top_lanes, axis=1)
        shift = tl.where(top > LOWEST, top, 0.0)
        found = tl.sum(found_lanes * exp(orders * (top_lanes - top[:, None])), axis=1)
    if KIND == POWER:
        sizes, means = tl.sum(size_lanes, axis=1), tl.sum(geometric_lanes, axis=1)
        value, set_factor = power_term(found, shift, sizes, means, tl.reshape(orders, (1,)))
    else:
        heaviest = tl.full([1], 1.0, tl.float32)
        if label_weight is not None:
            heaviest = tl.max(size_lanes, axis=1)
        value, set_factor = set_term(found, shift, heaviest, label_weight is not None)
    return value, shift, set_factor


@triton.jit(do_not_specialize=NUMBERS)
def long_rows(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, values, stats, gradient,
    planned, noted, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same for one row of any length (ROWS is 1), BLOCK labels at a time."""
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    GROUP: tl.constexpr = 1 if label_weight is not None else ALIGN
    rows = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    there = rows < n_rows
    row, present, end = rows[:, None], there[:, None], n_labels * ALIGN
    factor, excluded_factor = row_factors(lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE, WEIGHT_STRIDE)
    by = 1.0
    if planned is not None:
        by = tl.load(planned)
    total = tl.zeros([1], tl.float32)
    pull_factor = factor * by
    orders, shift = tl.full([1, 1], 1.0, tl.float32), tl.zeros([1], tl.float32)
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        if KIND == POWER:
            orders = row_orders(order_rows, order, rows, there, ORDER_STRIDE)[:, None]
        found_value, shift, set_factor = set_of_long_row(
            source, row, present, end, orders, KIND, PACKED, UNKNOWN, ALIGN, BLOCK
        )
        total -= factor * found_value
        pull_factor *= set_factor
        if stats is not None:
            tl.store(stats + rows, shift, mask=there)
            tl.store(stats + n_rows + rows, set_factor, mask=there)
    # One sum per lane: the lanes are added up once, after the walk.
    WIDTH: tl.constexpr = BLOCK if KIND == ASL else BLOCK // GROUP
    lanes = tl.zeros([1, WIDTH], tl.float32)
    for start in range(0, end, BLOCK):
        z, positive, weight = read_entries(
            source, row, start, present, end, KIND, PACKED, UNKNOWN, ALIGN, False, 1, BLOCK
        )
        p, q, u = logistic(z)
        lanes += value_lanes(
            z, p, q, u, positive, weight, factor, excluded_factor,
            KIND, GROUP, 1, BLOCK, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        )  # fmt: skip
        if gradient is not None:
            slope = slopes_of_block(
                z, p, q, u, positive, weight, shift, orders, pull_factor, excluded_factor * by,
                KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
            )  # fmt: skip
            column = start + tl.arange(0, BLOCK)[None, :]
            tl.store(gradient + row * end + column, slope, mask=present & (column < end))
    tl.store(values + rows * VALUE_STRIDE, total + tl.sum(lanes, axis=1), mask=there)


@triton.jit
def slopes_of_block(
    z, p, q, u, positive, weight, shift, orders, factor, excluded_factor, KIND: tl.constexpr,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """The gradient on some labels of rows whose sets' sums are known."""
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        if KIND == POWER:
            log_p = tl.where(positive, tl.minimum(z, 0.0) - log1p(u), shift[:, None])
            share = share_of_set(z, p, q, log_p, shift[:, None], orders, KIND)
        else:
            share = p
            if tl.min(shift) < 0:
                near = tl.where(positive, z, 0.0)  # an excluded logit could be far above the set's
                share = share_of_set(near, p, q, 0.0, shift[:, None], orders, KIND)
        share = tl.where(positive, share * weight, 0.0)
        push = tl.where(positive, 0.0, p * weight)
        return slope_in_set(push, share * q, factor, excluded_factor)
    else:
        return own_slopes(
            z, p, q, u, positive, weight, factor, excluded_factor,
            KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        )  # fmt: skip


@triton.jit(do_not_specialize=NUMBERS)
def slopes(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, grad_output, stats, gradient,
    planned, noted, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient from the statistics of the rows and the gradient on their values.

    Where a gradient was planned for one number, ``grad_output`` is one too: it is noted, and nothing more is done when
    they are the same.
    """
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
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
        row, present = rows[:, None], there[:, None]
        z, positive, weight = read_entries(
            source, row, start, present, end, KIND, PACKED, UNKNOWN, ALIGN, False, ROWS, BLOCK
        )
        factor, excluded_factor = row_factors(
            lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE, WEIGHT_STRIDE
        )
        by = tl.load(grad_output + rows * VALUE_STRIDE, mask=there, other=0.0).to(tl.float32)
        factor *= by
        orders, shift = tl.full([ROWS, 1], 1.0, tl.float32), tl.zeros([ROWS], tl.float32)
        if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
            shift = tl.load(stats + rows, mask=there, other=0.0)
            factor *= tl.load(stats + n_rows + rows, mask=there, other=0.0)
        if KIND == POWER:
            orders = row_orders(order_rows, order, rows, there, ORDER_STRIDE)[:, None]
        p, q, u = logistic(z)
        slope = slopes_of_block(
            z, p, q, u, positive, weight, shift, orders, factor, excluded_factor * by,
            KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        )  # fmt: skip
        column = start + tl.arange(0, BLOCK)[None, :]
        tl.store(gradient + row * end + column, slope, mask=present & (column < end))
