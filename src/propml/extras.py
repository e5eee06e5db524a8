"""Packages beside this one: optional ones are imported where they are used and named when missing; versions of all."""

import importlib
import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterable
from contextlib import suppress
from types import ModuleType

EXTRAS: dict[str, tuple[str, ...]] = {
    "data": ("pandas", "polars", "pyarrow"),
    "formats": ("openpyxl",),
    "text": ("wordllama",),
    "report": ("matplotlib", "jinja2"),
    "vision": ("timm", "torchvision", "PIL"),
    "tune": ("optuna", "matplotlib"),
    "onnx": ("onnx", "onnxscript", "onnxruntime"),
    "cluster": ("ray",),
    "tensorboard": ("tensorboard",),
}


def require(module: str, extra: str) -> ModuleType:
    """Import a module, such as ``"matplotlib.pyplot"``, or say which of the :data:`EXTRAS` brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if importlib.util.find_spec(package) is not None:
            raise  # it is installed and broken: its own message is the useful one
        raise ImportError(f"{package} is needed for this; install it with: pip install 'propml[{extra}]'") from error


def installed(extra: str) -> bool:
    """Whether every package of an extra can be found (none of them is imported)."""
    return all(importlib.util.find_spec(package) is not None for package in EXTRAS[extra])


def versions(
    packages: Iterable[str] = ("propml", "python", "numpy", "scipy", "scikit-learn", "torch"),
) -> dict[str, str]:
    """The versions of those packages that are installed, by default of what every result depends on.

    >>> list(versions(["python", "no-such-package"]))
    ['python']
    """
    from propml import __version__

    ours, told = {"propml": __version__, "python": platform.python_version()}, {}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            told[package] = ours.get(package) or importlib.metadata.version(package)
    return told
