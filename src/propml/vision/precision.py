"""In which floating point a network computes; its weights are float32 always."""

from __future__ import annotations

from typing import NamedTuple

import torch

__all__ = ["Precision", "choose_precision"]


class Precision(NamedTuple):
    """The type that matrix products and convolutions are computed in, and where."""

    dtype: torch.dtype
    device: torch.device

    def autocast(self) -> torch.autocast:
        """A context in which a network computes in this type."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)

    def scaler(self) -> torch.amp.GradScaler:
        """Scales losses so that small gradients survive float16; for other types it does nothing."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)


def choose_precision(name: str, device: torch.device) -> Precision:
    """The precision of that name; ``"auto"`` is bfloat16 on a GPU that has it, float16 on others, float32 on the CPU.

    >>> choose_precision("auto", torch.device("cpu")).dtype
    torch.float32
    """
    if name == "auto":
        on_gpu = "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float16"
        name = "float32" if device.type == "cpu" else on_gpu
    return Precision(getattr(torch, name), device)
