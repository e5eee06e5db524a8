"""Which module computes rows on which device.

Both have ``gradient_at_once``, ``losses``, ``losses_and_gradient``, ``gradient`` and ``scaled``.
"""

import functools
import importlib
import importlib.util
import os
from types import ModuleType

import torch

__all__ = ["HAS_TRITON", "INTERPRETED", "engine_of"]

_FOUND = importlib.util.find_spec("triton") is not None
# For tests without a GPU: Triton's interpreter runs the kernels on CPU tensors.
INTERPRETED = _FOUND and os.environ.get("TRITON_INTERPRET") == "1"
HAS_TRITON = INTERPRETED or (_FOUND and torch.version.cuda is not None)


@functools.cache
def engine_of(device_type: str) -> ModuleType:
    """The module that computes on a type of device; Triton is imported when it is first needed."""
    name = "triton_rows" if device_type == "cuda" or INTERPRETED else "c_rows"
    return importlib.import_module(f"propml.losses.kernels.{name}")
