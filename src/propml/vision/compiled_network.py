"""A network as it is trained under ``torch.compile``: layers rewritten for it, weights turned to 16 bits all at once.

The rewritten layers have the same weights under the same names and give the same results in less time. TResNet-L is 76
channels wide where images are largest. A GPU multiplies matrices in units of 8 channels: with 80 a convolution there
takes half the time. So four channels of zeros are carried along, from the first convolution to where the width is a
multiple of 8 again: norms and gates leave them at zero, and compiled code fills up weights, not images. TResNet's blurs
are convolutions of each channel by itself, for which libraries are slow; as a sum of slices they compile to one kernel.
Without compilation all of this would cost more than it saves.

Autocast turns each weight where it is used, and each of its gradients back: in TResNet-L 400 kernels a step, most of
which take the GPU less time than their start. Here one kernel turns them all, and one all gradients; the numbers are
the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import batch_norm, conv2d, pad

from propml.vision.backbone import import_vision

__all__ = ["AlignedConv2d", "AlignedNorm", "CompiledNetwork", "SlicedBlur", "rewrite_for_compile"]

UNIT = 8  # channels of 16-bit numbers that tensor cores take at a time


class AlignedConv2d(nn.Module):
    """A convolution whose channels are filled up with zeros to multiples of 8 while it is computed.

    Images may come with such zeros already; what comes out has them.

    >>> AlignedConv2d(nn.Conv2d(5, 6, 3, padding=1))(torch.randn(2, 5, 4, 4)).shape
    torch.Size([2, 8, 4, 4])
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = convolution.weight, convolution.bias
        self.stride, self.padding, self.dilation = convolution.stride, convolution.padding, convolution.dilation

    def forward(self, images: Tensor) -> Tensor:
        n_out, n_in = self.weight.shape[:2]
        more_in, more_out = -n_in % UNIT, -n_out % UNIT
        if images.shape[1] == n_in and more_in:
            images = pad(images, (0, 0, 0, 0, 0, more_in))
        weight = pad(self.weight, (0, 0, 0, 0, 0, more_in, 0, more_out))
        bias = None if self.bias is None else pad(self.bias, (0, more_out))
        return conv2d(images, weight, bias, self.stride, self.padding, self.dilation)


class AlignedNorm(nn.Module):
    """timm's batch norm with activation, on images with channels of zeros behind its own: they stay zero."""

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.weight, self.bias = norm.weight, norm.bias
        for name, value in norm.named_buffers():
            self.register_buffer(name, value)
        self.eps, self.momentum = norm.eps, norm.momentum
        self.drop, self.act = norm.drop, norm.act

    def forward(self, images: Tensor) -> Tensor:
        n = len(self.weight)
        more = (0, images.shape[1] - n)
        mean, var = pad(self.running_mean, more), pad(self.running_var, more, value=1.0)
        weight, bias = pad(self.weight, more), pad(self.bias, more)
        normalised = batch_norm(images, mean, var, weight, bias, self.training, self.momentum, self.eps)
        if self.training:
            self.num_batches_tracked.add_(1)
            self.running_mean.copy_(mean[:n])
            self.running_var.copy_(var[:n])
        return self.act(self.drop(normalised))


class SlicedBlur(nn.Module):
    """Blur by (1, 2, 1) / 4 along both axes and keep every second place: timm's ``BlurPool2d`` of size 3."""

    def forward(self, images: Tensor) -> Tensor:
        images = pad(images, (1, 1, 1, 1), mode="reflect")
        rows = (images[:, :, 0:-2:2] + images[:, :, 2::2]) * 0.25 + images[:, :, 1:-1:2] * 0.5
        return (rows[..., 0:-2:2] + rows[..., 2::2]) * 0.25 + rows[..., 1:-1:2] * 0.5


def rewrite_for_compile(network: nn.Module) -> None:
    """Put the layers above where a TResNet has their slow forms; its state keeps its names and shapes."""
    timm = import_vision("timm")
    for tresnet in [part for part in network.modules() if isinstance(part, timm.models.tresnet.TResNet)]:
        for parent in list(tresnet.modules()):
            for name, layer in list(parent.named_children()):
                if (new := _rewritten(layer, timm.layers)) is not None:
                    setattr(parent, name, new.train(layer.training))


def _rewritten(layer: Any, known: Any) -> nn.Module | None:
    """What stands in the place of a layer; ``None``: nothing."""
    if type(layer) is nn.Conv2d and (layer.in_channels % UNIT or layer.out_channels % UNIT):
        return AlignedConv2d(layer)
    if type(layer) is known.BatchNormAct2d and layer.num_features % UNIT:
        return AlignedNorm(layer)
    if type(layer) is known.BlurPool2d and (layer.filt_size, layer.stride, layer.pad_mode) == (3, 2, "reflect"):
        return SlicedBlur()
    return None


# The layers whose weights autocast turns.
CAST_LAYERS = (nn.Conv2d, nn.Linear, AlignedConv2d)


class CompiledNetwork(nn.Module):
    """Calls a network with its layers rewritten, compiled in a mode of ``torch.compile``.

    ``dtype`` is what autocast computes in where this is called; with float32 no weight is turned. Batches of another
    size than ``batch_size``, such as a smaller last one, would be compiled anew; without, they cost less.

    >>> network = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    >>> CompiledNetwork(network, "default", torch.bfloat16, 64).cast_names
    ['0.weight', '2.weight']
    """

    def __init__(self, network: nn.Module, mode: str, dtype: torch.dtype, batch_size: int) -> None:
        super().__init__()
        rewrite_for_compile(network)
        self.network, self.dtype, self.batch_size = network, dtype, batch_size
        layers = [name for name, layer in network.named_modules() if isinstance(layer, CAST_LAYERS)]
        self.cast_names = [] if dtype == torch.float32 else [f"{name}.weight" for name in layers]
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
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in tensors]
    torch._foreach_copy_(copies, tensors)
    return copies
