"""Devices and cores that can be used here, and the place to keep what took long to make on them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def choose_device(name: str | torch.device = "auto") -> torch.device:
    """The device of that name, if it can be used here; ``"auto"`` is a GPU where there is one, else the CPU."""
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=name).item()
    except (RuntimeError, AssertionError) as error:  # torch built without the device asserts that it is there
        raise ValueError(f"device {name} cannot be used here; choose auto, cpu or an available GPU") from error
    return torch.device(name)


def runs_on_gpu(name: str | torch.device) -> bool:
    """Whether what is given that device works on a GPU here."""
    if name == "auto":
        return choose_device().type == "cuda"
    return str(name).startswith("cuda")


def usable_cores() -> int:
    """Cores that this process may run on, of which a cluster or a container gives only some."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_dir() -> Path:
    """The user's cache of this package: ``$XDG_CACHE_HOME/propml`` or the platform's usual place; it is not created.

    By hand, since ``platformdirs`` would be one more dependency for these lines.
    """
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        return Path(chosen) / "propml"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "propml" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "propml"
    return Path.home() / ".cache" / "propml"
