"""How names and numbers are written, once for progress lines, tables, reports and figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from math import isnan

from propml.datasets import REGISTRY
from propml.noise import KINDS, Noise, Setting
from propml.paper.published import listed

MINUS = "−"


def dataset_title(name: str) -> str:
    """As the paper writes it, or the name itself for a dataset of the user's own."""
    return REGISTRY[name].title if name in REGISTRY else name


def noise_title(noise: Noise | None) -> str:
    """A level with its unit; nothing where the candidates are real."""
    return noise.title if noise else ""


def setting_name(dataset: str, noise: Noise | None) -> str:
    """A dataset by the name that commands take, or by its title, and its level."""
    return f"{dataset} {noise_title(noise)}".rstrip()


def level_title(noise: Noise | None) -> str:
    """A level as the legends of the paper have it."""
    return noise_title(noise) if noise is None or noise.named else f"q = {noise.title}"


def panel_title(setting: Setting) -> str:
    """A setting over or beside what is drawn of it."""
    return ", ".join(filter(None, [dataset_title(setting.dataset), level_title(setting.noise)]))


def settings_text(settings: Iterable[Setting], among: Iterable[Setting] = (), limit: int = 6) -> str:
    """Settings in a sentence, the levels of a dataset together; no levels where all of those in ``among`` are meant."""
    by_dataset: dict[str, list[Noise | None]] = {}
    for setting in settings:
        by_dataset.setdefault(setting.dataset, []).append(setting.noise)
    known = set(among)
    texts = []
    for dataset, noises in by_dataset.items():
        whole = {setting.noise for setting in known if setting.dataset == dataset} == set(noises)
        levels = [] if whole else [noise for noise in noises if noise is not None]
        # The unit once, after the last level.
        unit = " %" if any(KINDS[level.kind].percent and not level.named for level in levels) else ""
        at = f" at {', '.join(map(str, levels))}{unit}" if levels else ""
        texts.append(f"{dataset_title(dataset)}{at}")
    return listed(texts, limit)


def number(value: float) -> str:
    return "–" if isnan(value) else f"{value:.2f}"


def signed(value: float) -> str:
    text = number(abs(value))
    return text if text in ("–", "0.00") else f"{'+' if value > 0 else MINUS}{text}"


def seconds(value: float) -> str:
    """A duration with two digits that matter."""
    if value < 1:
        return f"{1000 * value:.2g} ms" if value < 0.1 else f"{1000 * value:.0f} ms"
    if value < 59.5:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    small, large = ("s", "min") if round(value) < 3600 else ("min", "h")
    whole, rest = divmod(round(value if large == "min" else value / 60), 60)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def memory(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"


def counted(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def run_command(experiment: str, *narrowed: str) -> str:
    """What to type for all numbers of an experiment, given by name or by its file."""
    # Into a folder of its own: where the results are already, nothing would be computed.
    return shlex.join(["propml", "benchmark", "run", experiment, *narrowed, "--out", "reproduced"])


def cell_command(experiment: str, setting: Setting, method: str) -> str:
    """What to type for one number of a table: all of its folds and seeds."""
    noise = [] if setting.noise is None else ["--noise", str(setting.noise)]
    return run_command(experiment, "--datasets", setting.dataset, *noise, "--methods", method)
