"""How datasets, noise levels and settings are written, once for progress lines, tables, reports and figures.

What a noise level counts depends on the corruption: percent of false labels, a rate, a number of labels. Whoever knows
the corruption names it; ``None`` stands for results that do not say.
"""

from __future__ import annotations

from collections.abc import Iterable

from propml.benchmark.noise_levels import LEVELS, noise_text
from propml.benchmark.results import Noise, Setting
from propml.datasets import REGISTRY

__all__ = ["dataset_title", "level_title", "noise_title", "noise_unit", "panel_title", "setting_name", "setting_title"]


def dataset_title(name: str) -> str:
    """As the paper writes it, or the name itself for a dataset of the user's own.

    >>> dataset_title("yeastbp"), dataset_title("my-data")
    ('YeastBP', 'my-data')
    """
    entry = REGISTRY.get(name)
    return entry.title if entry else name


def noise_unit(levels: Iterable[float], corruption: str | None = None) -> str:
    """What stands after each of the levels of one corruption.

    Of an unknown corruption, levels above 1 are percent: they are no rates.

    >>> noise_unit([0.5, 50]), noise_unit([0.1, 1.0]), noise_unit([1, 3], "count"), noise_unit([0.5], "svm")
    (' %', '', '', ' %')
    """
    if corruption is not None:
        return LEVELS[corruption].unit
    return " %" if max(levels) > 1 else ""


def noise_title(noise: Noise, corruption: str | None = None) -> str:
    """A level with its unit, or the kind and its level as they stand; nothing where the candidates are real.

    >>> noise_title(50), noise_title(0.1), noise_title(3, "count"), noise_title("svm 50"), noise_title(None)
    ('50 %', '0.1', '3', 'svm 50', '')
    """
    if noise is None or isinstance(noise, str):
        return noise_text(noise)
    return f"{noise_text(noise)}{noise_unit([noise], corruption)}"


def setting_name(dataset: str, noise: Noise, corruption: str | None = None) -> str:
    """A dataset by the name that commands take, and its level.

    >>> setting_name("birds", 50), setting_name("voc2007", 0.1), setting_name("yeastcc", None)
    ('birds 50 %', 'voc2007 0.1', 'yeastcc')
    """
    return f"{dataset} {noise_title(noise, corruption)}".rstrip()


def setting_title(setting: Setting, corruption: str | None = None) -> str:
    """A setting in a sentence.

    >>> setting_title(Setting("birds", 50))
    'Birds 50 %'
    """
    return setting_name(dataset_title(setting.dataset), setting.noise, corruption)


def level_title(noise: Noise, corruption: str | None = None) -> str:
    """A level as the legends of the paper have it.

    >>> level_title(50), level_title(0.1), level_title(None)
    ('q = 50 %', 'q = 0.1', '')
    """
    if noise is None or isinstance(noise, str):
        return noise_text(noise)
    return f"q = {noise_title(noise, corruption)}"


def panel_title(setting: Setting, corruption: str | None = None) -> str:
    """A setting over or beside what is drawn of it.

    >>> panel_title(Setting("birds", 50)), panel_title(Setting("yeastcc", None))
    ('Birds, q = 50 %', 'YeastCC')
    """
    level = level_title(setting.noise, corruption)
    return f"{dataset_title(setting.dataset)}, {level}" if level else dataset_title(setting.dataset)
