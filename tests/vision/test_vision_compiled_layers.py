import pytest
import torch
from torch import nn

from propml.vision.compiled_network import AlignedConv2d, AlignedNorm, SlicedBlur, rewrite_for_compile

timm = pytest.importorskip("timm")


def test_an_aligned_convolution_has_the_same_value_and_gradients():
    torch.manual_seed(0)
    plain = nn.Conv2d(36, 44, 3, stride=2, padding=1, dtype=torch.float64)
    images = torch.randn(2, 36, 9, 8, dtype=torch.float64, requires_grad=True)
    expected = plain(images)
    plain.__class__ = AlignedConv2d
    maps = plain(images)
    found, filled = maps.split([44, 4], dim=1)
    assert not filled.any()
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
    assert kinds.count(AlignedNorm) == 9  # behind the stem and the eight convolutions of 76 channels
    assert kinds.count(AlignedConv2d) == 9 + 8 + 2  # these, the gates of four blocks, and the two that lead out
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert list(before) == list(network.state_dict())
    assert all(value.shape == before[name].shape for name, value in network.state_dict().items())


@pytest.mark.parametrize("name", ["tresnet_l", "tresnet_xl"])
def test_a_rewritten_tresnet_learns_the_same(name):
    def stem() -> nn.Module:
        torch.manual_seed(0)
        network = timm.create_model(name, num_classes=4).double().train()
        for block in network.body.layer1:
            nn.init.ones_(block.conv2.bn.weight)  # starts at zero, which would hide the blocks
        return network

    plain, rewritten = stem(), stem()
    rewrite_for_compile(rewritten)
    images = torch.rand(2, 3, 32, 32, dtype=torch.float64)
    for network in (plain, rewritten):
        network(images).square().sum().backward()
    torch.testing.assert_close(rewritten.state_dict(), plain.state_dict())  # the running statistics among it
    expected = {key: parameter.grad for key, parameter in plain.named_parameters()}
    torch.testing.assert_close({key: p.grad for key, p in rewritten.named_parameters()}, expected)


def test_other_networks_stay_as_they_are():
    network = nn.Sequential(nn.Conv2d(3, 32, 3), nn.Conv2d(36, 44, 3), nn.Conv2d(36, 36, 3, groups=36))
    layers = list(network)
    rewrite_for_compile(network)
    assert list(network) == layers
