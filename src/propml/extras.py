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
    """Import ``module``, or say which extra of propml brings it.

    Parameters
    ----------
    module : str
        Dotted name, such as ``"matplotlib.pyplot"``.
    extra : str
        The extra that installs it, a key of :data:`EXTRAS`.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        if importlib.util.find_spec(package) is not None:
            raise  # it is installed and broken: its own message is the useful one
        raise ImportError(
            f"{package} is needed for this and is not installed; install it with: pip install 'propml[{extra}]'"
        ) from error


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

    told = {}
    for package in packages:
        with suppress(importlib.metadata.PackageNotFoundError):
            ours = {"propml": __version__, "python": platform.python_version()}
            told[package] = ours.get(package) or importlib.metadata.version(package)
    return told
