"""How names and numbers are written, once for progress lines, tables, reports and figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from math import isnan

from propml.datasets import REGISTRY
from propml.noise import KINDS, Noise, Setting
from propml.paper.published import listed

MINUS = "−"
# A folder of its own: where the results are already, nothing would be computed.
REPRODUCED = "reproduced"


def dataset_title(name: str) -> str:
    """As the paper writes it, or the name itself for a dataset of the user's own.

    >>> dataset_title("yeastbp"), dataset_title("my-data")
    ('YeastBP', 'my-data')
    """
    entry = REGISTRY.get(name)
    return entry.title if entry else name


def noise_title(noise: Noise | None) -> str:
    """A level with its unit; nothing where the candidates are real."""
    return noise.title if noise else ""


def setting_name(dataset: str, noise: Noise | None) -> str:
    """A dataset by the name that commands take, or by its title, and its level.

    >>> setting_name("birds", Noise("svm", 0.5)), setting_name("yeastcc", None)
    ('birds 50 %', 'yeastcc')
    """
    return f"{dataset} {noise_title(noise)}".rstrip()


def level_title(noise: Noise | None) -> str:
    """A level as the legends of the paper have it.

    >>> level_title(Noise("svm", 0.5)), level_title(Noise("flips", 0.1, named=True)), level_title(None)
    ('q = 50 %', 'flips 0.1', '')
    """
    return noise_title(noise) if noise is None or noise.named else f"q = {noise.title}"


def panel_title(setting: Setting) -> str:
    """A setting over or beside what is drawn of it.

    >>> panel_title(Setting("birds", Noise("svm", 0.5))), panel_title(Setting("yeastcc", None))
    ('Birds, q = 50 %', 'YeastCC')
    """
    return ", ".join(filter(None, [dataset_title(setting.dataset), level_title(setting.noise)]))


def settings_text(settings: Iterable[Setting], among: Iterable[Setting] = (), limit: int = 6) -> str:
    """Settings in a sentence, the levels of one dataset together; no levels where all of those in ``among`` are meant.

    >>> birds = [Setting("birds", Noise("svm", level)) for level in (0.5, 1.0)]
    >>> settings_text([*birds, Setting("yeastcc", None)]), settings_text(birds, among=birds)
    ('Birds at 50, 100 % and YeastCC', 'Birds')
    """
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


def counted(n: int, one: str, many: str = "") -> str:
    """
    >>> counted(1, "cell"), counted(3, "dataset"), counted(2, "is", "are")
    ('1 cell', '3 datasets', '2 are')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def run_command(experiment: str, *narrowed: str) -> str:
    """What to type for all numbers of an experiment, given by name or by its file.

    >>> run_command("artificial")
    'propml benchmark run artificial --out reproduced'
    """
    return shlex.join(["propml", "benchmark", "run", experiment, *narrowed, "--out", REPRODUCED])


def cell_command(experiment: str, setting: Setting, method: str) -> str:
    """What to type for one number of a table: all of its folds and seeds.

    >>> cell_command("artificial", Setting("birds", Noise("svm", 0.5)), "Kernel ridge")
    "propml benchmark run artificial --datasets birds --noise 50 --methods 'Kernel ridge' --out reproduced"
    """
    noise = [] if setting.noise is None else ["--noise", str(setting.noise)]
    return run_command(experiment, "--datasets", setting.dataset, *noise, "--methods", method)
