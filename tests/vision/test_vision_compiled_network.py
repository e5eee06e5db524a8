import pytest
import torch
from torch import nn

from propml.vision import query2label
from propml.vision.compiled_network import CompiledNetwork

pytest.importorskip("timm")


@pytest.fixture
def uncompiled(monkeypatch):
    """``torch.compile`` gives back what it is given, and notes it."""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda run, **options: compiled.append(options) or run)
    return compiled


@pytest.fixture(autouse=True)
def _without_dropout(monkeypatch):
    monkeypatch.setattr(query2label, "DROPOUT", 0.0)


def small_network() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 8, 3, bias=False)]
    return nn.Sequential(*layers, query2label.Query2Label(8, 5, width=32, feedforward=16))


def learned(call, network, images):
    with torch.autocast("cpu", torch.bfloat16):
        logits = call(images)
    logits.float().square().sum().backward()
    return logits.detach(), {name: parameter.grad for name, parameter in network.named_parameters()}


def test_it_gives_what_the_network_gives_under_autocast(uncompiled):
    plain, network = small_network(), small_network()
    images = torch.rand(4, 3, 9, 9)
    compiled = CompiledNetwork(network, "reduce-overhead", batch_size=4)
    logits, gradients = learned(compiled, network, images)
    expected_logits, expected = learned(plain, plain, images)
    assert torch.equal(logits, expected_logits)
    assert all(gradients[name].dtype == torch.float32 for name in gradients)
    torch.testing.assert_close(gradients, expected, rtol=0, atol=0)
    assert uncompiled == [{"mode": "reduce-overhead"}]


def test_a_smaller_batch_is_not_compiled(uncompiled):
    compiled = CompiledNetwork(small_network(), "default", batch_size=4)
    compiled._run = None
    assert compiled(torch.rand(3, 3, 9, 9)).shape == (3, 5)


@pytest.mark.slow
def test_compiled_it_gives_the_same():
    plain, network = small_network(), small_network()
    images = torch.rand(4, 3, 9, 9)
    compiled = CompiledNetwork(network, "default", batch_size=4)
    for _ in range(2):
        network.zero_grad()
        logits, gradients = learned(compiled, network, images)
    expected_logits, expected = learned(plain, plain, images)
    torch.testing.assert_close(logits, expected_logits, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(gradients, expected, rtol=5e-2, atol=5e-2)
    torch._dynamo.reset()
