"""The average of weights, and how soon it forgets where it started."""

import pytest
import torch
from small_runs import tiny_network
from torch import nn

from propml.vision.optimiser import WeightAverage


def test_the_average_follows_its_formula_buffers_included():
    network = tiny_network()
    average = WeightAverage(network, 0.9, warmup=False)
    by_hand = {name: value.clone() for name, value in network.state_dict().items()}
    for step in range(5):
        network.train()
        network(torch.randn(6, 3, generator=torch.Generator().manual_seed(step)))
        for parameter in network.parameters():
            parameter.data.add_(1.0)
        average.update()
        for name, value in network.state_dict().items():
            by_hand[name] = 0.9 * by_hand[name] + 0.1 * value if value.is_floating_point() else value.clone()
    for name, value in average.network.state_dict().items():
        torch.testing.assert_close(value, by_hand[name])
    assert average.network.state_dict()["1.num_batches_tracked"] == 5
    assert average.updates == 5


@pytest.mark.parametrize(("warmup", "share"), [(False, 0.3058), (True, 0.0)])
def test_what_is_left_of_the_first_weights_after_the_papers_3950_steps_on_voc(warmup, share):
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    average = WeightAverage(layer, 0.9997, warmup=warmup)
    nn.init.zeros_(layer.weight)
    for _ in range(3950):
        average.update()
    assert average.network.weight.item() == pytest.approx(share, abs=1e-3)


def test_the_average_learns_nothing_by_itself():
    average = WeightAverage(tiny_network(), 0.9)
    assert not average.network.training
    average.source[0].weight.data.fill_(1.0)
    average.update()
    assert bool((average.network[0].weight == 1).all())  # the first weights are forgotten at once
