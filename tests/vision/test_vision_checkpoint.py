"""Checkpoints give back what they were given, and say what is wrong with a file."""

import numpy as np
import pytest
import torch
from small_runs import SMALL, tiny_network

from forged_states import forge
from propml.file_errors import FileError
from propml.persistence import write_state
from propml.vision.backbone import make_network
from propml.vision.checkpoint import TrainingState, load_network, save_network
from propml.vision.optimiser import WeightAverage, make_optimiser, set_rate
from propml.vision.recipe import VisionRecipe


def a_state(network=None, *, scaled=False):
    network = tiny_network() if network is None else network
    scaler = torch.amp.GradScaler("cpu", enabled=scaled)
    return TrainingState(network, WeightAverage(network, 0.9), make_optimiser(network, "adam", 1e-2, 0.1), scaler)


def step(state, seed):
    set_rate(state.optimiser, (0.01 * (seed + 1), 0.9))  # as every step of a training does
    images = torch.randn(8, 3, generator=torch.Generator().manual_seed(seed))
    state.scaler.scale(state.network(images).square().mean()).backward()
    state.scaler.step(state.optimiser)
    state.scaler.update()
    state.optimiser.zero_grad()
    state.average.update()


@pytest.mark.parametrize("scaled", [False, True])
def test_a_restored_state_goes_on_as_if_nothing_had_happened(tmp_path, scaled):
    one = a_state(scaled=scaled)
    for seed in range(3):
        step(one, seed)
    one.epoch, one.step, one.losses, one.best = 1, 2, [0.5, 0.25], {"worth": 0.5, "epoch": 1, "weights": "ema"}
    one.history = [{"epoch": 1, "loss": 0.7}]
    one.save(tmp_path / "last.safetensors")
    other = a_state(scaled=scaled)
    other.restore(tmp_path / "last.safetensors")
    for name in ("epoch", "step", "losses", "best", "history"):
        assert getattr(other, name) == getattr(one, name)
    for seed in range(3, 6):
        step(one, seed)
        step(other, seed)
    for mine, theirs in ((one.network, other.network), (one.average.network, other.average.network)):
        for name, value in mine.state_dict().items():
            assert torch.equal(value, theirs.state_dict()[name]), name
    assert one.scaler.state_dict() == other.scaler.state_dict()


def test_moments_lie_in_memory_as_their_parameters_do(tmp_path):
    def convolution():
        torch.manual_seed(0)
        return a_state(torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last))

    one = convolution()
    one.network(torch.randn(2, 3, 5, 5)).sum().backward()
    one.optimiser.step()
    one.save(tmp_path / "last.safetensors")
    other = convolution()
    other.restore(tmp_path / "last.safetensors")
    moments = other.optimiser.state[other.network.weight]
    assert moments["exp_avg"].is_contiguous(memory_format=torch.channels_last)
    assert moments["step"].shape == ()
    torch.testing.assert_close(moments["exp_avg"], one.optimiser.state[one.network.weight]["exp_avg"])


def test_another_network_is_refused(tmp_path):
    a_state().save(tmp_path / "last.safetensors")
    other = a_state(torch.nn.Sequential(torch.nn.Linear(3, 4)))
    with pytest.raises(ValueError, match=r"it\.network has"):
        other.restore(tmp_path / "last.safetensors")


def test_a_checkpoint_that_was_cut_short_is_refused(tmp_path):
    path = tmp_path / "last.safetensors"
    a_state().save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="is not a readable vision checkpoint"):
        a_state().restore(path)


def test_a_network_comes_back_with_its_labels_and_scores_the_same(tmp_path):
    recipe = VisionRecipe(**{**SMALL, "weights": "pretrained"})
    network = make_network(recipe, 3, load_weights=False).eval()
    save_network(tmp_path / "best.safetensors", network, recipe, ("cat", "dog", "owl"), {"lam": 0.3, "epoch": 2})
    loaded = load_network(tmp_path)  # the folder of a run
    images = torch.randn(2, 3, 16, 16)
    assert torch.equal(loaded.network(images), network(images))
    assert loaded.label_names == ("cat", "dog", "owl")
    assert loaded.card == {"lam": 0.3, "epoch": 2}
    assert loaded.recipe == recipe
    assert (loaded.mean, loaded.std) == ((0.5,) * 3, (0.25,) * 3)
    assert not loaded.network.training


def test_other_files_are_no_networks(tmp_path):
    a_state().save(tmp_path / "last.safetensors")
    with pytest.raises(ValueError, match="holds a vision-checkpoint, expected a vision-network"):
        load_network(tmp_path / "last.safetensors")
    write_state(tmp_path / "ridge.safetensors", "Ridge", {"weights": np.zeros(2)})
    with pytest.raises(ValueError, match="holds a Ridge"):
        load_network(tmp_path / "ridge.safetensors")
    with pytest.raises(FileNotFoundError):
        load_network(tmp_path / "nothing.safetensors")


def put(name, change):
    def forged(arrays, outline):
        arrays[name] = np.ascontiguousarray(change(arrays[name]))

    return forged


def say(**values):
    return lambda arrays, outline: outline["dict"].update(values)


@pytest.mark.parametrize(
    "change",
    [
        put("/network/0.weight", lambda a: a.T),
        put("/network/0.weight", lambda a: a.ravel()),
        put("/average/2.bias", lambda a: a.astype(np.int64)),
        put("/moments/0/exp_avg", lambda a: a[:1]),
        put("/moments/0/step", lambda a: np.zeros(2, np.float32)),
        put("/moments/0/step", lambda a: a - 2),
        lambda arrays, outline: outline["dict"]["moments"]["dict"]["0"]["dict"].pop("step"),
        lambda arrays, outline: outline["dict"]["moments"]["dict"]["0"]["dict"].pop("exp_avg_sq"),
        say(epoch="1"),
        say(step=None),
        say(losses={"list": ["much"]}),
        say(history={"dict": {}}),
        say(best={"dict": {"epoch": 1}}),
        lambda arrays, outline: outline["dict"].pop("scaler"),
    ],
)
def test_a_forged_checkpoint_is_refused_and_changes_nothing(tmp_path, change):
    path = tmp_path / "last.safetensors"
    one = a_state()
    step(one, 0)
    one.save(path)
    other = a_state()
    before = {name: value.clone() for name, value in other.network.state_dict().items()}
    forge(path, change)
    with pytest.raises(FileError, match=r"last\.safetensors is not a readable vision checkpoint"):
        other.restore(path)
    assert all(torch.equal(value, before[name]) for name, value in other.network.state_dict().items())
    assert other.epoch == 0


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, outline: arrays.update({name: array[..., None] for name, array in arrays.items()}),
        say(labels={"list": ["cat", "dog"]}),
        say(labels=3),
        say(std={"list": [0.5, 0.5, 0]}),
        say(mean={"list": [0.5]}),
        say(recipe={"dict": {"size": "large"}}),
        say(recipe={"dict": {"backbone": "abacus"}}),
        say(recipe={"dict": {"colour": "red"}}),
        say(card=None),
    ],
)
def test_a_forged_network_is_refused(tmp_path, change):
    recipe = VisionRecipe(**SMALL)
    network = make_network(recipe, 3, load_weights=False).eval()
    save_network(tmp_path / "best.safetensors", network, recipe, ("cat", "dog", "owl"), {"lam": 0.3})
    forge(tmp_path / "best.safetensors", change)
    with pytest.raises(FileError, match=r"best\.safetensors"):
        load_network(tmp_path)
