"""The losses on rows as Triton kernels: logits and candidates are read, value and gradient come out together.

A row is one example. :func:`short_rows` holds whole rows in registers. :func:`long_rows` walks along one row twice: for
the value and the sum of the set, then, while the row is still in the cache, for the gradient. :func:`slopes` computes
the gradient from what the forward pass kept of each row. No kernel adds atomically: the same input gives the same bits.

Arguments in capitals are compiled in. ``ALIGN`` divides the strides and the number of labels, which are passed in units
of it: so the compiler can prove that loads are aligned, and makes them wide.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from propml.losses.kernels.triton_math import (
    BCE,
    POWER,
    PROPML,
    asymmetric_terms,
    logistic,
    power_term,
    set_term,
    share_of_set,
    small_log,
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
def in_row(entries):
    """The sum over the labels of each row."""
    return tl.sum(tl.sum(entries, axis=2), axis=1)


@triton.jit
def value_lanes(
    z, p, q, t, positive, weight, factor, excluded_factor, KIND: tl.constexpr, GROUPED: tl.constexpr,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """What groups of entries add to their row's value, but for the term of a set, ``(rows, groups)``."""
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        lanes = excluded_factor[:, None] * softplus_lanes(z, p, q, t, positive, weight, GROUPED)
    else:
        if KIND == BCE:
            value = tl.where(positive, 0.0 - tl.minimum(z, 0.0), tl.maximum(z, 0.0)) + small_log(p, q)
        else:
            value, _ = asymmetric_terms(z, p, q, positive, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
        counts = tl.where(positive, factor[:, None, None], excluded_factor[:, None, None])
        lanes = tl.sum(counts * (value * weight), axis=2)
    return lanes


@triton.jit
def shares_of(z, p, q, positive, weight, shift, orders, KIND: tl.constexpr, SHIFTED: tl.constexpr):
    """What entries add to their set's sum, relative to exp(shift) where that is said; 0 outside the set."""
    if KIND == POWER or SHIFTED:
        near = tl.where(positive, z, 0.0)  # an excluded logit could be far above the set's
        share = share_of_set(near, p, q, shift[:, None, None], orders[:, None, None], KIND)
    else:
        share = p
    return tl.where(positive, share * weight, 0.0)


@triton.jit
def set_sizes(z, p, q, positive, weight, WEIGHTED: tl.constexpr, KIND: tl.constexpr):
    """By groups of entries, of the power mean the size of the set and its logarithms; of ProPML the heaviest weight."""
    if KIND == POWER:
        log_p = tl.minimum(z, 0.0) - small_log(p, q)
        size = tl.sum(tl.where(positive, weight, 0.0), axis=2)
        geometric = tl.sum(tl.where(positive, log_p * weight, 0.0), axis=2)
    elif WEIGHTED:
        size = tl.max(tl.where(positive, weight, 0.0), axis=2)
        geometric = size
    else:
        size = tl.zeros([z.shape[0], z.shape[1]], tl.float32)
        geometric = size
    return size, geometric


@triton.jit
def term_of_set(found, shift, size, geometric, orders, WEIGHTED: tl.constexpr, KIND: tl.constexpr):
    """The value of a set and the factor of its slopes; the size of ProPML's is its heaviest weight."""
    if KIND == POWER:
        return power_term(found, shift, size, geometric, orders)
    else:
        return set_term(found, shift, size, WEIGHTED)


@triton.jit
def relative_sum(
    source, rows, there, end, orders,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, ROWS: tl.constexpr,
    STEP: tl.constexpr,
):  # fmt: skip
    """The largest log p of each set, at least nearly, and the sum of its shares relative to it."""
    top = tl.full([ROWS], LOWEST, tl.float32)
    for start in range(0, end, STEP):
        z, positive, weight, _, _ = read_entries(
            source, rows, start, there, end, KIND, PACKED, UNKNOWN, ALIGN, True, STEP
        )
        top = tl.maximum(top, tl.max(tl.max(tl.where(positive, tl.minimum(z, 0.0), LOWEST), axis=2), axis=1))
    shift = tl.where(top > LOWEST, top, 0.0)
    found = tl.zeros([ROWS], tl.float32)
    for start in range(0, end, STEP):
        z, positive, weight, _, _ = read_entries(
            source, rows, start, there, end, KIND, PACKED, UNKNOWN, ALIGN, True, STEP
        )
        p, q, _ = logistic(z)
        found += in_row(shares_of(z, p, q, positive, weight, shift, orders, KIND, True))
    return shift, found


@triton.jit
def slopes_in_set(p, q, positive, weight, share, factor, excluded_factor, KIND: tl.constexpr):
    """The gradient on entries whose shares in their sets are known."""
    push = p * weight - share  # rather than select once more: masks do not stay in registers
    if KIND == POWER:
        push = tl.where(positive, 0.0, p * weight)
    return excluded_factor[:, None, None] * push - factor[:, None, None] * (share * q)


@triton.jit
def slopes_of_entries(
    z, p, q, positive, weight, shift, orders, factor, excluded_factor, KIND: tl.constexpr,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """The gradient on some labels of rows whose sets' sums are known."""
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        share = shares_of(z, p, q, positive, weight, shift, orders, KIND, False)
        gradient = slopes_in_set(p, q, positive, weight, share, factor, excluded_factor, KIND)
        if KIND == PROPML:  # noqa: SIM102  compiled in, and looked at
            if tl.min(shift) < 0:
                share = shares_of(z, p, q, positive, weight, shift, orders, KIND, True)
                gradient = slopes_in_set(p, q, positive, weight, share, factor, excluded_factor, POWER)
    else:
        if KIND == BCE:
            slope = tl.where(positive, q, p)
        else:
            _, slope = asymmetric_terms(z, p, q, positive, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
        counts = tl.where(positive, (0.0 - factor)[:, None, None], excluded_factor[:, None, None])
        gradient = counts * (slope * weight)
    return gradient


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
    WEIGHTED: tl.constexpr = label_weight is not None
    GROUPED: tl.constexpr = (logits.dtype.element_ty.primitive_bitwidth == 16) and not WEIGHTED
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    there = rows < n_rows
    end = n_labels * ALIGN
    z, positive, weight, column, inside = read_entries(
        source, rows, 0, there, end, KIND, PACKED, UNKNOWN, ALIGN, False, BLOCK
    )
    factor, excluded_factor = row_factors(lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE, WEIGHT_STRIDE)
    by = 1.0
    if planned is not None:
        by = tl.load(planned)
    p, q, t = logistic(z)
    lanes = value_lanes(
        z, p, q, t, positive, weight, factor, excluded_factor,
        KIND, GROUPED, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
    )  # fmt: skip
    total = tl.sum(lanes, axis=1)
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        orders = tl.full([ROWS], 1.0, tl.float32)
        if KIND == POWER:
            orders = row_orders(order_rows, order, rows, there, ORDER_STRIDE)
        shift = tl.zeros([ROWS], tl.float32)
        share = shares_of(z, p, q, positive, weight, shift, orders, KIND, False)
        found = in_row(share)
        size_lanes, geometric_lanes = set_sizes(z, p, q, positive, weight, WEIGHTED, KIND)
        size, geometric = tl.sum(size_lanes, axis=1), tl.sum(geometric_lanes, axis=1)
        if KIND == PROPML:
            size = tl.max(size_lanes, axis=1)
        found_value, set_factor = term_of_set(found, shift, size, geometric, orders, WEIGHTED, KIND)
        tl.store(values + rows * VALUE_STRIDE, total - factor * found_value, mask=there)
        if stats is not None:
            tl.store(stats + rows, shift, mask=there)
            tl.store(stats + n_rows + rows, set_factor, mask=there)
        if gradient is not None:
            slope = slopes_in_set(p, q, positive, weight, share, factor * by * set_factor, excluded_factor * by, KIND)
            tl.store(gradient + rows[:, None, None] * end + column, slope, mask=inside)
        # A set is empty, or all of its probabilities are tiny. This is rare: it comes last, reads the row again, and
        # writes once more what depends on the set, so that nothing has to be kept for it in registers.
        if tl.min(tl.where(there, found, 1.0)) < TINY:
            STEP: tl.constexpr = BLOCK if BLOCK < 512 else 512
            tl.debug_barrier()
            top, relative = relative_sum(source, rows, there, end, orders, KIND, PACKED, UNKNOWN, ALIGN, ROWS, STEP)
            shift = tl.where(found < TINY, top, 0.0)
            found = tl.where(found < TINY, relative, found)
            found_value, set_factor = term_of_set(found, shift, size, geometric, orders, WEIGHTED, KIND)
            tl.store(values + rows * VALUE_STRIDE, total - factor * found_value, mask=there)
            if stats is not None:
                tl.store(stats + rows, shift, mask=there)
                tl.store(stats + n_rows + rows, set_factor, mask=there)
            if gradient is not None:
                for start in range(0, end, STEP):
                    z_set, in_set, weight_set, column_set, _ = read_entries(
                        source, rows, start, there, end, KIND, PACKED, UNKNOWN, ALIGN, True, STEP
                    )
                    p_set, q_set, _ = logistic(z_set)
                    slope_set = slopes_of_entries(
                        z_set, p_set, q_set, in_set, weight_set, shift, orders,
                        factor * by * set_factor, excluded_factor * by,
                        KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
                    )  # fmt: skip
                    tl.store(gradient + rows[:, None, None] * end + column_set, slope_set, mask=in_set)
    else:
        tl.store(values + rows * VALUE_STRIDE, total, mask=there)
        if gradient is not None:
            slope = slopes_of_entries(
                z, p, q, positive, weight, total, total, factor * by, excluded_factor * by,
                KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
            )  # fmt: skip
            tl.store(gradient + rows[:, None, None] * end + column, slope, mask=inside)


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
    WEIGHTED: tl.constexpr = label_weight is not None
    GROUPED: tl.constexpr = (logits.dtype.element_ty.primitive_bitwidth == 16) and not WEIGHTED
    rows = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    there = rows < n_rows
    end = n_labels * ALIGN
    factor, excluded_factor = row_factors(lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE, WEIGHT_STRIDE)
    by = 1.0
    if planned is not None:
        by = tl.load(planned)
    orders, shift = tl.full([1], 1.0, tl.float32), tl.zeros([1], tl.float32)
    if KIND == POWER:
        orders = row_orders(order_rows, order, rows, there, ORDER_STRIDE)
    # One sum per group: the groups are added up once, after the walk.
    lanes = tl.zeros([1, BLOCK // 8], tl.float32)
    found_lanes = tl.zeros([1, BLOCK // 8], tl.float32)
    size_lanes = tl.zeros([1, BLOCK // 8], tl.float32)
    geometric_lanes = tl.zeros([1, BLOCK // 8], tl.float32)
    for start in range(0, end, BLOCK):
        z, positive, weight, _, _ = read_entries(
            source, rows, start, there, end, KIND, PACKED, UNKNOWN, ALIGN, False, BLOCK
        )
        p, q, t = logistic(z)
        lanes += value_lanes(
            z, p, q, t, positive, weight, factor, excluded_factor,
            KIND, GROUPED, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        )  # fmt: skip
        if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
            found_lanes += tl.sum(shares_of(z, p, q, positive, weight, shift, orders, KIND, False), axis=2)
            size, geometric = set_sizes(z, p, q, positive, weight, WEIGHTED, KIND)
            if KIND == POWER:
                size_lanes += size
                geometric_lanes += geometric
            elif WEIGHTED:
                size_lanes = tl.maximum(size_lanes, size)
    total = tl.sum(lanes, axis=1)
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        found, sizes = tl.sum(found_lanes, axis=1), tl.sum(size_lanes, axis=1)
        if KIND == PROPML:
            sizes = tl.max(size_lanes, axis=1)
        if tl.min(found) < TINY:
            shift, found = relative_sum(source, rows, there, end, orders, KIND, PACKED, UNKNOWN, ALIGN, 1, 512)
        found_value, set_factor = term_of_set(
            found, shift, sizes, tl.sum(geometric_lanes, axis=1), orders, WEIGHTED, KIND
        )
        total -= factor * found_value
        factor *= set_factor
        if stats is not None:
            tl.store(stats + rows, shift, mask=there)
            tl.store(stats + n_rows + rows, set_factor, mask=there)
    tl.store(values + rows * VALUE_STRIDE, total, mask=there)
    if gradient is not None:
        for start in range(0, end, BLOCK):
            z, positive, weight, column, inside = read_entries(
                source, rows, start, there, end, KIND, PACKED, UNKNOWN, ALIGN, False, BLOCK
            )
            p, q, t = logistic(z)
            slope = slopes_of_entries(
                z, p, q, positive, weight, shift, orders, factor * by, excluded_factor * by,
                KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
            )  # fmt: skip
            tl.store(gradient + rows[:, None, None] * end + column, slope, mask=inside)


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
        z, positive, weight, column, inside = read_entries(
            source, rows, start, there, end, KIND, PACKED, UNKNOWN, ALIGN, False, BLOCK
        )
        factor, excluded_factor = row_factors(
            lam_rows, lam, example_weight, scale, rows, there, LAM_STRIDE, WEIGHT_STRIDE
        )
        by = tl.load(grad_output + rows * VALUE_STRIDE, mask=there, other=0.0).to(tl.float32)
        orders, shift = tl.full([ROWS], 1.0, tl.float32), tl.zeros([ROWS], tl.float32)
        factor *= by
        if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
            shift = tl.load(stats + rows, mask=there, other=0.0)
            factor *= tl.load(stats + n_rows + rows, mask=there, other=0.0)
        if KIND == POWER:
            orders = row_orders(order_rows, order, rows, there, ORDER_STRIDE)
        p, q, _ = logistic(z)
        slope = slopes_of_entries(
            z, p, q, positive, weight, shift, orders, factor, excluded_factor * by,
            KIND, GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED,
        )  # fmt: skip
        tl.store(gradient + rows[:, None, None] * end + column, slope, mask=inside)
