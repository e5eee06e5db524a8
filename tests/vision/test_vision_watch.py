"""A loss that is not a number stops the run and names its batch."""

from pathlib import Path

import pytest
import torch
from small_runs import tiny_network

from propml.vision.checkpoint import TrainingState
from propml.vision.distributed import Process
from propml.vision.evaluation import Watch
from propml.vision.optimiser import WeightAverage, make_optimiser


class Bar:
    def __init__(self):
        self.told = []

    def advance(self, steps=1, note=""):
        self.told.append((steps, note))


def a_watch(here=None, checkpoint=Path("nowhere")):
    network = tiny_network()
    state = TrainingState(
        network, WeightAverage(network, 0.9), make_optimiser(network, "adam", 0.1, 0.0), torch.amp.GradScaler("cpu")
    )
    bar = Bar()
    names = [f"{row:06}.jpg" for row in range(100)]
    return Watch(state, names, here or Process(torch.device("cpu")), bar, checkpoint), state, bar


def test_losses_reach_the_state_and_the_bar():
    watch, state, bar = a_watch()
    for loss in (0.5, 0.25):
        state.step += 1
        watch.saw(torch.tensor(loss, requires_grad=True), torch.arange(8))
    assert state.losses == []
    watch.look()
    watch.look()  # nothing new
    assert state.losses == [0.5, 0.25]
    assert [steps for steps, _ in bar.told] == [2]
    assert "loss 0.25" in bar.told[0][1]
    assert "images/s" in bar.told[0][1]
    assert watch.rate > 0


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_the_batch_is_named(value):
    watch, state, _ = a_watch()
    state.epoch = 2
    for step, loss in enumerate((0.5, float(value), 0.1)):
        state.step = 10 + step + 1
        watch.saw(torch.tensor(loss), torch.tensor([7, 8, 9, 10, 11]) + 20 * step)
    with pytest.raises(ValueError) as told:
        watch.look()
    assert f"the loss is {value} in epoch 3, step 12, on the batch of 000027.jpg, 000028.jpg" in str(told.value)
    assert "and 1 more; look at these images, lower learning_rate" in str(told.value)


def test_a_batch_of_another_process_cannot_be_named():
    class Other(Process):
        def mean(self, values):
            return values + torch.tensor([0.0, float("nan")])

    watch, state, _ = a_watch(Other(torch.device("cpu")))
    for _ in range(2):
        state.step += 1
        watch.saw(torch.tensor(0.5), torch.arange(3))
    with pytest.raises(ValueError, match="epoch 1, step 2, on the batch of another process"):
        watch.look()


@pytest.mark.parametrize("saved", [True, False])
def test_a_checkpoint_is_told_of_only_where_there_is_one(tmp_path, saved):
    if saved:
        (tmp_path / "last.safetensors").touch()
    watch, state, _ = a_watch(checkpoint=tmp_path / "last.safetensors")
    state.step = 1
    watch.saw(torch.tensor(float("nan")), torch.arange(3))
    with pytest.raises(ValueError) as told:
        watch.look()
    assert ("The last checkpoint is from before that step" in str(told.value)) is saved
