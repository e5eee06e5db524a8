"""The losses on rows as Triton kernels: logits and candidates are read once, value and gradient come out together.

A row is one example. :func:`short_rows` holds whole rows in registers; :func:`long_rows` walks along one row in blocks:
the slope of an excluded label does not depend on the rest of its row and is written on the way, only the candidates are
visited again once the sum over their set is known. :func:`slopes` recomputes the gradient from what the forward pass
kept of each row. No kernel adds atomically: the same input gives the same bits.

Arguments in capitals are compiled in. ``ALIGN`` divides the strides and the number of labels, which are passed in units
of it: so the compiler can prove that loads are aligned, and makes them wide.
"""

# mypy: ignore-errors
import os

import triton
import triton.language as tl

__all__ = ["long_rows", "scale_unless_one", "short_rows", "slopes"]

# One compiled kernel serves all sizes: what it may assume of them is in ALIGN.
NUMBERS = ["logit_stride", "candidate_stride", "mask_stride", "n_rows", "n_labels"]
PROPML = tl.constexpr(0)
BCE = tl.constexpr(1)
ASL = tl.constexpr(2)
POWER = tl.constexpr(3)
TINY_ORDER = tl.constexpr(1e-3)  # below it the power mean is the geometric one to float precision
# Below this a set's sum of probabilities is taken relative to its largest one: float32 ends at 1e-38.
TINY = tl.constexpr(1e-20)
LOG2_E = tl.constexpr(1.4426950408889634)
# The fast instructions flush to zero and round once more than needed; the interpreter has no need of them.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
LOWEST = tl.constexpr(-1e30)  # below all logits, and finite: differences of two of them are defined
OUTSIDE = tl.constexpr(-1e4)  # what is read beyond a row: σ of it is 0, and float16 holds it


@triton.jit
def read_entries(
    source,
    row,
    column,
    inside,
    KIND: tl.constexpr,
    PACKED: tl.constexpr,
    UNKNOWN: tl.constexpr,
    ALIGN: tl.constexpr,
    ONLY_SET: tl.constexpr,
):
    """Logits, which of them are candidates, and label weights.

    An unknown, masked or outside entry gets a logit so low that as an excluded label it has neither value nor slope:
    what is no candidate is excluded. Without ``UNKNOWN`` there are none of the first two; with ``ONLY_SET`` no other
    logits than the candidates' are read.
    """
    logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight = source
    told = inside
    if PACKED:
        byte = row * candidate_stride + column // 8
        bit = (column % 8).to(tl.uint8)
        positive = ((tl.load(candidates + byte, mask=inside, other=0) >> bit) & 1) != 0
        if known is not None:
            told = ((tl.load(known + byte, mask=inside, other=0) >> bit) & 1) != 0
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
        read = positive
    z = tl.load(logits + row * (logit_stride * ALIGN) + column, mask=read, other=OUTSIDE).to(tl.float32)
    if UNKNOWN:
        z = tl.where(told, z, OUTSIDE)
    return z, positive, weight


@triton.jit
def row_factors(
    lam_rows, lam, example_weight, scale, row, present, LAM_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr
):
    """What a row's candidates and its excluded labels count."""
    factor = tl.zeros_like(row).to(tl.float32) + scale
    if example_weight is not None:
        factor *= tl.load(example_weight + row * WEIGHT_STRIDE, mask=present, other=0.0).to(tl.float32)
    excluded_factor = factor * lam
    if lam_rows is not None:
        excluded_factor = factor * tl.load(lam_rows + row * LAM_STRIDE, mask=present, other=0.0).to(tl.float32)
    return factor, excluded_factor


@triton.jit
def exp(x):
    """The exponential; what float32 holds only as a denormal number becomes 0."""
    if INTERPRETED:
        return tl.exp(x)
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x * LOG2_E], tl.float32, True, 1)


@triton.jit
def reciprocal(x):
    if INTERPRETED:
        return 1.0 / x
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def logistic(z):
    """p = σ(z), q = σ(-z) and -log(max(p, q)): to the last digits wherever z lies."""
    t = exp(tl.minimum(z, 80.0))  # beyond 80 nothing changes any more, but t would overflow
    q = reciprocal(1.0 + t)
    p = t * q
    x = tl.minimum(p, q)
    # -log(1 - x) / x as a polynomial: 3e-7 off at most on [0, 1/2], and exact where x is lost beside 1.
    ratio = x * 1.0561895370483398 - 0.8472030162811279
    ratio = x * ratio + 0.6164652705192566
    ratio = x * ratio + 0.0991033986210823
    ratio = x * ratio + 0.2607432007789612
    ratio = x * ratio + 0.33291497826576233
    ratio = x * ratio + 0.5
    ratio = x * ratio + 1.0
    return p, q, x * ratio


@triton.jit
def excluded_terms(z, p, q, small, KIND: tl.constexpr, GAMMA: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr):
    """Value and slope of an excluded label: log(1 + exp(z)), which the asymmetric loss turns down by a focus."""
    value = tl.maximum(z, 0.0) + small
    slope = p
    if KIND == ASL:
        if CLIP == 0:
            focus = exp(GAMMA * (tl.minimum(z, 0.0) - small))
            slope = focus * p
            if not DETACHED:
                slope += GAMMA * q * focus * value
            value = focus * value
        else:
            kept = p - CLIP
            floored = tl.maximum(kept, 1e-8)
            focus = tl.where(kept > 0, exp(GAMMA * tl.log(floored)), 0.0)
            rest = tl.minimum(q + CLIP, 1.0)
            log_rest = tl.log(rest)
            slope = focus * p * q / rest
            if not DETACHED:
                slope -= GAMMA * focus / floored * p * q * log_rest
            value = -focus * log_rest
    return value, slope


@triton.jit
def candidate_terms(z, p, q, small, KIND: tl.constexpr, GAMMA: tl.constexpr, DETACHED: tl.constexpr):
    """Value and pull (the slope downwards) of a candidate that counts for itself: cross entropy, asymmetric loss."""
    value = small - tl.minimum(z, 0.0)
    pull = q
    if KIND == ASL:
        focus = exp(-GAMMA * (tl.maximum(z, 0.0) + small))
        pull = focus * q
        if not DETACHED:
            pull += GAMMA * p * focus * value
        value = focus * value
    return value, pull


@triton.jit
def row_orders(order_rows, order, row, present, ORDER_STRIDE: tl.constexpr):
    """The order of the power mean of a row; 0 where it is the geometric one."""
    orders = tl.zeros_like(row).to(tl.float32) + order
    if order_rows is not None:
        orders = tl.load(order_rows + row * ORDER_STRIDE, mask=present, other=0.0).to(tl.float32)
    return tl.where(orders < TINY_ORDER, 0.0, orders)


@triton.jit
def share_of_set(z, p, q, small, shift, order, KIND: tl.constexpr):
    """What an entry adds to its set's sum: p, or its power, relative to exp(shift)."""
    if KIND == POWER:
        share = exp(order * (tl.minimum(z, 0.0) - small - shift))
    else:
        share = exp(tl.minimum(z, 0.0) - shift) * tl.maximum(p, q)
    return share


@triton.jit
def power_term(found, shift, size, geometric, order):
    """The power mean's log by its strength, and the factor of its slopes; 0 where the set is empty."""
    empty = found == 0
    safe = tl.where(empty, 1.0, found)
    log_size = tl.log(tl.where(size > 0, size, 1.0))
    strength = exp((1.0 - order) * log_size)
    relative = order * shift + tl.log(safe) - log_size
    value = tl.where(order == 0, geometric, strength * relative / tl.where(order == 0, 1.0, order))
    factor = tl.where(order == 0, 1.0, strength / safe)
    return tl.where(empty, 0.0, value), tl.where(empty, 0.0, factor)


@triton.jit
def set_term(found, shift, heaviest):
    """The weighted log of the set's sum, and the factor of its slopes; 0 where the set is empty."""
    empty = found == 0
    safe = tl.where(empty, 1.0, found)
    weight = tl.where(empty, 1.0, heaviest)
    value = weight * (shift + tl.log(safe) - tl.log(weight))
    return tl.where(empty, 0.0, value), tl.where(empty, 0.0, weight / safe)


@triton.jit(do_not_specialize=NUMBERS)
def short_rows(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, values, stats, gradient,
    logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Values, and where asked for statistics and gradient, of ROWS rows of at most BLOCK labels."""
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    present = rows < n_rows
    row = rows[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    inside = present[:, None] & (column < n_labels * ALIGN)
    z, positive, weight = read_entries(source, row, column, inside, KIND, PACKED, UNKNOWN, ALIGN, False)
    factor, excluded_factor = row_factors(
        lam_rows, lam, example_weight, scale, rows, present, LAM_STRIDE, WEIGHT_STRIDE
    )
    p, q, small = logistic(z)
    value, slope = excluded_terms(z, p, q, small, KIND, GAMMA_NEGATIVE, CLIP, DETACHED)
    total = excluded_factor * tl.sum(tl.where(positive, 0.0, value * weight), axis=1)
    share = tl.where(positive, slope * weight, 0.0)
    push = slope * weight - share  # rather than select once more: masks do not stay in registers
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        orders = tl.full([ROWS], 1.0, tl.float32)
        size = tl.full([ROWS], 1.0, tl.float32)
        geometric = tl.zeros([ROWS], tl.float32)
        if KIND == POWER:
            orders = row_orders(order_rows, order, rows, present, ORDER_STRIDE)
            log_p = tl.minimum(z, 0.0) - small
            size = tl.sum(tl.where(positive, weight, 0.0), axis=1)
            geometric = tl.sum(tl.where(positive, log_p * weight, 0.0), axis=1)
            share = tl.where(positive, exp(orders[:, None] * log_p) * weight, 0.0)
        found = tl.sum(share, axis=1)
        pull = share * q
        shift = tl.zeros([ROWS], tl.float32)
        if tl.min(tl.where(present, found, 1.0)) < TINY:  # a set is empty, or all of its probabilities are tiny
            # Read again: this is rare, and nothing has to be kept for it in registers.
            z, positive, weight = read_entries(source, row, column, inside, KIND, PACKED, UNKNOWN, ALIGN, True)
            p, q, small = logistic(z)
            top = tl.max(tl.where(positive, tl.minimum(z, 0.0), LOWEST), axis=1)
            shift = tl.where(top > LOWEST, top, 0.0)
            share = share_of_set(z, p, q, small, shift[:, None], orders[:, None], KIND)
            share = tl.where(positive, share * weight, 0.0)
            found = tl.sum(share, axis=1)
            pull = share * q
        if KIND == POWER:
            found_value, set_factor = power_term(found, shift, size, geometric, orders)
        else:
            heaviest = tl.full([ROWS], 1.0, tl.float32)
            if label_weight is not None:
                heaviest = tl.max(tl.where(positive, weight, 0.0), axis=1)
            found_value, set_factor = set_term(found, shift, heaviest)
        total -= factor * found_value
        if stats is not None:
            tl.store(stats + rows, shift, mask=present)
            tl.store(stats + n_rows + rows, set_factor, mask=present)
        factor *= set_factor
    else:
        value, pull = candidate_terms(z, p, q, small, KIND, GAMMA_POSITIVE, DETACHED)
        total += factor * tl.sum(tl.where(positive, value * weight, 0.0), axis=1)
        pull = tl.where(positive, pull * weight, 0.0)
    tl.store(values + rows * VALUE_STRIDE, total, mask=present)
    if gradient is not None:
        slope = excluded_factor[:, None] * push - factor[:, None] * pull
        tl.store(gradient + row * (n_labels * ALIGN) + column, slope, mask=inside)


@triton.jit(do_not_specialize=NUMBERS)
def long_rows(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, values, stats, gradient,
    logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same for one row of any length (ROWS is 1), BLOCK labels at a time."""
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    row = tl.program_id(0).to(tl.int64)
    end = n_labels * ALIGN
    factor, excluded_factor = row_factors(
        lam_rows, lam, example_weight, scale, row, row < n_rows, LAM_STRIDE, WEIGHT_STRIDE
    )
    # One sum per lane: the lanes are added up once, after the walk.
    excluded = tl.zeros([BLOCK], tl.float32)
    found_lanes = tl.zeros([BLOCK], tl.float32)
    heaviest_lanes = tl.zeros([BLOCK], tl.float32)  # of the power mean: the size of the set
    geometric_lanes = tl.zeros([BLOCK], tl.float32)
    orders = 1.0
    if KIND == POWER:
        orders = row_orders(order_rows, order, row, row < n_rows, ORDER_STRIDE)
    for start in range(0, end, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < end
        z, positive, weight = read_entries(source, row, column, inside, KIND, PACKED, UNKNOWN, ALIGN, False)
        p, q, small = logistic(z)
        value, slope = excluded_terms(z, p, q, small, KIND, GAMMA_NEGATIVE, CLIP, DETACHED)
        excluded += tl.where(positive, 0.0, value * weight)
        slope = tl.where(positive, 0.0, excluded_factor * (slope * weight))
        if KIND == PROPML:
            found_lanes += tl.where(positive, p * weight, 0.0)
            if label_weight is not None:
                heaviest_lanes = tl.maximum(heaviest_lanes, tl.where(positive, weight, 0.0))
        elif KIND == POWER:
            log_p = tl.minimum(z, 0.0) - small
            found_lanes += tl.where(positive, exp(orders * log_p) * weight, 0.0)
            heaviest_lanes += tl.where(positive, weight, 0.0)
            geometric_lanes += tl.where(positive, log_p * weight, 0.0)
        else:
            value, pull = candidate_terms(z, p, q, small, KIND, GAMMA_POSITIVE, DETACHED)
            found_lanes += tl.where(positive, value * weight, 0.0)
            slope = tl.where(positive, -factor * (pull * weight), slope)
        if gradient is not None:
            tl.store(gradient + row * end + column, slope, mask=inside)
    total = excluded_factor * tl.sum(excluded)
    found = tl.sum(found_lanes)
    if KIND == PROPML or KIND == POWER:  # noqa: SIM109  Triton has no `in`
        shift = 0.0
        if found < TINY:  # the set is empty, or all of its probabilities are tiny: a running maximum per lane
            top_lanes = tl.full([BLOCK], LOWEST, tl.float32)
            found_lanes = tl.zeros([BLOCK], tl.float32)
            for start in range(0, end, BLOCK):
                column = start + tl.arange(0, BLOCK)
                inside = column < end
                z, positive, weight = read_entries(source, row, column, inside, KIND, PACKED, UNKNOWN, ALIGN, True)
                p, q, small = logistic(z)
                higher = tl.maximum(top_lanes, tl.where(positive, tl.minimum(z, 0.0), LOWEST))
                share = share_of_set(z, p, q, small, higher, orders, KIND)
                found_lanes = found_lanes * exp(orders * (top_lanes - higher)) + tl.where(positive, share * weight, 0.0)
                top_lanes = higher
            top = tl.max(top_lanes)
            shift = tl.where(top > LOWEST, top, 0.0)
            found = tl.sum(found_lanes * exp(orders * (top_lanes - top)))
        if KIND == POWER:
            found_value, pull = power_term(found, shift, tl.sum(heaviest_lanes), tl.sum(geometric_lanes), orders)
        else:
            heaviest = 1.0
            if label_weight is not None:
                heaviest = tl.max(heaviest_lanes)
            found_value, pull = set_term(found, shift, heaviest)
        total -= factor * found_value
        if stats is not None:
            tl.store(stats + row, shift)
            tl.store(stats + n_rows + row, pull)
        if gradient is not None:
            tl.debug_barrier()  # a candidate's slope may be written by another thread than its zero was
            for start in range(0, end, BLOCK):
                column = start + tl.arange(0, BLOCK)
                inside = column < end
                z, positive, weight = read_entries(source, row, column, inside, KIND, PACKED, UNKNOWN, ALIGN, True)
                p, q, small = logistic(z)
                share = share_of_set(z, p, q, small, shift, orders, KIND) * weight
                tl.store(gradient + row * end + column, -(factor * pull) * (share * q), mask=positive)
    else:
        total += factor * found
    tl.store(values + row * VALUE_STRIDE, total)


@triton.jit(do_not_specialize=NUMBERS)
def slopes(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, grad_output, stats, gradient,
    logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The gradient of ROWS rows and BLOCK labels, from the statistics of the rows and the gradient on their values."""
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    present = rows < n_rows
    row = rows[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = present[:, None] & (column < n_labels * ALIGN)
    z, positive, weight = read_entries(source, row, column, inside, KIND, PACKED, UNKNOWN, ALIGN, False)
    incoming = scale * tl.load(grad_output + rows * VALUE_STRIDE, mask=present, other=0.0).to(tl.float32)
    factor, excluded_factor = row_factors(
        lam_rows, lam, example_weight, incoming, rows, present, LAM_STRIDE, WEIGHT_STRIDE
    )
    p, q, small = logistic(z)
    _, slope = excluded_terms(z, p, q, small, KIND, GAMMA_NEGATIVE, CLIP, DETACHED)
    push = tl.where(positive, 0.0, slope * weight)
    if KIND == POWER:
        orders = row_orders(order_rows, order, rows, present, ORDER_STRIDE)
        shift = tl.load(stats + rows, mask=present, other=0.0)
        factor *= tl.load(stats + n_rows + rows, mask=present, other=0.0)
        above = tl.where(positive, tl.minimum(z, 0.0) - small - shift[:, None], 0.0)
        pull = tl.where(positive, exp(orders[:, None] * above) * q * weight, 0.0)
    elif KIND == PROPML:
        shift = tl.load(stats + rows, mask=present, other=0.0)
        factor *= tl.load(stats + n_rows + rows, mask=present, other=0.0)
        share = p
        if tl.min(shift) < 0:
            share = exp(tl.where(positive, tl.minimum(z, 0.0) - shift[:, None], 0.0)) * tl.maximum(p, q)
        pull = tl.where(positive, share * q * weight, 0.0)
    else:
        _, pull = candidate_terms(z, p, q, small, KIND, GAMMA_POSITIVE, DETACHED)
        pull = tl.where(positive, pull * weight, 0.0)
    slope = excluded_factor[:, None] * push - factor[:, None] * pull
    tl.store(gradient + row * (n_labels * ALIGN) + column, slope, mask=inside)


@triton.jit(do_not_specialize=["n_entries"])
def scale_unless_one(gradient, factor, n_entries, ALIGN: tl.constexpr, BLOCK: tl.constexpr):
    """Multiply a buffer in place by one number that lies on the device; nothing is read or written when that is 1."""
    by = tl.load(factor).to(tl.float32)
    if by != 1.0:
        start = tl.program_id(0).to(tl.int64) * BLOCK
        stride = tl.num_programs(0).to(tl.int64) * BLOCK
        for first in range(start, n_entries * ALIGN, stride):
            entry = first + tl.arange(0, BLOCK)
            inside = entry < n_entries * ALIGN
            slope = tl.load(gradient + entry, mask=inside).to(tl.float32)
            tl.store(gradient + entry, slope * by, mask=inside)
