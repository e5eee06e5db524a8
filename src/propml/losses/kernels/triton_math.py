"""What the Triton kernels compute of one entry.

Each has one exponential and one reciprocal, the logarithms of several are one logarithm of their product, and what the
machine has an instruction for is left to it. Triton computes ``-x`` as ``0 - x``, one instruction more: signs are put
into what a row has once. Arguments in capitals are compiled in.
"""

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
    "log1p",
    "logistic",
    "power_term",
    "set_term",
    "share_of_set",
    "softplus_lanes",
]

PROPML, BCE, ASL, POWER = (tl.constexpr(kind) for kind in range(4))  # as in problem.py
LOG2_E = tl.constexpr(1.4426950408889634)
LN_2 = tl.constexpr(0.6931471805599453)
# The fast instructions flush to zero and round once more than needed; the interpreter has no need of them.
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
def exp2(x):
    """A power of 2; what float32 holds only as a denormal number becomes 0."""
    if INTERPRETED:
        return tl.exp2(x)
    return tl.inline_asm_elementwise("ex2.approx.ftz.f32 $0, $1;", "=f,f", [x], tl.float32, True, 1)


@triton.jit
def exp(x):
    return exp2(x * LOG2_E)


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
def logistic(z):
    """p = σ(z), q = σ(-z) and u = exp(-|z|), to the last digits wherever z lies; log(1 + exp(z)) is z⁺ + log(1 + u)."""
    u = exp2(tl.abs(z) * (-LOG2_E))
    larger = reciprocal(1.0 + u)
    smaller = u * larger
    above = z > 0
    return tl.where(above, larger, smaller), tl.where(above, smaller, larger), u


@triton.jit
def halved(x, y, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Of neighbours, the sums of x, and y so that 1 + y is the product of theirs: small ones are not rounded away."""
    x_even, x_odd = tl.split(tl.reshape(x, (ROWS, WIDTH // 2, 2)))
    y_even, y_odd = tl.split(tl.reshape(y, (ROWS, WIDTH // 2, 2)))
    return x_even + x_odd, tl.fma(y_even, y_odd, y_even + y_odd)


@triton.jit
def softplus_lanes(above, u, chosen, weight, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """What the chosen entries add to the sum of z⁺ + log(1 + u), by groups of as many as a thread holds side by side.

    A group's (1 + u) multiply up to 2⁸ at most. With weights, which multiply the logarithms, a group is one entry.
    """
    above = tl.where(chosen, above, 0.0)
    u = tl.where(chosen, u, 0.0)
    if GROUP >= 2:
        above, u = halved(above, u, ROWS, BLOCK)
    if GROUP >= 4:
        above, u = halved(above, u, ROWS, BLOCK // 2)
    if GROUP >= 8:
        above, u = halved(above, u, ROWS, BLOCK // 4)
    lanes = above + log1p(u)
    if GROUP == 1:
        lanes *= weight
    return lanes


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
    z, p, q, u, positive,
    GAMMA_POSITIVE: tl.constexpr, GAMMA_NEGATIVE: tl.constexpr, CLIP: tl.constexpr, DETACHED: tl.constexpr,
):  # fmt: skip
    """Value and slope (of candidates downwards) of the asymmetric loss: cross entropy that a focus turns down."""
    if CLIP == 0:
        small = log1p(u)
        value = tl.maximum(z, 0.0) + small
        focus = power(p, tl.minimum(z, 0.0) - small, GAMMA_NEGATIVE)
        slope = focus * p
        if not DETACHED:
            slope += GAMMA_NEGATIVE * q * focus * value
        value *= focus
    else:
        kept = tl.maximum(p - CLIP, 0.0)
        rest = tl.minimum(q + CLIP, 1.0)
        # One logarithm serves both kinds of labels: log(1 + u) of candidates.
        small = log(tl.where(positive, 1.0 + u, rest))
        floored = tl.maximum(kept, 1e-8)
        log_kept = 0.0
        if GAMMA_NEGATIVE > 4 or GAMMA_NEGATIVE != GAMMA_NEGATIVE // 1:
            log_kept = log(floored)
        focus = tl.where(kept > 0, power(floored, log_kept, GAMMA_NEGATIVE), 0.0)
        slope = focus * reciprocal(rest)
        if not DETACHED:
            slope -= GAMMA_NEGATIVE * focus * reciprocal(floored) * small
        slope *= p * q
        value = -focus * small
    found = small - tl.minimum(z, 0.0)
    focus = power(q, -tl.maximum(z, 0.0) - small, GAMMA_POSITIVE)
    pull = q
    if not DETACHED:
        pull += GAMMA_POSITIVE * p * found
    return tl.where(positive, focus * found, value), tl.where(positive, focus * pull, slope)


@triton.jit
def share_of_set(z, p, q, log_p, shift, order, KIND: tl.constexpr):
    """What an entry adds to its set's sum: p, or its power, relative to exp(shift)."""
    if KIND == POWER:
        return exp(order * (log_p - shift))
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
    value, factor = shift + tl.log(safe), reciprocal(safe)
    if WEIGHTED:
        weight = tl.where(empty, 1.0, heaviest)
        value, factor = weight * (value - tl.log(weight)), weight * factor
    return tl.where(empty, 0.0, value), tl.where(empty, 0.0, factor)
