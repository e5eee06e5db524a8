"""A network as it is trained under ``torch.compile``, with its weights turned to 16 bits all at once.

Autocast turns each weight where it is used, and each of its gradients back: in TResNet-L 400 kernels a step, most of
which take the GPU less time than their start. Here one kernel turns them all, and one all gradients; the numbers are
the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from propml.vision.compiled_layers import AlignedConv2d, rewrite_for_compile

__all__ = ["CompiledNetwork"]

# The layers whose weights autocast turns.
CAST_LAYERS = (nn.Conv2d, nn.Linear, AlignedConv2d)


class CompiledNetwork(nn.Module):
    """Calls a network, compiled; its layers are rewritten (:mod:`propml.vision.compiled_layers`).

    Parameters
    ----------
    network : nn.Module
    mode : str
        Of ``torch.compile``.
    dtype : torch.dtype
        That autocast computes in where this is called; with float32 no weight is turned.
    batch_size : int
        Of the batches to compile for. A smaller last batch would be compiled anew; without, it costs less.

    Examples
    --------
    >>> network = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> CompiledNetwork(network, "default", torch.bfloat16, 64).cast_names
    ['0.weight', '2.weight']
    """

    def __init__(self, network: nn.Module, mode: str, dtype: torch.dtype, batch_size: int) -> None:
        super().__init__()
        rewrite_for_compile(network)
        self.network, self.dtype, self.batch_size = network, dtype, batch_size
        self.cast_names = [] if dtype == torch.float32 else _names_to_cast(network)
        self._run = torch.compile(self._with_weights, mode=mode)

    def forward(self, images: Tensor) -> Tensor:
        """What the network gives."""
        if len(images) != self.batch_size:
            return self.network(images)
        torch.compiler.cudagraph_mark_step_begin()  # what the last step computed may be overwritten
        if not self.cast_names:
            return self._run(images)
        weights = [self.network.get_parameter(name) for name in self.cast_names]
        return self._run(images, *_Cast.apply(self.dtype, *weights))

    def _with_weights(self, images: Tensor, *weights: Tensor) -> Tensor:
        return functional_call(self.network, dict(zip(self.cast_names, weights, strict=True)), (images,))


class _Cast(torch.autograd.Function):
    """All tensors in another type, and their gradients in the type that they had."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.dtype = tensors[0].dtype
        return tuple(_copied(tensors, dtype))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return (None, *_copied(gradients, ctx.dtype))


def _copied(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> list[Tensor]:
    made = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(made, tensors)
    return made


def _names_to_cast(network: nn.Module) -> list[str]:
    layers = [name for name, layer in network.named_modules() if isinstance(layer, CAST_LAYERS)]
    return [f"{name}.weight" for name in layers]
