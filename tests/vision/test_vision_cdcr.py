"""CDCR's selection by plain loops, and its two stages in a real run."""

import numpy as np
import pytest
import torch
from small_runs import mosaics, run, small_recipe

import propml.vision.training as training
from propml.vision.backbone import make_network
from propml.vision.batches import Augment
from propml.vision.cdcr import select_for_epoch, select_labels
from propml.vision.distributed import Process, choose_precision
from propml.vision.training_data import prepare_data

HERE = Process(torch.device("cpu"))


@pytest.mark.parametrize("by_difficulty", [False, True])
def test_selection_by_loops(by_difficulty):
    rng = np.random.default_rng(0)
    p, s = rng.random((30, 4)), rng.choice([1, 0, -1], size=(30, 4), p=[0.5, 0.4, 0.1])
    found = select_labels(torch.tensor(p), torch.tensor(s), threshold=0.6, by_difficulty=by_difficulty)
    overall = np.mean([p[i, j] for i in range(30) for j in range(4) if s[i, j] == 1])
    for j in range(4):
        own = np.mean([p[i, j] for i in range(30) if s[i, j] == 1])
        for i in range(30):
            margin = p[i, j] - own >= 0.6 - overall if by_difficulty else p[i, j] >= 0.6
            assert bool(found[i, j]) == (s[i, j] != 1 or margin)


def test_labels_are_selected_among_the_images_that_are_learned_from(tmp_path):
    recipe = small_recipe(loss="bce", curriculum="cdcr", warmup_epochs=1, confidence=0.5)
    data, _ = prepare_data(mosaics(60)[0], None, recipe, tmp_path, HERE, cache=None)
    data = data.hold_out(0.2, seed=0)
    torch.manual_seed(0)
    network = make_network(recipe, 10).train()
    precision = choose_precision("float32", HERE.device)
    selected = select_for_epoch(network, 1, data, recipe, Augment(), precision, HERE)
    assert selected.shape == (60, 10)
    assert selected[data.held_out].all()
    excluded = data.targets() == 0
    assert selected[excluded].all()
    kept = selected[data.learned][data.targets()[data.learned] == 1]
    assert 0 < kept.float().mean() < 1
    assert network.training  # as it was


def test_the_second_stage_starts_from_averaged_weights_with_a_fresh_optimiser(tmp_path, monkeypatch):
    made, seen = [], []
    make = training._average_and_optimiser

    def watched(network, recipe):
        if made:
            averaged = made[-1][0].network.state_dict()
            seen.append(all(torch.equal(value, averaged[name]) for name, value in network.state_dict().items()))
        made.append(make(network, recipe))
        return made[-1]

    monkeypatch.setattr(training, "_average_and_optimiser", watched)
    recipe = small_recipe(loss="bce", curriculum="cdcr", warmup_epochs=2, epochs=4, noise=0.3, lam=1.0)
    result = run(tmp_path / "run", recipe, n_train=64)
    assert seen == [True]
    assert made[1][0].updates == made[0][0].updates > 0  # two epochs each: counted anew
    assert [entry["epoch"] for entry in result.history] == [1, 2, 3, 4]
    # Candidates that are not believed carry no loss, so there is less of it in the second stage.
    assert result.history[2]["loss"] < 0.8 * result.history[1]["loss"]
