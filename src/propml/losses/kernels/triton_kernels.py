"""The losses on rows as Triton kernels: logits and candidates are read, value and gradient come out together.

A row is one example. :func:`forward` holds whole rows in registers, or walks along one row twice: for the value and the
sum of the set, then, while the row is still in the cache, for the gradient. Several programs may share a row too long
for that. :func:`backward` computes the gradient from what the forward pass kept of each row. No kernel adds atomically:
the same input gives the same bits. Arguments in capitals are compiled in.
"""

# mypy: ignore-errors
import triton
import triton.language as tl

from propml.losses.kernels.triton_math import (
    INTERPRETED,
    LARGE,
    POWER,
    PROPML,
    exp,
    half_slopes,
    only,
    set_sizes,
    share_of_set,
    small_log,
    sums_by_group,
    term_of_set,
)
from propml.losses.kernels.triton_reading import read_entries, row_factors, write_slopes

__all__ = ["backward", "forward"]

# One compiled kernel serves all sizes: what it may assume of them is in ALIGN.
NUMBERS = ["logit_stride", "candidate_stride", "mask_stride", "n_rows", "n_labels"]
# Below this a set's sum of probabilities is taken relative to its largest one: float32 ends at 1e-38.
TINY = tl.constexpr(1e-20)
LOWEST = tl.constexpr(-1e30)  # below all logits, and finite: differences of two of them are defined
MOST_PARTS = tl.constexpr(32)  # of a row: a warp adds them up


@triton.jit
def in_row(entries):
    """The sum over the labels of each row."""
    return tl.sum(tl.sum(entries, axis=2), axis=1)


@triton.jit
def both_sums(found, other, more_found, more_other):
    return found + more_found, other + more_other


@triton.jit
def careful_rows(
    source, per_row, outputs, rows, n_rows, end, by, found, other, size, geometric,
    FORM: tl.constexpr, STRIDES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Once more, rows of which some set is empty, or has tiny probabilities only, or a product of a group overflowed.

    This is rare: it reads the rows again, so that nothing has to be kept for it in registers.
    """
    values, stats, gradient = outputs[0], outputs[1], outputs[2]
    KIND: tl.constexpr = FORM[0]
    ROWS: tl.constexpr = TILE[0]
    STEP: tl.constexpr = max(16, TILE[1] // 8)
    there = rows < n_rows
    factor, excluded_factor, orders = row_factors(per_row, rows, there, STRIDES)
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
            write_slopes(gradient, rows, column, end, half, weight, factor, excluded_factor * by, inside, None, "")


@triton.jit
def are_fine(found, other, rows, n_rows):
    """Whether all sums of sets and of excluded labels are what float32 and products of groups can hold."""
    return tl.min(tl.where((found >= TINY) & (other < LARGE) | (rows >= n_rows), 1, 0)) == 1


@triton.jit
def tell_the_others(shared, row, part, parts, found, other):
    """Write a part's sums where the other programs of its row read them, and wait until all have done so.

    All of them are on the GPU, or none is (the launch is a cooperative one), so that each has its turn.
    """
    place = shared + row * (2 * parts + 2)
    own = place + 2 + 2 * part + tl.arange(0, 1)
    tl.store(own, found)
    tl.store(own + 1, other)
    if not INTERPRETED:  # which runs one program after the other, and all of them twice
        tl.debug_barrier()
        counter = place.to(tl.pointer_type(tl.int32), bitcast=True)
        arrived = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") + 1
        while arrived < parts:
            arrived = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")


@triton.jit
def sums_of_parts(shared, row, parts):
    """Of a row whose programs have all told them, in an order that is always the same."""
    part = tl.arange(0, MOST_PARTS)
    place = shared + row * (2 * parts + 2) + 2 + 2 * part
    found = tl.load(place, mask=part < parts, other=0.0, cache_modifier=".cg")
    other = tl.load(place + 1, mask=part < parts, other=0.0, cache_modifier=".cg")
    found, other = tl.reduce((found, other), 0, both_sums)
    return tl.full([1], 0.0, tl.float32) + found, tl.full([1], 0.0, tl.float32) + other


@triton.jit
def sums_and_slopes(
    source, per_row, outputs, rows, n_rows, row, part, parts, end, by,
    FORM: tl.constexpr, FOCUS: tl.constexpr, STRIDES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Values, statistics and gradient of rows, or of a part of one row; their sums, and whether these are fine.

    Where they are not, only a program that has whole rows writes something, for :func:`careful_rows` to write over.
    """
    values, stats, gradient, shared = outputs
    KIND: tl.constexpr = FORM[0]
    ROWS: tl.constexpr = TILE[0]
    BLOCK: tl.constexpr = TILE[1]
    HELD: tl.constexpr = TILE[2]
    JOINT: tl.constexpr = TILE[3]
    FIRST: tl.constexpr = "evict_last" if TILE[4] else ""
    SECOND: tl.constexpr = "evict_first" if TILE[4] else ""
    SETS: tl.constexpr = (KIND == PROPML) | (KIND == POWER)
    WEIGHTED: tl.constexpr = source[7] is not None
    SIZED: tl.constexpr = KIND == POWER or (KIND == PROPML and WEIGHTED)
    there = rows < n_rows
    factor, excluded_factor, orders = row_factors(per_row, rows, there, STRIDES)
    excluded = excluded_factor * by
    shift = tl.zeros([ROWS], tl.float32)
    begin, stop = 0, end
    if JOINT > 0:
        begin = part * (JOINT * BLOCK)
        stop = tl.minimum(end, begin + JOINT * BLOCK)
    if HELD > 0:
        held = ()
        for block in tl.static_range(HELD):
            z, p, q, t, positive, weight, column, inside = read_entries(
                source, rows, begin + block * BLOCK, there, end, FORM, BLOCK, ""
            )
            half = half_slopes(z, p, q, positive, shift, orders, False, KIND, FOCUS)
            if gradient is not None and not SETS:
                write_slopes(gradient, rows, column, end, half, weight, factor * by, excluded, inside, positive, "")
            found, other = sums_by_group(z, p, q, t, positive, weight, orders, WEIGHTED, KIND, FOCUS)
            if block == 0:
                found_lanes, other_lanes = found, other
            else:
                found_lanes += found
                other_lanes += other
            if SIZED:
                tl.static_assert(HELD == 1)
                size_lanes, geometric_lanes = set_sizes(z, p, q, positive, weight, KIND)
            held = held + ((half, weight, column, inside),)  # noqa: RUF005  Triton has no `*`
    else:  # one sum per group: the groups are added up once, after the walk
        found_lanes = tl.zeros([ROWS, BLOCK // FORM[4]], tl.float32)
        other_lanes, size_lanes, geometric_lanes = found_lanes, found_lanes, found_lanes
        for start in range(begin, stop, BLOCK):
            z, p, q, t, positive, weight, column, inside = read_entries(
                source, rows, start, there, end, FORM, BLOCK, FIRST if SETS else ""
            )
            if gradient is not None and not SETS:
                half = half_slopes(z, p, q, positive, shift, orders, False, KIND, FOCUS)
                write_slopes(gradient, rows, column, end, half, weight, factor * by, excluded, inside, positive, "")
            found, other = sums_by_group(z, p, q, t, positive, weight, orders, WEIGHTED, KIND, FOCUS)
            found_lanes += found
            other_lanes += other
            if SIZED:
                size, geometric = set_sizes(z, p, q, positive, weight, KIND)
                size_lanes = size_lanes + size if KIND == POWER else tl.maximum(size_lanes, size)
                geometric_lanes += geometric
    found, other = tl.reduce((found_lanes, other_lanes), 1, both_sums)
    size, geometric = found, found
    is_fine = True
    if SETS:
        if SIZED:
            size = tl.sum(size_lanes, axis=1) if KIND == POWER else tl.max(size_lanes, axis=1)
            geometric = tl.sum(geometric_lanes, axis=1)
        told = there
        if JOINT > 0:
            tell_the_others(shared, row, part, parts, found, other)
            found, other = sums_of_parts(shared, row, parts)
        is_fine = are_fine(found, other, rows, n_rows)
        if JOINT > 0:
            told = there & is_fine & (part == 0)
        value, set_factor = term_of_set(found, shift, size, geometric, orders, WEIGHTED, KIND)
        tl.store(values + rows, excluded_factor * other - factor * value, mask=told)
        if stats is not None:
            tl.store(stats + rows, shift, mask=told)
            tl.store(stats + n_rows + rows, set_factor, mask=told)
        if gradient is not None:
            factor = factor * by * set_factor
            if HELD > 0:
                for block in tl.static_range(HELD):
                    half, weight, column, inside = held[block]
                    if JOINT > 0:
                        inside = inside & is_fine
                    write_slopes(gradient, rows, column, end, half, weight, factor, excluded, inside, None, "")
            else:
                for start in range(begin, tl.where(is_fine, stop, 0), BLOCK):
                    z, p, q, _, positive, weight, column, inside = read_entries(
                        source, rows, start, there, end, FORM, BLOCK, SECOND
                    )
                    half = half_slopes(z, p, q, positive, shift, orders, False, KIND, FOCUS)
                    write_slopes(gradient, rows, column, end, half, weight, factor, excluded, inside, None, SECOND)
    else:
        tl.store(values + rows, excluded_factor * other + factor * found, mask=there)
    return found, other, size, geometric, is_fine


@triton.jit(do_not_specialize=NUMBERS)
def forward(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, values, stats, gradient,
    planned, shared, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, HELD: tl.constexpr, JOINT: tl.constexpr, HINTS: tl.constexpr,
):  # fmt: skip
    """Values, and where asked for statistics and gradient, of ROWS rows, BLOCK labels at a time.

    A program holds ``HELD`` blocks of each row in registers, and reads them once; if 0, it walks along one row. If
    ``JOINT`` is not 0, programs of so many blocks each work on one row, and tell each other their sums in ``shared``.
    ``HINTS`` tell the cache what is read again. The gradient is that of the values times the number at ``planned``, if
    there is one.
    """
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    per_row = (lam_rows, lam, order_rows, order, example_weight, scale)
    outputs = (values, stats, gradient, shared)
    FORM: tl.constexpr = (KIND, PACKED, UNKNOWN, ALIGN, GROUP)
    FOCUS: tl.constexpr = (GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
    STRIDES: tl.constexpr = (LAM_STRIDE, ORDER_STRIDE, WEIGHT_STRIDE)
    TILE: tl.constexpr = (ROWS, BLOCK, HELD, JOINT, HINTS)
    end = n_labels * ALIGN
    by = 1.0
    if planned is not None:
        by = tl.load(planned)
    program = tl.program_id(0)
    if JOINT > 0:
        parts = tl.cdiv(end, JOINT * BLOCK)
        part, first, step = program % parts, program // parts, tl.num_programs(0) // parts
        n_wrong = 0
        for row in range(first, n_rows, step):
            rows = row + tl.arange(0, 1).to(tl.int64)
            _, _, _, _, is_fine = sums_and_slopes(
                source, per_row, outputs, rows, n_rows, row, part, parts, end, by, FORM, FOCUS, STRIDES, TILE
            )
            n_wrong += tl.where(is_fine, 0, 1)
        if n_wrong > 0:  # the programs of these rows share them
            for row in range(first + part * step, n_rows, parts * step):
                found, other = sums_of_parts(shared, row, parts)
                rows = row + tl.arange(0, 1).to(tl.int64)
                if not are_fine(found, other, rows, n_rows):
                    careful_rows(
                        source, per_row, outputs, rows, n_rows, end, by, found, other, found, found, FORM, STRIDES, TILE
                    )
    else:
        rows = program.to(tl.int64) * ROWS + tl.arange(0, ROWS)
        found, other, size, geometric, is_fine = sums_and_slopes(
            source, per_row, outputs, rows, n_rows, 0, 0, 1, end, by, FORM, FOCUS, STRIDES, TILE
        )
        if KIND == PROPML or KIND == POWER:  # noqa: SIM102, SIM109  compiled in, and looked at; Triton has no `in`
            if not is_fine:
                tl.debug_barrier()  # what was written is written again, by other threads
                careful_rows(
                    source, per_row, outputs, rows, n_rows, end, by, found, other, size, geometric, FORM, STRIDES, TILE
                )


@triton.jit(do_not_specialize=NUMBERS)
def backward(
    logits, candidates, known, mask, label_weight, lam_rows, order_rows, example_weight, grad_output, stats, gradient,
    planned, noted, logit_stride, candidate_stride, mask_stride, n_rows, n_labels, lam, order, scale,
    KIND: tl.constexpr, PACKED: tl.constexpr, UNKNOWN: tl.constexpr, ALIGN: tl.constexpr, LAM_STRIDE: tl.constexpr,
    ORDER_STRIDE: tl.constexpr, WEIGHT_STRIDE: tl.constexpr, VALUE_STRIDE: tl.constexpr, GAMMA_POSITIVE: tl.constexpr,
    GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, HELD: tl.constexpr, JOINT: tl.constexpr, HINTS: tl.constexpr,
):  # fmt: skip
    """The gradient from the statistics of the rows and the gradient on their values.

    Where a gradient was planned for one number, ``grad_output`` is one too: it is noted, and nothing more is done when
    they are the same.
    """
    source = (logits, logit_stride, candidates, candidate_stride, known, mask, mask_stride, label_weight)
    FORM: tl.constexpr = (KIND, PACKED, UNKNOWN, ALIGN, GROUP)
    FOCUS: tl.constexpr = (GAMMA_POSITIVE, GAMMA_NEGATIVE, CLIP, DETACHED)
    STRIDES: tl.constexpr = (LAM_STRIDE, ORDER_STRIDE, WEIGHT_STRIDE)
    per_row = (lam_rows, lam, order_rows, order, example_weight, scale)
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
        factor, excluded_factor, orders = row_factors(per_row, rows, there, STRIDES)
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
        write_slopes(gradient, rows, column, end, half, weight, factor, excluded_factor * by, inside, None, "")
