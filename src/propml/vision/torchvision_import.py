"""Importing torchvision and timm, also where torchvision was built for another kind of machine than torch.

A torchvision built for CUDA beside a torch built for the CPU cannot load its own operators, and its import ends with
``operator torchvision::nms does not exist``, although nothing that we need calls them. Declaring the two operators that
the import looks for is enough: transforms and models then work, ``ops.nms`` and ``io.read_image`` do not.
"""

from __future__ import annotations

import importlib
from types import ModuleType

import torch

from propml.extras import require

__all__ = ["import_vision"]

_SYMPTOM = "operator torchvision::nms does not exist"
_DECLARED: list[torch.library.Library] = []  # a declaration lasts as long as its library is alive


def import_vision(module: str = "torchvision") -> ModuleType:
    """Import torchvision, timm or a module inside one of them, whatever torchvision was built for.

    Parameters
    ----------
    module : str
        Dotted name, such as ``"timm"`` or ``"torchvision.transforms.v2"``.

    Examples
    --------
    >>> import_vision("torchvision.transforms.v2").RandAugment.__name__
    'RandAugment'
    """
    try:
        require("torchvision", "vision")  # timm imports it, and its error would come from deep inside
    except RuntimeError as error:
        if _SYMPTOM not in str(error):
            raise
        _declare_operators()
        importlib.import_module("torchvision")
    return require(module, "vision")


def _declare_operators() -> None:
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _DECLARED.append(library)
