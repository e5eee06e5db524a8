"""Search spaces, all in one place: for every method what may be searched, on which scale, under which condition.

A space is a mapping from argument names to dimensions. A dimension with one value is a setting that stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from propml.benchmark.experiment_file import GIVEN, frozen, is_number
from propml.messages import did_you_mean
from propml.methods.registry import method_class
from propml.neural.criteria import balanced_lam
from propml.targets import Candidates

if TYPE_CHECKING:
    import optuna


@dataclass(frozen=True)
class When:
    """A dimension is only there while another one has one of these values, or (``negated``) none of them."""

    name: str
    values: tuple[Any, ...]
    negated: bool = False


@dataclass(frozen=True)
class Range:
    """A number between ``low`` and ``high``, both included; ``log`` searches its logarithm."""

    low: float
    high: float
    log: bool = False
    integer: bool = False
    when: When | None = None


@dataclass(frozen=True)
class OneOf:
    """One of a few values: texts, numbers, truth values, or tuples of them such as the widths of layers."""

    values: tuple[Any, ...]
    when: When | None = None


Dimension: TypeAlias = Range | OneOf
Space: TypeAlias = dict[str, Dimension]
# By argument: a dimension; a pair (low, high), on the scale that was declared; a list of values; or one value, fixed.
Changes: TypeAlias = Mapping[str, Any]

POSITIVE = Range(1e-3, 1e3, log=True)
NETWORKS = ((256, 256), (512,), ())

SPACES: dict[str, Space] = {
    "propml": {
        "loss": OneOf(("power",)),
        "order": Range(0.0, 1.0, when=When("loss", ("power",))),
        "lam": Range(0.002, 1.0, log=True),  # reaches further down where labels are many, see space_of
        "hidden": OneOf(NETWORKS),
        "dropout": OneOf((0.25, 0.5), when=When("hidden", ((),), negated=True)),
        "input_dropout": OneOf((0.0, 0.3)),
        "learning_rate": Range(1e-4, 1e-2, log=True),
        "weight_decay": Range(1e-5, 1e-1, log=True),
        # What was judged is what is run: one network, without a forest or noise rates that no trial had.
        "forest": OneOf((False,)),
        "noise": OneOf((False,)),
    },
    "ridge": {"alpha": Range(1e-3, 1e4, log=True)},
    "kernel-ridge": {"alpha": Range(1e-3, 1e2, log=True), "gamma": Range(1e-4, 1.0, log=True)},
    "cplst": {"code_length": Range(0.2, 1.0), "lam": Range(1e-3, 1e4, log=True)},
    "ml-knn": {"k": Range(3, 50, log=True, integer=True), "s": Range(0.1, 10.0, log=True)},
    "pml-ni": {"lam": Range(0.1, 1e4, log=True), "beta": POSITIVE, "gamma": POSITIVE},
    "par-map": {"k": Range(3, 50, log=True, integer=True), "alpha": Range(0.5, 0.99), "threshold": Range(0.5, 0.95)},
    "par-vls": {"k": Range(3, 50, log=True, integer=True), "alpha": Range(0.5, 0.99), "threshold": Range(0.5, 0.95)},
    "fpml": {"lam1": POSITIVE, "lam2": POSITIVE, "lam3": POSITIVE},
    "pml-lrs": {"eta": POSITIVE, "beta": POSITIVE, "gamma": POSITIVE},
    "pml-lc": {"C1": POSITIVE, "C3": POSITIVE},
    "pml-fp": {"C1": POSITIVE, "C2": POSITIVE},
}

# The ranges of the paper; λ is there for the losses that have one.
VISION: Space = {
    "loss": OneOf(("propml",)),
    "learning_rate": Range(2e-5, 2e-4, log=True),
    "weight_decay": Range(1e-7, 5e-4, log=True),
    "lam": Range(0.02, 1.0, log=True, when=When("loss", ("propml", "power", "propall"))),
}


def space_of(method: str, candidates: Candidates | None = None) -> Space:
    """The space of a method; with ``candidates`` the range of λ reaches as far down as their labels ask for."""
    method_class(method)  # an unknown one is told here
    space = dict(SPACES[method])
    lam = space.get("lam")
    if method == "propml" and candidates is not None and isinstance(lam, Range):
        # With many labels the best λ is far below the paper's 0.02.
        space["lam"] = replace(lam, low=min(lam.low, 0.1 * balanced_lam(candidates)))
    return space


def altered(space: Space, changes: Changes, known: Sequence[str], what: str) -> Space:
    """The space with other dimensions, checked; ``known`` are the arguments that ``what`` has."""
    result = dict(space)
    for name, change in changes.items():
        if name in GIVEN:
            raise ValueError(f"{name} is given by the search (seed, verbose); leave it out of the space")
        if name not in known:
            raise ValueError(f"{name!r} is not an argument of {what}; {did_you_mean(name, known)}")
        result[name] = _dimension(name, change, space.get(name))
    # What has a condition comes after what it depends on.
    return dict(sorted(result.items(), key=lambda item: item[1].when is not None))


def _dimension(name: str, change: Any, declared: Dimension | None) -> Dimension:
    """What a change makes of a declared dimension, checked."""
    when = None if declared is None else declared.when
    ends = change if isinstance(change, tuple) and all(isinstance(end, int | float) for end in change) else ()
    dimension: Dimension
    if isinstance(change, Range | OneOf):
        dimension = change if change.when is not None else replace(change, when=when)
    elif isinstance(change, list):
        dimension = OneOf(tuple(frozen(value) for value in change), when)
    elif len(ends) == 2 and not isinstance(declared, OneOf):
        scale = declared or Range(0, 0, integer=all(isinstance(end, int) for end in ends))
        dimension = replace(scale, low=ends[0], high=ends[1])
    else:
        dimension = OneOf((frozen(change),))  # what the user fixes is there whatever the others are
    if isinstance(dimension, OneOf):
        if len({stored(value) for value in dimension.values}) != max(1, len(dimension.values)):
            raise ValueError(f"{name} is one of {list(dimension.values)}; give at least one value, and none twice")
        return dimension
    low, high = dimension.low, dimension.high
    fits = is_number(low) and is_number(high) and low < high and (low > 0 or not dimension.log)
    if not fits or (dimension.integer and not (float(low).is_integer() and float(high).is_integer())):
        raise ValueError(
            f"{name} goes from {low!r} to {high!r}; give two finite numbers, the smaller first, above 0 on a "
            f"logarithmic scale and whole where {name} is (or one value, to fix it)"
        )
    return dimension


def suggest(trial: optuna.Trial, space: Space) -> dict[str, Any]:
    """A configuration of a trial: values for all dimensions whose conditions hold."""

    def pick(name: str, dimension: Dimension) -> Any:
        if isinstance(dimension, OneOf):
            return trial.suggest_categorical(name, [stored(value) for value in dimension.values])
        if dimension.integer:
            return trial.suggest_int(name, int(dimension.low), int(dimension.high), log=dimension.log)
        return trial.suggest_float(name, dimension.low, dimension.high, log=dimension.log)

    return _configuration(space, pick)


def restored(params: Mapping[str, Any], space: Space) -> dict[str, Any]:
    """A configuration from what a study keeps of it, perhaps before all of it was suggested."""
    return _configuration(space, lambda name, _: params.get(name, ...))


def _configuration(space: Space, pick: Callable[[str, Dimension], Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    for name, dimension in space.items():
        when = dimension.when
        if when and not (when.name in chosen and (chosen[when.name] in when.values) != when.negated):
            continue
        values = {stored(value): value for value in dimension.values} if isinstance(dimension, OneOf) else {}
        if len(values) == 1:  # nothing to search
            chosen[name] = values.popitem()[1]
        elif (value := pick(name, dimension)) is not ...:
            chosen[name] = values.get(value, value)
    return chosen


def stored(value: Any) -> Any:
    """As a database keeps it: plain values as they are, tuples as text."""
    return json.dumps(value) if isinstance(value, tuple) else value


def kinds(space: Space) -> dict[str, str]:
    """What a study cannot change once it has trials: the choices and the scales of its dimensions; ends may move.

    >>> kinds({"lam": Range(0.1, 1.0, log=True), "hidden": OneOf(((64,), ()))})
    {'space of lam': 'numbers, log scale', 'space of hidden': '[[64], []]'}
    """
    return {
        f"space of {name}": json.dumps(each.values)
        if isinstance(each, OneOf)
        else ("whole " if each.integer else "") + "numbers" + (", log scale" if each.log else "")
        for name, each in space.items()
    }


def parse_dimension(text: str) -> tuple[str, Any]:
    """What ``--param`` says: ``lam=0.01..1``, ``lam=log:0.01..1``, ``hidden=[256,256]|[512]``, ``loss=propml``.

    >>> parse_dimension("hidden=[64]|[]"), parse_dimension("lam=0.01..1"), parse_dimension("k=5")
    (('hidden', [(64,), ()]), ('lam', (0.01, 1)), ('k', 5))
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise ValueError(f"{text!r} is no parameter; write NAME=LOW..HIGH, NAME=A|B|C or NAME=VALUE")
    low, dots, high = value.removeprefix("log:").partition("..")
    if dots:
        ends = (_value(name, low), _value(name, high))
        if not all(map(is_number, ends)):
            raise ValueError(f"{text!r} has no two numbers around ..; write NAME=LOW..HIGH")
        return name, Range(*ends, log=True) if value.startswith("log:") else ends
    if "|" in value:
        return name, [_value(name, part) for part in value.split("|")]
    return name, _value(name, value)


def _value(name: str, text: str) -> Any:
    text = text.strip()
    try:
        return frozen(json.loads(text))
    except ValueError:
        if text[:1] in ("[", "{", '"'):
            raise ValueError(f"{name} is {text!r}; write a list such as [256,256], a number or a word") from None
        return text
