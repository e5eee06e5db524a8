"""What the Triton kernels compute of entries and of sets. Arguments in capitals are compiled in.

A mask is an integer, all ones or 0: to apply it takes one instruction, and no predicate has to be kept for it.
"""

# mypy: ignore-errors
import os

import triton
import triton.language as tl

__all__ = [
    "ASL",
    "BCE",
    "INTERPRETED",
    "LARGE",
    "POWER",
    "PROPML",
    "choose",
    "clamped",
    "exp",
    "half_slopes",
    "logistic",
    "masks_of_bits",
    "masks_of_bytes",
    "only",
    "set_sizes",
    "share_of_set",
    "small_log",
    "sums_by_group",
    "term_of_set",
]

PROPML, BCE, ASL, POWER = (tl.constexpr(kind) for kind in range(4))  # as in problem.py
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
LARGE = tl.constexpr(1e34)  # below the exponential of a clamped logit
# The fast instructions flush to zero and round once more than needed; the interpreter has no need of them.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


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
def log(x, SIGN: tl.constexpr = 1.0):
    """The logarithm times a sign, 2e-7 off at most between 1/2 and 2, and to the last digits elsewhere."""
    if INTERPRETED:
        return SIGN * tl.log(x)
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1) * (SIGN * LN_2)


@triton.jit
def rounded_product(x, y):
    """A product that is never fused with a sum: what is rounded here is the same in all kernels."""
    if INTERPRETED:
        return x * y
    return tl.inline_asm_elementwise("mul.rn.ftz.f32 $0, $1, $2;", "=f,f,f", [x, y], tl.float32, True, 1)


@triton.jit
def negative_product(x, y):
    """−x y, likewise."""
    if INTERPRETED:
        return 0.0 - x * y
    return tl.inline_asm_elementwise(
        "{ .reg .f32 n; neg.f32 n, $2; mul.rn.ftz.f32 $0, $1, n; }", "=f,f,f", [x, y], tl.float32, True, 1
    )


@triton.jit
def only(x, mask):
    """x where the mask is set, else 0, whatever x is there."""
    return (x.to(tl.int32, bitcast=True) & mask).to(tl.float32, bitcast=True)


@triton.jit
def choose(mask, x, y):
    """x where the mask is set, else y."""
    if INTERPRETED:
        return tl.where(mask != 0, x, y)
    return tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, $3, 0xCA;", "=f,r,f,f", [mask, x, y], tl.float32, True, 1)


@triton.jit
def masks_of_bytes(marks):
    """Set where a byte is not 0: the sign of each byte, four at a time."""
    if INTERPRETED:
        return tl.where(marks != 0, -1, 0)
    return tl.inline_asm_elementwise(
        """{
        .reg .b32 w;
        and.b32 w, $4, 0x7f7f7f7f;
        add.u32 w, w, 0x7f7f7f7f;
        or.b32 w, w, $4;
        prmt.b32 $0, w, 0, 0x8888;
        prmt.b32 $1, w, 0, 0x9999;
        prmt.b32 $2, w, 0, 0xaaaa;
        prmt.b32 $3, w, 0, 0xbbbb;
        }""",
        "=r,=r,=r,=r,r", [marks], tl.int32, True, 4,
    )  # fmt: skip


@triton.jit
def masks_of_bits(bits, GROUP: tl.constexpr):
    """Set where a label's bit is, ``(rows, groups, GROUP)``."""
    label = tl.arange(0, GROUP)[None, None, :]
    if INTERPRETED:
        return (bits[:, :, None] << (31 - label)) >> 31
    # Four bits become the signs of four bytes. Labels differ by an argument, not by their place among those that the
    # assembly is given: of equal arguments the compiler computes one.
    signs = ((bits & 15) * 0x10204080)[:, :, None]
    if GROUP == 8:
        signs = tl.where(label < 4, signs, ((bits >> 4) * 0x10204080)[:, :, None])
    byte = 0x8888 + 0x1111 * (label & 3)
    return tl.inline_asm_elementwise("prmt.b32 $0, $1, 0, $2;", "=r,r,r", [signs, byte], tl.int32, True, 1)


@triton.jit
def clamped(z):
    """A logit in float32, 80 at most: beyond, nothing changes but that its exponential overflows. NaN stays."""
    if INTERPRETED or z.dtype == tl.float32:
        return tl.minimum(z.to(tl.float32), 80.0, propagate_nan=tl.PropagateNan.ALL)
    elif z.dtype == tl.bfloat16:
        return tl.inline_asm_elementwise(
            """{
            .reg .b32 c;
            mov.b32 c, 0x42A042A0;
            min.NaN.bf16x2 c, $2, c;
            shl.b32 $0, c, 16;
            and.b32 $1, c, 0xffff0000;
            }""",
            "=r,=r,r", [z], tl.int32, True, 2,
        ).to(tl.float32, bitcast=True)  # fmt: skip
    else:
        return tl.inline_asm_elementwise(
            """{
            .reg .b32 c;
            .reg .b16 low, high;
            mov.b32 c, 0x55005500;
            min.NaN.f16x2 c, $2, c;
            mov.b32 {low, high}, c;
            cvt.f32.f16 $0, low;
            cvt.f32.f16 $1, high;
            }""",
            "=f,=f,r", [z], tl.float32, True, 2,
        )  # fmt: skip


@triton.jit
def logistic(z):
    """p = σ(z), q = σ(−z) and exp(z) of a clamped logit, to the last digits wherever it lies."""
    t = exp(z)
    q = reciprocal(1.0 + t)
    return rounded_product(t, q), q, t


@triton.jit
def small_log(p, q):
    """−log(max(p, q)), which is log(1 + exp(−|z|))."""
    x = tl.minimum(p, q)
    # −log(1 − x) / x as a polynomial: 3e-7 off at most on [0, 1/2], and exact where x is lost beside 1.
    ratio = x * 1.0561895370483398 - 0.8472030162811279
    ratio = x * ratio + 0.6164652705192566
    ratio = x * ratio + 0.0991033986210823
    ratio = x * ratio + 0.2607432007789612
    ratio = x * ratio + 0.33291497826576233
    ratio = x * ratio + 0.5
    ratio = x * ratio + 1.0
    return x * ratio


@triton.jit
def either(x, y):
    """(1 + x)(1 + y) − 1, without rounding small ones away."""
    return tl.fma(x, y, x + y)


@triton.jit
def log1p(x):
    """log(1 + x) for x of at least 0, to the last digits also where x is lost beside 1; x itself from LARGE on."""
    # log(1 + x) / x as a polynomial: 7e-8 off at most up to 0.35.
    ratio = x * -0.0758235901594162 + 0.1709328144788742
    ratio = x * ratio - 0.24537426233291626
    ratio = x * ratio + 0.3329996168613434
    ratio = x * ratio - 0.4999920129776001
    ratio = x * ratio + 1.0
    return tl.where(x < 0.35, x * ratio, tl.where(x < LARGE, log(1.0 + x), x))


@triton.jit
def power(x, log_x, EXPONENT: tl.constexpr):
    """A power of x; whole exponents, which nearly everybody takes, cost no logarithm."""
    if EXPONENT == 0:
        return x * 0.0 + 1.0
    elif EXPONENT == 1:
        return x
    elif EXPONENT == 2:
        return x * x
    elif EXPONENT == 3:
        return x * x * x
    elif EXPONENT == 4:
        return (x * x) * (x * x)
    else:
        return exp(EXPONENT * log_x)


@triton.jit
def asymmetric_terms(z, p, q, mask, FOCUS: tl.constexpr):
    """The asymmetric loss, cross entropy that a focus turns down: values of a candidate and another, slopes of both."""
    GAMMA_POSITIVE: tl.constexpr = FOCUS[0]
    GAMMA_NEGATIVE: tl.constexpr = FOCUS[1]
    CLIP: tl.constexpr = FOCUS[2]
    DETACHED: tl.constexpr = FOCUS[3]
    if CLIP == 0:
        small = small_log(p, q)
        other = tl.maximum(z, 0.0) + small
        focus = power(p, tl.minimum(z, 0.0) - small, GAMMA_NEGATIVE)
        push = focus * p
        if not DETACHED:
            push += GAMMA_NEGATIVE * q * focus * other
        other *= focus
    else:
        rest = q + CLIP  # above 1 only where nothing is kept
        small = log(choose(mask, tl.maximum(p, q), rest), -1.0)  # one logarithm serves both kinds of labels
        kept = tl.maximum(p - CLIP, 0.0)
        if GAMMA_NEGATIVE == 2 or GAMMA_NEGATIVE == 3 or GAMMA_NEGATIVE == 4:
            lower = power(kept, kept, GAMMA_NEGATIVE - 1)
        else:
            floored = tl.maximum(kept, 1e-8)
            lower = tl.where(kept > 0, power(floored, log(floored), GAMMA_NEGATIVE - 1), 0.0)
        other = lower * (kept * small)
        push = kept * reciprocal(rest)
        if not DETACHED:
            push += GAMMA_NEGATIVE * small
        push = lower * push * (p * q)
    found = small - tl.minimum(z, 0.0)
    focus = power(q, 0.0 - tl.maximum(z, 0.0) - small, GAMMA_POSITIVE)
    pull = q
    if not DETACHED:
        pull += GAMMA_POSITIVE * p * found
    return focus * found, other, negative_product(focus, pull), push


@triton.jit
def share_of_set(z, p, q, shift, order, KIND: tl.constexpr):
    """What a candidate adds to its set's sum: p, or its power, relative to exp(shift)."""
    if KIND == POWER:
        return exp(order[:, None, None] * (tl.minimum(z, 0.0) - small_log(p, q) - shift[:, None, None]))
    else:  # as p is where nothing is shifted, to the last bit
        near = exp(tl.minimum(z, 0.0) - shift[:, None, None]) * tl.maximum(p, q)
        return tl.where(shift[:, None, None] < 0, near, p)


@triton.jit
def sums_by_group(z, p, q, t, mask, weight, orders, WEIGHTED: tl.constexpr, KIND: tl.constexpr, FOCUS: tl.constexpr):
    """What the candidates of groups add to the value, or to their set's sum, and what the others add to the value."""
    if KIND == PROPML and not WEIGHTED:
        # One logarithm of a product for all labels of a group: nearly all that there are.
        return tl.sum(only(p, mask), axis=2), log1p(tl.reduce(only(t, ~mask), 2, either))
    else:
        if KIND == ASL:
            found, other, _, _ = asymmetric_terms(z, p, q, mask, FOCUS)
        else:
            small = small_log(p, q)
            other = tl.maximum(z, 0.0) + small
            if KIND == BCE:
                found = small - tl.minimum(z, 0.0)
            elif KIND == POWER:
                found = share_of_set(z, p, q, tl.zeros_like(orders), orders, KIND)
            else:
                found = p
        return tl.sum(only(found * weight, mask), axis=2), tl.sum(only(other * weight, ~mask), axis=2)


@triton.jit
def half_slopes(z, p, q, mask, shift, orders, SHIFTED: tl.constexpr, KIND: tl.constexpr, FOCUS: tl.constexpr):
    """The slopes but for their weight and what candidates and others of the row count: negative of candidates."""
    push = p
    if KIND == ASL:
        _, _, pull, push = asymmetric_terms(z, p, q, mask, FOCUS)
    elif KIND == BCE:
        pull = 0.0 - q
    elif KIND == POWER or SHIFTED:
        pull = negative_product(share_of_set(z, p, q, shift, orders, KIND), q)
    else:
        pull = negative_product(p, q)
    return choose(mask, pull, push)


@triton.jit
def set_sizes(z, p, q, mask, weight, KIND: tl.constexpr):
    """By groups of entries, of the power mean the size of the set and its logarithms; of ProPML the heaviest weight."""
    weights = tl.where(mask != 0, weight, 0.0)
    if KIND == POWER:
        log_p = tl.minimum(z, 0.0) - small_log(p, q)
        return tl.sum(weights, axis=2), tl.sum(only(log_p * weight, mask), axis=2)
    else:
        size = tl.max(weights, axis=2)
        return size, size


@triton.jit
def term_of_set(found, shift, size, geometric, order, WEIGHTED: tl.constexpr, KIND: tl.constexpr):
    """The weighted log of a set's sum, or the power mean's by its strength, and the factor of its slopes.

    Both are 0 where the set is empty. The size of a weighted set of ProPML is its heaviest weight.
    """
    empty = found == 0
    safe = tl.where(empty, 1.0, found)
    value, factor = shift + log(safe), reciprocal(safe)
    log_found = tl.log(safe)  # to the last digit: orders and weights magnify what the quick one has off
    if KIND == POWER:
        log_size = tl.log(tl.where(size > 0, size, 1.0))
        strength = exp((1.0 - order) * log_size)
        relative = order * shift + log_found - log_size
        value = tl.where(order == 0, geometric, strength * relative / tl.where(order == 0, 1.0, order))
        factor = tl.where(order == 0, 1.0, strength * factor)
    elif WEIGHTED:
        heaviest = tl.where(empty, 1.0, size)
        value, factor = heaviest * (shift + log_found - tl.log(heaviest)), heaviest * factor
    return tl.where(empty, 0.0, value), tl.where(empty, 0.0, factor)
