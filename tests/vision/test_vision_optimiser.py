"""The schedule against PyTorch's own, and who decays."""

import pytest
import torch
from torch import nn

from propml.vision.backbone import make_network
from propml.vision.optimiser import make_optimiser, one_cycle, set_rate
from propml.vision.recipe import VisionRecipe


@pytest.mark.parametrize(("total", "pct_start"), [(20, 0.2), (100, 0.2), (37, 0.3), (3950, 0.2)])
def test_one_cycle_is_pytorchs(total, pct_start):
    optimiser = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimiser, 0.01, total_steps=total, pct_start=pct_start)
    for step in range(total):
        group = optimiser.param_groups[0]
        assert one_cycle(step, total, 0.01, pct_start) == pytest.approx((group["lr"], group["betas"][0]), rel=1e-9)
        optimiser.step()
        if step < total - 1:
            theirs.step()


def test_a_schedule_of_few_steps_starts_at_its_peak():
    assert one_cycle(0, 1, 0.1)[0] < 0.1  # the only step is also the last one
    assert [one_cycle(step, 5, 0.1)[0] for step in (0, 4)] == pytest.approx([0.1, 0.1 / 25e4])
    assert one_cycle(99, 5, 0.1) == one_cycle(4, 5, 0.1)


def test_biases_and_norms_do_not_decay():
    network = make_network(VisionRecipe(backbone="resnet10t", weights=None, size=32), n_labels=3)
    still, decaying = make_optimiser(network, "adamw", 1e-3, 0.1).param_groups
    assert still["weight_decay"] == 0.0
    assert decaying["weight_decay"] == 0.1
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    assert len(still["params"]) + len(decaying["params"]) == len(names)
    modules = dict(network.named_modules())
    for parameter in decaying["params"]:
        owner, _, kind = names[id(parameter)].rpartition(".")
        assert kind == "weight"
        assert isinstance(modules[owner], nn.Conv2d | nn.Linear)


def test_adam_couples_decay_with_the_gradient_and_adamw_does_not():
    moved = {}
    for kind in ("adam", "adamw"):
        layer = nn.Linear(1, 1)
        nn.init.ones_(layer.weight)
        optimiser = make_optimiser(layer, kind, learning_rate=0.1, weight_decay=0.5)
        layer.weight.grad, layer.bias.grad = torch.zeros(1, 1), torch.zeros(1)
        optimiser.step()
        moved[kind] = 1 - layer.weight.item()
    assert moved["adam"] == pytest.approx(0.1, rel=1e-4)  # the sign of the gradient, which is decay alone
    assert moved["adamw"] == pytest.approx(0.1 * 0.5, rel=1e-4)


def test_set_rate_reaches_every_group():
    optimiser = make_optimiser(nn.Linear(2, 2), "adam", 1e-3, 0.1)
    set_rate(optimiser, (0.5, 0.9))
    assert [(group["lr"], group["betas"]) for group in optimiser.param_groups] == [(0.5, (0.9, 0.999))] * 2


def test_layers_learn_the_slower_the_further_they_are_from_the_head():
    network = make_network(VisionRecipe(backbone="resnet10t", weights=None, size=32), n_labels=3)
    optimiser = make_optimiser(network, "adamw", 1e-3, 0.1, layer_decay=0.5)
    set_rate(optimiser, (0.1, 0.9))
    rates = {id(each): group["lr"] for group in optimiser.param_groups for each in group["params"]}
    assert len(rates) == len(list(network.parameters()))
    assert rates[id(network.head.weight)] == 0.1
    ordered = [rates[id(next(getattr(network.backbone, f"layer{i}").parameters()))] for i in (1, 2, 3, 4)]
    assert ordered == sorted(ordered)
    assert ordered[0] < ordered[3] <= 0.1
