import pytest
import torch
from torch import nn

from propml.vision.compiled_layers import AlignedConv2d, SlicedBlur, rewrite_for_compile

timm = pytest.importorskip("timm")


def test_an_aligned_convolution_has_the_same_value_and_gradients():
    torch.manual_seed(0)
    plain = nn.Conv2d(36, 44, 3, stride=2, padding=1, dtype=torch.float64)
    images = torch.randn(2, 36, 9, 8, dtype=torch.float64, requires_grad=True)
    found, expected = AlignedConv2d(plain)(images), plain(images)
    incoming = torch.randn_like(expected)
    wanted = (images, plain.weight, plain.bias)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, wanted, incoming), torch.autograd.grad(expected, wanted, incoming)
    )


@pytest.mark.parametrize("side", [2, 7, 8])
def test_a_sliced_blur_is_the_blur_of_timm(side):
    images = torch.randn(2, 5, side, side + 1)
    torch.testing.assert_close(SlicedBlur()(images), timm.layers.BlurPool2d(5)(images))


def test_a_rewritten_tresnet_keeps_its_state_and_its_outputs():
    torch.manual_seed(0)
    network = timm.create_model("tresnet_l", num_classes=4).eval()
    images = torch.rand(1, 3, 64, 64)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.inference_mode():
        expected = network(images)
        rewrite_for_compile(network)
        found = network(images)
    kinds = [type(layer) for layer in network.modules()]
    assert kinds.count(SlicedBlur) == 3
    assert kinds.count(AlignedConv2d) > 8  # the stem, eight convolutions of 76 channels, and what leads out of them
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert list(before) == list(network.state_dict())
    assert all(value.shape == before[name].shape for name, value in network.state_dict().items())


def test_other_layers_stay_as_they_are():
    network = nn.Sequential(nn.Conv2d(3, 32, 3), nn.Conv2d(32, 64, 3), nn.Conv2d(36, 36, 3, groups=36))
    layers = list(network)
    rewrite_for_compile(network)
    assert list(network) == layers
