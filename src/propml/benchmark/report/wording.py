"""How names and numbers are written, once for all formats: two decimals, signed differences, lists in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan

from propml.benchmark.noise_levels import noise_text
from propml.benchmark.results import Noise, Setting
from propml.benchmark.titles import dataset_title, noise_unit

__all__ = [
    "counted",
    "listed",
    "memory",
    "number",
    "published_method",
    "seconds",
    "settings_text",
    "signed",
]

# A method whose λ was chosen on test labels, as the paper's was.
ORACLE_SUFFIX = " (oracle)"
MINUS = "−"


def published_method(method: str) -> str:
    """The name under which the paper prints a method of ours.

    >>> published_method("ProPML (oracle)")
    'ProPML'
    """
    return method.removesuffix(ORACLE_SUFFIX)


def number(value: float) -> str:
    """
    >>> number(63.845), number(float("nan"))
    ('63.84', '–')
    """
    return "–" if isnan(value) else f"{value:.2f}"


def signed(value: float) -> str:
    """
    >>> signed(0.1), signed(-3), signed(0.001), signed(float("nan"))
    ('+0.10', '−3.00', '0.00', '–')
    """
    if isnan(value):
        return "–"
    text = f"{abs(value):.2f}"
    return text if float(text) == 0 else f"{'+' if value > 0 else MINUS}{text}"


def seconds(value: float) -> str:
    """A duration with two digits that matter.

    >>> seconds(0.0421), seconds(7.31), seconds(95), seconds(7385)
    ('42 ms', '7.3 s', '1 min 35 s', '2 h 3 min')
    """
    if value < 1:
        return f"{1000 * value:.2g} ms" if value < 0.1 else f"{1000 * value:.0f} ms"
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    hours, minutes = divmod(round(value / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def memory(n_bytes: float) -> str:
    """
    >>> memory(5e6), memory(3.2 * 2**30)
    ('5 MiB', '3.2 GiB')
    """
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"


def listed(items: Sequence[str], limit: int = 6) -> str:
    """
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], limit=2)
    ('a, b and c', 'a, b and 2 more')
    """
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def settings_text(
    settings: Iterable[Setting], among: Iterable[Setting] = (), limit: int = 6, corruption: str | None = None
) -> str:
    """Settings in a sentence, the levels of one dataset together; no levels where all of those in ``among`` are meant.

    >>> settings_text([Setting("birds", 50), Setting("birds", 100), Setting("yeastcc", None)])
    'Birds at 50, 100 % and YeastCC'
    >>> settings_text([Setting("birds", 50)], among=[Setting("birds", 50), Setting("scene", 50)])
    'Birds'
    """
    by_dataset: dict[str, list[Noise]] = {}
    for setting in settings:
        by_dataset.setdefault(setting.dataset, []).append(setting.noise)
    known = set(among)
    texts = []
    for dataset, noises in by_dataset.items():
        whole = {setting.noise for setting in known if setting.dataset == dataset} == set(noises)
        levels = [] if whole else [noise for noise in noises if noise is not None]
        # The unit once, after the last level.
        numbers = [level for level in levels if not isinstance(level, str)]
        unit = noise_unit(numbers, corruption) if numbers else ""
        at = f" at {', '.join(map(noise_text, levels))}{unit}" if levels else ""
        texts.append(f"{dataset_title(dataset)}{at}")
    return listed(texts, limit)


def counted(n: int, one: str, many: str = "") -> str:
    """
    >>> counted(1, "cell"), counted(3, "dataset"), counted(2, "is", "are")
    ('1 cell', '3 datasets', '2 are')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"
