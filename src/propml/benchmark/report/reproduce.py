"""The commands that make numbers again."""

from __future__ import annotations

import shlex

from propml.benchmark.noise_levels import noise_text
from propml.benchmark.results import Setting

# A folder of its own: where the results are already, nothing would be computed.
FOLDER = "reproduced"


def run_command(experiment: str) -> str:
    """What to type for all numbers of an experiment, given by name or by its file.

    >>> run_command("artificial")
    'propml benchmark run artificial --out reproduced'
    """
    return shlex.join(["propml", "benchmark", "run", experiment, "--out", FOLDER])


def cell_command(experiment: str, setting: Setting, method: str) -> str:
    """What to type for one number of a table: all of its folds and seeds.

    >>> cell_command("artificial", Setting("birds", 50), "Kernel ridge")
    "propml benchmark run artificial --datasets birds --noise 50 --methods 'Kernel ridge' --out reproduced"
    """
    noise = [] if setting.noise is None else ["--noise", noise_text(setting.noise)]
    words = ["propml", "benchmark", "run", experiment, "--datasets", setting.dataset, *noise, "--methods", method]
    return shlex.join([*words, "--out", FOLDER])
