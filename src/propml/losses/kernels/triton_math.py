"""What the Triton kernels compute of one entry. Arguments in capitals are compiled in."""

# mypy: ignore-errors
import os

import triton
import triton.language as tl

__all__ = [
    "ASL",
    "BCE",
    "POWER",
    "PROPML",
    "asymmetric_terms",
    "exp",
    "logistic",
    "power_term",
    "set_term",
    "share_of_set",
    "small_log",
    "softplus_lanes",
]

PROPML, BCE, ASL, POWER = (tl.constexpr(kind) for kind in range(4))  # as in problem.py
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
# The fast instructions flush to zero and round once more than needed; the interpreter has no need of them.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
# Eight factors 1 + exp(z) of logits up to 11 multiply to less than the largest float32.
NEAR, EXP_NEAR = tl.constexpr(11.0), tl.constexpr(59874.141715)


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
def log(x):
    """The logarithm, 2e-7 off at most between 1/2 and 2, and to the last digits elsewhere."""
    if INTERPRETED:
        return tl.log(x)
    return tl.inline_asm_elementwise("lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1) * LN_2


@triton.jit
def logistic(z):
    """p = σ(z), q = σ(−z) and exp(z), to the last digits wherever z lies."""
    t = exp(tl.minimum(z, 80.0))  # beyond 80 nothing changes any more, but t would overflow
    q = reciprocal(1.0 + t)
    return t * q, q, t


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
    """log(1 + x) for x of at least 0, to the last digits also where x is lost beside 1."""
    # log(1 + x) / x as a polynomial: 7e-8 off at most up to 0.35.
    ratio = x * -0.0758235901594162 + 0.1709328144788742
    ratio = x * ratio - 0.24537426233291626
    ratio = x * ratio + 0.3329996168613434
    ratio = x * ratio - 0.4999920129776001
    ratio = x * ratio + 1.0
    return tl.where(x < 0.35, x * ratio, log(1.0 + x))


@triton.jit
def softplus_lanes(z, p, q, t, positive, weight, GROUPED: tl.constexpr):
    """The sum of log(1 + exp(z)) over the excluded labels of each group of eight, ``(rows, groups)``.

    With ``GROUPED`` it is one logarithm of a product, 2e-5 off where a logit lies above 11: for logits of 16 bits.
    """
    if GROUPED:
        product = tl.reduce(tl.where(positive, 0.0, tl.minimum(t, EXP_NEAR)), 2, either)
        return log1p(product) + tl.sum(tl.where(positive, 0.0, tl.maximum(z - NEAR, 0.0)), axis=2)
    else:
        return tl.sum(tl.where(positive, 0.0, (tl.maximum(z, 0.0) + small_log(p, q)) * weight), axis=2)


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
def asymmetric_terms(
    z, p, q, positive,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """Value and slope (of candidates downwards) of the asymmetric loss: cross entropy that a focus turns down."""
    if CLIP == 0:
        small = small_log(p, q)
        value = tl.maximum(z, 0.0) + small
        focus = power(p, tl.minimum(z, 0.0) - small, GAMMA_NEGATIVE)
        slope = focus * p
        if not DETACHED:
            slope += GAMMA_NEGATIVE * q * focus * value
        value *= focus
    else:
        kept = tl.maximum(p - CLIP, 0.0)
        rest = tl.minimum(q + CLIP, 1.0)
        small = -log(tl.where(positive, tl.maximum(p, q), rest))  # one logarithm serves both kinds of labels
        floored = tl.maximum(kept, 1e-8)
        log_kept = 0.0
        if GAMMA_NEGATIVE > 4 or GAMMA_NEGATIVE != GAMMA_NEGATIVE // 1:
            log_kept = log(floored)
        focus = tl.where(kept > 0, power(floored, log_kept, GAMMA_NEGATIVE), 0.0)
        slope = focus * reciprocal(rest)
        if not DETACHED:
            slope += GAMMA_NEGATIVE * focus * reciprocal(floored) * small
        slope *= p * q
        value = focus * small
    found = small - tl.minimum(z, 0.0)
    focus = power(q, -tl.maximum(z, 0.0) - small, GAMMA_POSITIVE)
    pull = q
    if not DETACHED:
        pull += GAMMA_POSITIVE * p * found
    return tl.where(positive, focus * found, value), tl.where(positive, focus * pull, slope)


@triton.jit
def share_of_set(z, p, q, shift, order, KIND: tl.constexpr):
    """What an entry adds to its set's sum: p, or its power, relative to exp(shift)."""
    if KIND == POWER:
        return exp(order * (tl.minimum(z, 0.0) - small_log(p, q) - shift))
    else:  # as p is where nothing is shifted, to the last bit
        return tl.where(shift < 0, exp(tl.minimum(z, 0.0) - shift) * tl.maximum(p, q), p)


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
def set_term(found, shift, heaviest, WEIGHTED: tl.constexpr):
    """The weighted log of the set's sum, and the factor of its slopes; 0 where the set is empty."""
    empty = found == 0
    safe = tl.where(empty, 1.0, found)
    value, factor = shift + tl.log(safe), 1.0 / safe
    if WEIGHTED:
        weight = tl.where(empty, 1.0, heaviest)
        value, factor = weight * (value - tl.log(weight)), weight * factor
    return tl.where(empty, 0.0, value), tl.where(empty, 0.0, factor)
