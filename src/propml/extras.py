"""Optional dependencies: imported where they are used, and named when they are missing."""

import importlib
import importlib.util
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
