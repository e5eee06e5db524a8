"""Adversarial losses: any logits, types, weights and layouts, on every engine, against the definitions in float64."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import torch

import propml.losses
from propml.losses import CandidateBits
from propml.losses.kernels import c_library, c_rows
from storm.loss_definitions import DEFINITIONS, Problem
from storm.tally import Tally

REDUCING = ("propml", "bce", "asl", "power")
TYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float16, torch.float64)
MARK_TYPES = (torch.bool, torch.uint8, torch.int8, torch.int64, torch.float32, torch.float64, torch.bfloat16)
# What arithmetic in float32 and float64 loses of a sum, and rounding to the type of the gradient of that.
DIGITS = {torch.float64: 1e-12, torch.float32: 3e-6, torch.bfloat16: 3e-6, torch.float16: 3e-6}
ROUNDING = {torch.float64: 1e-10, torch.float32: 4e-5, torch.bfloat16: 1.01 * 2**-7, torch.float16: 2**-10}
LARGEST_LOGIT = {torch.float64: 1e300, torch.float32: 1e31, torch.bfloat16: 1e31, torch.float16: 6e4}
LARGEST = float(torch.finfo(torch.float32).max)
LAZY_SIGNS = True  # of x.conj().imag; compiled code of PyTorch 2.13 does not see them, whatever it computes
LABELS = (1, 2, 3, 7, 8, 9, 17, 40)


@dataclass
class Case:
    """One call of a loss, and the problem that it poses to its definition."""

    name: str
    logits: torch.Tensor
    candidates: Any
    options: dict[str, Any]
    problem: Problem
    example_weight: np.ndarray
    label_dim: int = -1
    told: list[str] = field(default_factory=list)


def storm(seconds: float, seed: int) -> list[Tally]:
    """Rows of every loss, then the same from several threads, in a forked process and, in the long form, compiled."""
    threads = torch.get_num_threads()
    tallies = {name: Tally(f"losses: rows, {name}") for name in DEFINITIONS}
    others = [Tally("losses: rows, four threads at once"), Tally("losses: rows, a forked process")]
    start, number, compiles = time.monotonic(), 0, seconds >= 60
    while time.monotonic() < start + (0.5 if compiles else 0.8) * seconds or number < 2 * len(DEFINITIONS):
        torch.set_num_threads(1 + number % 3)
        attempt(tallies, seed, number)
        number += 1
    torch.set_num_threads(2)
    in_threads(others[0], seed, time.monotonic() + 0.1 * seconds)
    in_a_fork(others[1], seed, 0.1 * seconds)
    if compiles:
        others.append(Tally("losses: rows, torch.compile"))
        compiled(others[-1], seed, start + seconds)
    torch.set_num_threads(threads)
    return [*tallies.values(), *others]


def attempt(tallies: dict[str, Tally], seed: int, number: int) -> None:
    """One trial: ``attempt({name: Tally(name) for name in DEFINITIONS}, seed, number)`` repeats it."""
    rng = np.random.default_rng((seed, number))
    case = make(rng, list(DEFINITIONS)[number % len(DEFINITIONS)])
    tally = tallies[case.name]
    with engine(case, rng):
        tally.tried += len(case.problem.z)
        try:
            wrong = trial(case, rng)
        except Exception as error:  # whatever it is, the storm goes on and tells
            wrong = f"{type(error).__name__}: {error}"
    if wrong:
        tally.fail(f"attempt(…, {seed}, {number}): {', '.join(case.told)}: {wrong}")


# --- a case --------------------------------------------------------------------------------------------------------


def make(rng: np.random.Generator, name: str) -> Case:
    """Random shapes, logits, sets, weights and layouts."""
    dtype = TYPES[rng.integers(len(TYPES))]
    lead = ((int(rng.integers(1, 500)),), (int(rng.integers(1, 20)), int(rng.integers(1, 20))), ())[
        rng.choice(3, p=(0.7, 0.25, 0.05))
    ]
    n, n_labels = int(np.prod(lead)), int(rng.choice(LABELS))
    heavy = bool(rng.random() < 0.4)
    states = sets(rng, n, n_labels)
    z = torch.from_numpy(far_and_near(rng, n, n_labels, tame=heavy or name == "rank"))
    z = z.clamp(-LARGEST_LOGIT[dtype], LARGEST_LOGIT[dtype]).to(dtype)
    weight = label_weights(rng, n_labels) if heavy else None
    lam = rng.choice([0.0, 0.1, 1.0, 7.5], size=n) if rng.random() < 0.3 else np.full(n, rng.choice([0.0, 0.3, 1.0]))
    order = np.full(n, rng.choice([0.0, 0.05, 0.5, 1.0, 2.0]))
    example = (
        rng.choice([0.0, 1e-3, 1.0, 1.0 if heavy else 1e3], size=n) if rng.random() < 0.3 and n > 1 else np.ones(n)
    )
    soft = rng.choice([0.01, 0.5, 1.0], size=states.shape) if name == "rank" and rng.random() < 0.5 else None
    case = Case(name, z, None, {}, None, example)  # type: ignore[arg-type]
    case.told += [name, str(dtype), f"{lead} × {n_labels}"]
    options = {"asl": asl_options, "unbiased": rates}.get(name, lambda _: {})(rng)
    lifted = np.float64 if dtype == torch.float64 else np.float32
    factor = np.ones(n) if name in ("unbiased",) else lam
    case.problem = Problem(
        z.double().numpy(), states, factor.astype(lifted).astype(float),
        np.ones(n_labels) if weight is None else weight.astype(lifted).astype(float), soft,
        order.astype(lifted).astype(float), options,
    )  # fmt: skip
    case.options = dict(options)
    give(case, rng, lead, weight, lam, order, lifted)
    return case


def far_and_near(rng: np.random.Generator, n: int, n_labels: int, tame: bool) -> np.ndarray:
    """Logits of one row are of one kind: near, far, at the edges of what exponentials hold, tied, or huge."""
    scale = rng.choice([0.1, 1.0, 5.0, 30.0, 90.0, 1e3, 1e4] + ([] if tame else [1e8, 1e30]), size=(n, 1))
    z = scale * rng.standard_normal((n, n_labels))
    z = np.where(rng.random((n, 1)) < 0.2, np.round(z / scale) * scale, z)  # ties
    z = np.where(rng.random((n, 1)) < 0.1, -np.abs(z), z)
    edges = rng.choice([-104.0, -88.0, -87.3, -80.0, -46.0, -16.0, 0.0, 16.6, 20.0, 80.0, 88.7], size=z.shape)
    return np.where(rng.random((n, 1)) < 0.1, edges, z)


def sets(rng: np.random.Generator, n: int, n_labels: int) -> np.ndarray:
    states = (rng.random((n, n_labels)) < rng.random((n, 1))).astype(np.int8)
    if rng.random() < 0.5:
        states[rng.random(states.shape) < 0.2] = -1
    fate = rng.random(n)
    states[fate < 0.05], states[(fate > 0.05) & (fate < 0.1)], states[fate > 0.97] = 0, 1, -1
    return states


def label_weights(rng: np.random.Generator, n_labels: int) -> np.ndarray:
    kind = rng.choice(["near 1", "with 0", "tiny", "huge", "both"])
    if kind == "near 1":
        return rng.random(n_labels)
    among = {"with 0": [0.0, 1.0], "tiny": [1e-30, 3e-30], "huge": [1e30, 2e30], "both": [0.0, 1e-30, 1.0, 1e30]}
    return rng.choice(among[kind], size=n_labels)


def asl_options(rng: np.random.Generator) -> dict[str, float]:
    # With a clip the slope of an exponent below 1 jumps there: no two roundings agree on it.
    clip = float(rng.choice([0.0, 0.05, 0.2]))
    gammas = [1.0, 2.0, 4.0] + ([0.0, 0.5] if clip == 0 else [])
    return {
        "gamma_positive": float(rng.choice([0.0, 0.5, 1.0, 2.0])),
        "gamma_negative": float(rng.choice(gammas)),
        "clip": clip,
    }


def rates(rng: np.random.Generator) -> dict[str, float]:
    return {"flip_rate": float(rng.choice([0.0, 0.2, 0.6])), "miss_rate": float(rng.choice([0.0, 0.1]))}


# --- how it is given -----------------------------------------------------------------------------------------------


def give(case: Case, rng: np.random.Generator, lead: tuple, weight: Any, lam: Any, order: Any, lifted: Any) -> None:
    """The arguments in layouts of all sorts, with the labels in any axis."""
    problem, n_labels = case.problem, case.problem.z.shape[1]
    case.label_dim = int(rng.integers(-len(lead) - 1, len(lead) + 1))
    case.options["label_dim"] = case.label_dim
    place = lambda entries: view(torch.as_tensor(entries).reshape(*lead, n_labels).movedim(-1, case.label_dim), rng)  # noqa: E731
    case.logits = place(case.logits)
    case.candidates = marks(case, rng, lead, place)
    if weight is not None:
        case.options["label_weight"] = view(torch.from_numpy(weight.astype(lifted)), rng)
    kind = rng.choice([np.float64, np.float32]) if lifted is np.float64 else np.float32
    per_row = lambda numbers: view(torch.from_numpy(numbers.astype(kind)).reshape(lead), rng)  # noqa: E731
    if case.name != "unbiased":
        case.options["lam"] = float(lam[0]) if len(set(lam)) == 1 and rng.random() < 0.8 else per_row(lam)
        problem.lam = lam.astype(kind).astype(float) if isinstance(case.options["lam"], torch.Tensor) else lam
    if case.name == "power":
        case.options["order"] = float(order[0]) if rng.random() < 0.7 else per_row(order)
        problem.order = order.astype(np.float32).astype(float) if lifted is np.float32 else order
        if isinstance(case.options["order"], torch.Tensor):
            problem.order = order.astype(kind).astype(float)
    if (case.example_weight != 1).any():
        case.options["example_weight"] = per_row(case.example_weight)
        case.example_weight = case.example_weight.astype(kind).astype(float)
    case.told.append("with " + ", ".join(case.options))


def marks(case: Case, rng: np.random.Generator, lead: tuple, place: Callable) -> Any:
    """The states as candidates of some type, or as bits, or partly as a mask."""
    problem = case.problem
    if problem.soft is not None:
        given = np.where(problem.states == 1, problem.soft, problem.states).astype(np.float32)
        problem.soft = given.astype(float)
        return place(given)
    states, known = problem.states, problem.states >= 0
    if rng.random() < 0.25:
        case.told.append("bits")
        bits = CandidateBits.from_matrix(torch.from_numpy(states).reshape(*lead, states.shape[1]))
        return CandidateBits(view(bits.bits, rng), bits.n_labels, None if bits.known is None else view(bits.known, rng))
    dtype = MARK_TYPES[rng.integers(len(MARK_TYPES))]
    case.told.append(f"candidates {dtype}")
    if dtype in (torch.bool, torch.uint8) or rng.random() < 0.2:
        if not known.all():
            case.options["mask"] = place(known)
        states = np.where(known, states, rng.integers(0, 2, states.shape))
    given = torch.from_numpy(states).to(dtype)
    if dtype.is_floating_point and rng.random() < 0.5:
        given = torch.where(given < 0, torch.nan, given)
    return place(given)


def view(values: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """The same numbers in other memory: between others, transposed, from the middle, expanded, with lazy signs."""
    kind = rng.integers(7)
    if kind == 1 and values.ndim:
        room = torch.full((*values.shape[:-1], 2 * values.shape[-1] + 3), 1, dtype=values.dtype)
        cut = room[..., 1 : 1 + 2 * values.shape[-1] : 2]
        return cut.copy_(values)
    if kind == 2 and values.ndim > 1:
        return values.movedim(0, -1).contiguous().movedim(-1, 0)
    if kind == 3 and values.ndim:
        room = torch.full((values.shape[0] + 2, *values.shape[1:]), 1, dtype=values.dtype)
        return room[1:-1].copy_(values)
    if kind == 4 and values.ndim and bool((values == values[:1]).all()):
        return values[:1].expand(values.shape)
    if kind == 5 and values.dtype in (torch.float32, torch.float64) and LAZY_SIGNS:
        return torch.complex(torch.zeros_like(values), -values).conj().imag
    if kind == 6 and values.ndim:
        return values.flip(0).contiguous().flip(0)
    return values.clone()


@contextmanager
def engine(case: Case, rng: np.random.Generator) -> Iterator[None]:
    """The engine that the machine has, or plain PyTorch, or the gradient in the backward pass."""
    kind = rng.choice(["usual", "plain", "later"], p=(0.6, 0.2, 0.2))
    case.told.append(str(kind))
    if kind == "plain":
        with mock.patch.object(c_library, "library", return_value=None):
            yield
    elif kind == "later":
        with mock.patch.object(c_rows, "gradient_at_once", return_value=False):
            yield
    else:
        yield


# --- the judgement -------------------------------------------------------------------------------------------------


def trial(case: Case, rng: np.random.Generator, function: Callable | None = None, slack: float = 1) -> str:
    """What is wrong with value and gradient; nothing, if all goes well."""
    function = function or getattr(propml.losses, f"{case.name}_loss")
    z = case.logits.detach().requires_grad_()
    options, dtype = dict(case.options), z.dtype
    reduction = str(rng.choice(["none", "sum", "mean"])) if case.name in REDUCING else "none"
    if reduction != "none":
        options["reduction"] = reduction
    case.told.append(reduction)
    value = function(z, case.candidates, **options)
    # With weights of 1e30 a factor of 1000 more is, times a logit, beyond float32.
    incoming = rng.choice([0.0, 1.0, -2.5, 1.0 if "label_weight" in options else 1e3], size=value.numel())
    upstream = torch.from_numpy(incoming).to(value.dtype).reshape(value.shape)
    (gradient,) = torch.autograd.grad(value, z, view(upstream, rng) if rng.random() < 0.7 else upstream)
    with np.errstate(all="ignore"):  # what a definition does not choose may be anything
        values, slopes, sizes, units = DEFINITIONS[case.name](case.problem)
        sizes = sizes + units.sum(1) / 10  # a term that should be 0 need not be 0 to the last digit
        values, sizes = values * case.example_weight, sizes * case.example_weight
        factor = case.example_weight * incoming / (len(values) if reduction == "mean" else 1)
        slopes, units = slopes * factor[:, None], units * np.abs(factor)[:, None]
    if reduction != "none":
        share = len(values) if reduction == "mean" else 1
        values, sizes = values.sum(keepdims=True) / share, sizes.sum(keepdims=True) / share
    digits = slack * DIGITS[dtype]
    actual = value.detach().double().numpy().ravel()
    told = differs("value", actual, values, digits * sizes + 1e-37, LARGEST / len(case.problem.z))
    # Labels last again, one row per example.
    found = gradient.double().movedim(case.label_dim, -1).reshape(slopes.shape).numpy()
    tiny = 6e-8 if dtype == torch.float16 else 1e-37
    bound = digits * units + ROUNDING[dtype] * np.abs(slopes) + tiny
    return told or differs("slope", found, slopes, bound, float(torch.finfo(dtype).max))


def differs(what: str, actual: np.ndarray, expected: np.ndarray, bound: np.ndarray, largest: float) -> str:
    """The first entry that is off; beyond what a type holds, infinity is right."""
    beyond = np.abs(expected) > 0.99 * largest
    with np.errstate(invalid="ignore"):
        wrong = ~(np.abs(actual - expected) <= bound) & ~(beyond & (np.abs(actual) > 0.9 * largest))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{int(wrong.sum())} {what}s off, first {place}: {actual[place]!r}, expected {expected[place]!r}"


# --- threads, a fork, torch.compile ----------------------------------------------------------------------------------


def in_threads(tally: Tally, seed: int, end: float) -> None:
    """Four threads, each with its own trials."""

    def worker(which: int) -> list[tuple[int, str]]:
        told: list[tuple[int, str]] = []
        while time.monotonic() < end or not told:
            told.append(plain_trial(seed, 10_000_000 * (which + 1) + len(told)))
        return told

    with ThreadPoolExecutor(4) as pool:
        for told in pool.map(worker, range(4)):
            for rows, wrong in told:
                tally.tried += rows
                if wrong:
                    tally.fail(wrong)


def plain_trial(seed: int, number: int) -> tuple[int, str]:
    """Rows and what is wrong with them, on the machine's own engine."""
    rng = np.random.default_rng((seed, number))
    case = make(rng, list(DEFINITIONS)[number % len(DEFINITIONS)])
    try:
        wrong = trial(case, rng)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
    return len(case.problem.z), wrong and f"plain_trial({seed}, {number}): {', '.join(case.told)}: {wrong}"


def in_a_fork(tally: Tally, seed: int, seconds: float) -> None:
    """A child of a process whose threads are running goes through the same, and comes back."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        end, number = time.monotonic() + seconds, 50_000_000
        torch.set_num_threads(1)  # PyTorch's own operations would wait for threads that are gone; ours must not
        with os.fdopen(writing, "w") as pipe, mock.patch.object(torch, "get_num_threads", return_value=2):
            while time.monotonic() < end or number < 50_000_016:
                rows, wrong = plain_trial(seed, number)
                pipe.write(f"{rows}\t{wrong[:400]!r}\n")
                number += 1
        os._exit(0)
    os.close(writing)
    done, status, waited_until = 0, 0, time.monotonic() + seconds + 60
    while not done and time.monotonic() < waited_until:
        done, status = os.waitpid(child, os.WNOHANG)
        time.sleep(0.02)
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        tally.fail(f"the forked process of seed {seed} never came back")
    elif status:
        tally.fail(f"the forked process of seed {seed} ended with {status}")
    with os.fdopen(reading) as pipe:
        for line in pipe:
            rows, _, wrong = line.rstrip("\n").partition("\t")
            tally.tried += int(rows)
            if wrong != "''":
                tally.fail(wrong)


def compiled(tally: Tally, seed: int, end: float) -> None:
    """One loss after the other by torch.compile, a few cases: compiling takes long. Its expm1 has fewer digits."""
    for number, name in enumerate(10 * list(DEFINITIONS)):
        if tally.tried and time.monotonic() > end:
            return
        rng = np.random.default_rng((seed, 90_000_000 + number))
        with mock.patch(f"{__name__}.LAZY_SIGNS", False):
            case = make(rng, name)
        torch._dynamo.reset()
        tally.tried += len(case.problem.z)
        function = torch.compile(getattr(propml.losses, f"{name}_loss"), fullgraph=True)
        try:
            with mock.patch(f"{__name__}.LAZY_SIGNS", False):
                wrong = trial(case, rng, function, slack=10)
        except Exception as error:
            wrong = f"{type(error).__name__}: {str(error)[:300]}"
        if wrong:
            tally.fail(f"compiled, case {number} of seed {seed}: {', '.join(case.told)}: {wrong}")
