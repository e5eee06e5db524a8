"""A network as it is trained under ``torch.compile``, with layers rewritten for it.

The rewritten layers have the same weights under the same names and give the same results in less time. TResNet-L is 76
channels wide where images are largest. A GPU multiplies matrices in units of 8 channels: with 80 a convolution there
takes half the time. So four channels of zeros are carried along, from the first convolution to where the width is a
multiple of 8 again: norms and gates leave them at zero, and compiled code fills up weights, not images. TResNet's blurs
are convolutions of each channel by itself, for which libraries are slow; as a sum of slices they compile to one kernel.
Without compilation all of this would cost more than it saves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, conv2d, pad

from propml.vision.backbone import import_vision

UNIT = 8  # channels of 16-bit numbers that tensor cores take at a time


class AlignedConv2d(nn.Conv2d):
    """A convolution whose channels are filled up with zeros to multiples of 8 while it is computed.

    Images may come with such zeros already; what comes out has them.
    """

    def forward(self, images: Tensor) -> Tensor:
        n_out, n_in = self.weight.shape[:2]
        more_in, more_out = -n_in % UNIT, -n_out % UNIT
        if images.shape[1] == n_in and more_in:
            images = pad(images, (0, 0, 0, 0, 0, more_in))
        weight = pad(self.weight, (0, 0, 0, 0, 0, more_in, 0, more_out))
        bias = None if self.bias is None else pad(self.bias, (0, more_out))
        return conv2d(images, weight, bias, self.stride, self.padding, self.dilation)


class AlignedNorm(nn.BatchNorm2d):
    """timm's batch norm with activation, on images with channels of zeros behind its own: they stay zero."""

    drop: nn.Module
    act: nn.Module

    def forward(self, images: Tensor) -> Tensor:
        statistics: tuple[Any, ...] = (self.running_mean, self.running_var, self.num_batches_tracked)
        n, (own_mean, own_var, n_batches) = self.num_features, statistics
        more = (0, images.shape[1] - n)
        mean, var = pad(own_mean, more), pad(own_var, more, value=1.0)
        weight, bias = pad(self.weight, more), pad(self.bias, more)
        normalised = batch_norm(images, mean, var, weight, bias, self.training, self.momentum or 0.0, self.eps)
        if self.training:
            n_batches.add_(1)
            own_mean.copy_(mean[:n])
            own_var.copy_(var[:n])
        return self.act(self.drop(normalised))


class SlicedBlur(nn.Module):
    """Blur by (1, 2, 1) / 4 along both axes and keep every second place: timm's ``BlurPool2d`` of size 3."""

    def forward(self, images: Tensor) -> Tensor:
        images = pad(images, (1, 1, 1, 1), mode="reflect")
        rows = (images[:, :, 0:-2:2] + images[:, :, 2::2]) * 0.25 + images[:, :, 1:-1:2] * 0.5
        return (rows[..., 0:-2:2] + rows[..., 2::2]) * 0.25 + rows[..., 1:-1:2] * 0.5


def rewrite_for_compile(network: nn.Module) -> None:
    """Let the layers of a TResNet compute as those above; its state keeps its names and shapes."""
    timm = import_vision("timm")
    for tresnet in [part for part in network.modules() if isinstance(part, timm.models.tresnet.TResNet)]:
        for layer in tresnet.modules():
            # What a layer has learned, and is asked for, stays in its place.
            match layer:
                case nn.Conv2d(in_channels=n_in, out_channels=n_out) if n_in % UNIT or n_out % UNIT:
                    layer.__class__ = AlignedConv2d
                case timm.layers.BatchNormAct2d(num_features=n) if n % UNIT:
                    layer.__class__ = AlignedNorm
                case timm.layers.BlurPool2d(filt_size=3, stride=2, pad_mode="reflect"):
                    layer.__class__ = SlicedBlur


class CompiledNetwork(nn.Module):
    """Calls a network with its layers rewritten, compiled in a mode of ``torch.compile``.

    Batches of another size than ``batch_size``, such as a smaller last one, run as they are: compiling costs more.
    """

    def __init__(self, network: nn.Module, mode: str, batch_size: int) -> None:
        super().__init__()
        rewrite_for_compile(network)
        self.network, self.batch_size = network, batch_size
        self._run = torch.compile(network.forward, mode=mode)

    def forward(self, images: Tensor) -> Tensor:
        """What the network gives."""
        if len(images) != self.batch_size:
            return self.network(images)
        torch.compiler.cudagraph_mark_step_begin()  # what the last step computed may be overwritten
        return self._run(images)
