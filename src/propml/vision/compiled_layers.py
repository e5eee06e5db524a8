"""Layers rewritten for ``torch.compile`` on a GPU: the same weights under the same names, the same results, less time.

TResNet-L is 76 channels wide where images are largest. A GPU multiplies matrices in units of 8 channels: with 80 a
convolution there takes half the time, and compiled code pads and cuts in kernels that run anyway. Its blurs are
convolutions of each channel by itself, for which libraries are slow; as a sum of slices they compile to one kernel.
Without compilation both would cost more than they save.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from propml.vision.torchvision_import import import_vision

__all__ = ["AlignedConv2d", "SlicedBlur", "rewrite_for_compile"]

UNIT = 8  # channels of 16-bit numbers that tensor cores take at a time


class AlignedConv2d(nn.Module):
    """A convolution whose channels are filled up with zeros to multiples of 8 while it is computed.

    Examples
    --------
    >>> import torch
    >>> convolution = nn.Conv2d(5, 6, 3, padding=1)
    >>> images = torch.randn(2, 5, 4, 4)
    >>> torch.allclose(AlignedConv2d(convolution)(images), convolution(images), atol=1e-6)
    True
    """

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        self.weight, self.bias = convolution.weight, convolution.bias
        self.stride, self.padding, self.dilation = convolution.stride, convolution.padding, convolution.dilation

    def forward(self, images: Tensor) -> Tensor:
        n_out, n_in = self.weight.shape[:2]
        more_in, more_out = -n_in % UNIT, -n_out % UNIT
        images = pad(images, (0, 0, 0, 0, 0, more_in)) if more_in else images
        weight = pad(self.weight, (0, 0, 0, 0, 0, more_in, 0, more_out))
        bias = None if self.bias is None else pad(self.bias, (0, more_out))
        found = conv2d(images, weight, bias, self.stride, self.padding, self.dilation)
        # Not a slice: its gradient would come with channels first, and be copied before the convolution's own.
        return pad(found, (0, 0, 0, 0, 0, -more_out)) if more_out else found


class SlicedBlur(nn.Module):
    """Blur by (1, 2, 1) / 4 along both axes and keep every second place: timm's ``BlurPool2d`` of size 3."""

    def forward(self, images: Tensor) -> Tensor:
        images = pad(images, (1, 1, 1, 1), mode="reflect")
        rows = (images[:, :, 0:-2:2] + images[:, :, 2::2]) * 0.25 + images[:, :, 1:-1:2] * 0.5
        return (rows[..., 0:-2:2] + rows[..., 2::2]) * 0.25 + rows[..., 1:-1:2] * 0.5


def rewrite_for_compile(network: nn.Module) -> None:
    """Put the layers above where a network has their slow forms; its state keeps its names and shapes."""
    blur_pool = import_vision("timm").layers.BlurPool2d
    for parent in list(network.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Conv2d and _is_unaligned(layer):
                setattr(parent, name, AlignedConv2d(layer))
            elif type(layer) is blur_pool and (layer.filt_size, layer.stride, layer.pad_mode) == (3, 2, "reflect"):
                setattr(parent, name, SlicedBlur())


def _is_unaligned(layer: nn.Conv2d) -> bool:
    """Whether filling up pays: images of 3 channels would more than double, and groups cannot be filled."""
    unaligned = layer.in_channels % UNIT or layer.out_channels % UNIT
    wide = min(layer.in_channels, layer.out_channels) >= 4 * UNIT
    return bool(unaligned and wide and layer.groups == 1 and layer.padding_mode == "zeros")
