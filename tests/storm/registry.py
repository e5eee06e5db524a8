"""The storms by name; a new one is a module ``NAME_storm.py`` and nothing else."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from storm.tally import Tally

ENDING = "_storm"

STORMS: dict[str, Callable[[float, int], list[Tally]]] = {
    path.stem.removesuffix(ENDING): importlib.import_module(f"storm.{path.stem}").storm
    for path in sorted(Path(__file__).parent.glob(f"*{ENDING}.py"))
}
