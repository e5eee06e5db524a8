"""The pictures of a search as SVG text: history, importance, parallel coordinates. No library, no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from propml.tuning.importance import Importance, position
from propml.tuning.result import TrialRecord
from propml.tuning.spaces import Choice, Dimension, Number, Space

__all__ = ["coordinates_chart", "history_chart", "importance_chart", "label_of"]

WIDTH = 720
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 16, 44


def history_chart(trials: Sequence[TrialRecord]) -> str:
    """Every trial at its last value, and the best of those with the whole budget so far."""
    judged = [each for each in trials if math.isfinite(each.value)]
    height = 320
    low, high = _range([each.value for each in judged])
    last = max(each.number for each in trials)

    def x(number: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (number + 0.5) / (last + 1)

    def y(value: float) -> float:
        return TOP + (height - TOP - BOTTOM) * (high - value) / (high - low)

    parts = [_frame(height)]
    for tick in _ticks(low, high):
        parts.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(_text(LEFT - 8, y(tick) + 4, f"{tick:.3g}", "end"))
    for tick in sorted({round(last * share / 4) for share in range(5)}):
        parts.append(_text(x(tick), height - BOTTOM + 20, str(tick), "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, height - 6, "trial", "middle"))
    best = -math.inf
    steps: list[tuple[float, float]] = []
    for each in judged:
        if each.state == "complete" and each.value > best:
            if steps:
                steps.append((x(each.number), y(best)))
            best = each.value
            steps.append((x(each.number), y(best)))
    if steps:
        steps.append((x(last), y(best)))
        parts.append(f'<polyline class="best-line" points="{_points(steps)}"/>')
    for each in judged:
        title = f"trial {each.number}: {each.value:.4f} after {each.epochs} epochs, {each.state}"
        parts.append(
            f'<circle class="dot {each.state}" data-trial="{each.number}" cx="{x(each.number):.1f}" '
            f'cy="{y(each.value):.1f}" r="4"><title>{title}</title></circle>'
        )
    for each in trials:
        if not math.isfinite(each.value):
            at, foot = x(each.number), height - BOTTOM - 6
            parts.append(
                f'<path class="dot failed" data-trial="{each.number}" d="M{at - 4:.1f} {foot - 4}l8 8m0 -8l-8 8">'
                f"<title>trial {each.number} failed: {escape(each.why)}</title></path>"
            )
    return _svg(height, "History: the value of every trial", parts)


def importance_chart(importance: Importance) -> str:
    """One bar per argument."""
    row, left = 30, 150
    height = TOP + row * len(importance.shares) + 8
    most = max(importance.shares.values()) or 1.0
    parts = []
    for place, (name, share) in enumerate(importance.shares.items()):
        top = TOP + row * place
        length = (WIDTH - left - 80) * share / most
        parts.append(_text(left - 10, top + 16, escape(name), "end"))
        parts.append(f'<rect class="bar" x="{left}" y="{top + 3}" width="{max(length, 1):.1f}" height="18" rx="2"/>')
        parts.append(_text(left + length + 8, top + 16, f"{100 * share:.0f} %", "start"))
    return _svg(height, "Importance of the arguments", parts)


def coordinates_chart(trials: Sequence[TrialRecord], space: Space, names: Sequence[str]) -> str:
    """One line per trial through its arguments to its value; the better, the stronger its colour."""
    judged = sorted((each for each in trials if math.isfinite(each.value)), key=lambda each: (each.epochs, each.value))
    axes = [*names, "value"]
    width, height = max(WIDTH, 110 * len(axes) + 80), 360
    top, foot = 44, height - 40
    low, high = _range([each.value for each in judged])

    def x(place: int) -> float:
        return 70 + (width - 140) * place / max(1, len(axes) - 1)

    parts = []
    for place, each in enumerate(judged):
        # A trial that lacks an argument leaves a gap: its line is in pieces.
        pieces: list[list[tuple[float, float]]] = [[]]
        for axis, name in enumerate(axes):
            at = (each.value - low) / (high - low) if name == "value" else position(space[name], each.params.get(name))
            if at < 0:
                pieces.append([])
            else:
                pieces[-1].append((x(axis), foot - (foot - top) * at))
        strength = 0.12 + 0.88 * (place + 1) / len(judged)
        lines = "".join(f'<polyline points="{_points(piece)}"/>' for piece in pieces if len(piece) > 1)
        told = ", ".join(f"{name} {label_of(value)}" for name, value in each.params.items())
        title = escape(f"trial {each.number}: {each.value:.4f}, {each.epochs} epochs; {told}")
        parts.append(
            f'<g class="run {each.state}{" winner" if place == len(judged) - 1 else ""}" data-trial="{each.number}" '
            f'style="opacity:{strength:.2f}">'
            f"<title>{title}</title>{lines}</g>"
        )
    for axis, name in enumerate(axes):
        parts.append(_line(x(axis), top, x(axis), foot, "axis"))
        parts.append(_text(x(axis), 18, escape(name), "middle"))
        for at, label in [(0.0, f"{low:.3g}"), (1.0, f"{high:.3g}")] if name == "value" else _labels(space[name]):
            parts.append(_text(x(axis) + 5, foot - (foot - top) * at + 4, escape(label), "start", "tick"))
    return _svg(height, "Parallel coordinates of all trials", parts, width)


def _labels(dimension: Dimension) -> list[tuple[float, str]]:
    if isinstance(dimension, Choice):
        return [(position(dimension, value), label_of(value)) for value in dimension.values]
    assert isinstance(dimension, Number)
    return [(0.0, label_of(dimension.low)), (1.0, label_of(dimension.high))]


def label_of(value: Any) -> str:
    """A value in few signs.

    >>> label_of((256, 256)), label_of(()), label_of(0.00012345), label_of("power")
    ('256 × 256', 'linear', '0.000123', 'power')
    """
    if isinstance(value, tuple):
        return " × ".join(map(str, value)) or "linear"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    step = 10 ** math.floor(math.log10((high - low) / 3))
    step = next(step * factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= 6)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _points(pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{f" class={kind!r}" if kind else ""}>{text}</text>'


def _frame(height: int) -> str:
    return _line(LEFT, height - BOTTOM, WIDTH - RIGHT, height - BOTTOM, "axis")


def _svg(height: int, title: str, parts: Sequence[str], width: int = WIDTH) -> str:
    size = f'viewBox="0 0 {width} {height}" width="{width}"'
    return f'<svg {size} role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
