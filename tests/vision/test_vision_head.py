"""The default recipe: a head on frozen features, then the whole network from there, if candidates speak for it."""

import copy
import json

import numpy as np
import pytest
import torch
from small_runs import mosaics, same_weights, tiny_backbone, weights_of

import propml.vision.training as training
from propml.persistence import read_state
from propml.targets import Candidates
from propml.vision.checkpoint import TrainingState, load_network
from propml.vision.evaluation import Judge
from propml.vision.head import Trial, _chosen, fit_head
from propml.vision.recipe import VisionRecipe
from propml.vision.training import train


@pytest.fixture
def recipe(tmp_path):
    """Two epochs of a tiny network with weights from a file."""
    tiny_backbone(tmp_path / "w.pth")
    return {
        "backbone": "test_resnet",
        "weights": str(tmp_path / "w.pth"),
        "size": 32,
        "epochs": 2,
        "head_epochs": 4,
        "hold_out": 0.2,
        "lam": 0.3,
        "batch_size": 32,
    }


def run(out, recipe, n=96, **changes):
    learned, judged = mosaics(n)
    return train(learned, judged, VisionRecipe(**{**recipe, **changes}), out, cache=None, verbose=False, device="cpu")


def rows(n=240, seed=0):
    """Features that tell the first label by one of them, and nothing of a second label that is noise."""
    rng = np.random.default_rng(seed)
    X = 5 + rng.normal(size=(n, 8)) * [3, 1, 1, 1, 0.1, 1, 1, 0]
    truth = np.stack([X[:, 0] > 5, rng.random(n) < 0.3, X[:, 0] <= 5], axis=1)
    return torch.from_numpy(X).float(), Candidates.from_matrix(truth.astype(int), empty="ignore")


def test_a_head_learns_what_features_tell_and_works_on_features_as_they_are():
    (X, learned), (new, hidden) = rows(), rows(seed=1)
    told = hidden.to_torch()
    recipe = VisionRecipe(loss="bce", lam=1.0, head_epochs=20)
    trial = Trial(np.arange(len(X)), new, lambda z: -((z > 0) != told)[..., [0, 2]].float().sum(dim=(1, 2)))
    found = fit_head(X, learned, np.arange(len(X)), recipe, [trial])
    logits = new @ found.weight.T + found.bias
    assert torch.corrcoef(torch.stack([logits[:, 0], -logits[:, 2], new[:, 0]])).min() > 0.7
    assert found.lam == 1.0
    best = max(found.tried, key=lambda entry: entry["worth"])
    assert -best["worth"] == int(
        ((logits > 0) != told)[:, [0, 2]].sum()
    )  # the head that was judged is the one that is kept


def test_lam_is_the_one_that_is_worth_most():
    X, learned = rows()
    candidates = Candidates.from_matrix(np.maximum(learned.to_matrix(), [0, 1, 0]))
    trial = Trial(np.arange(len(X)), X[:50], lambda z: z.abs().mean(dim=(1, 2)))
    found = fit_head(X, candidates, np.arange(len(X)), VisionRecipe(head_epochs=2), [trial])
    assert len({entry["lam"] for entry in found.tried}) == 4
    assert found.lam == max(found.tried, key=lambda entry: entry["worth"])["lam"]


def test_of_lams_that_trials_cannot_tell_apart_the_largest_is_taken():
    tried = [{"lam": lam, "worth": 0.0, "epoch": 2} for lam in (1.0, 3.0, 9.0)]
    values = np.zeros((5, 2, 3))
    spread = np.linspace(-0.02, 0.02, 5)  # trials differ by more than settings do, which pairs do not mind

    def chosen(*worth):
        values[:, 1] = spread[:, None] + worth + 0.001 * np.outer([1, -1, 1, -1, 0], [0, 1, 2])
        for entry, own in zip(tried, values[:, 1].mean(axis=0), strict=True):
            entry["worth"] = own
        return tried[_chosen(tried, values)]["lam"]

    assert chosen(0.5, 0.5, 0.4) == 3.0
    assert chosen(0.5, 0.5, 0.4995) == 9.0
    assert chosen(0.5, 0.49, 0.4) == 1.0
    assert tried[_chosen(tried, values[:1])]["lam"] == 1.0  # one trial says nothing about doubt
    values[3] = np.nan  # a fold in which nothing can be ranked
    assert tried[_chosen(tried, values)]["lam"] == 1.0


def test_head_alone_leaves_the_backbone_as_it_was(tmp_path, recipe):
    result = run(tmp_path / "run", recipe, tune="head")
    assert (result.epoch, result.weights) == (0, "raw")
    assert set(result.metrics) >= {"mAP"}
    assert [entry["epoch"] for entry in result.history] == [0]
    state = torch.load(tmp_path / "w.pth", weights_only=True)
    kept = weights_of(tmp_path / "run")
    for name, value in state.items():
        if not name.startswith("fc."):
            np.testing.assert_array_equal(kept[f"backbone.{name}"], value.numpy())
    assert np.abs(kept["head.weight"]).max() > 0


def test_tuning_starts_from_the_frozen_network_and_batch_norms_keep_their_statistics(tmp_path, recipe):
    result = run(tmp_path / "run", recipe, learning_rate=1e-3)
    assert [entry["epoch"] for entry in result.history] == [0, 1, 2]
    frozen = load_network(tmp_path / "run" / "frozen.safetensors").network.state_dict()
    _, last = read_state(tmp_path / "run" / "last.safetensors")
    for name, value in frozen.items():
        same = np.array_equal(value.numpy(), last["network"][name].reshape(value.shape))
        assert same == (not name.endswith(("weight", "bias"))), name


@pytest.mark.parametrize(("gain", "epoch"), [(0.1, 1), (0.0001, 0)])
def test_the_frozen_network_stays_unless_the_other_is_better_beyond_doubt(tmp_path, recipe, monkeypatch, gain, epoch):
    """Precisions scatter by 0.1 over 19 images: a gain of 0.0001 is none."""
    look, looks = Judge.look, []
    scatter = torch.rand(19, generator=torch.Generator().manual_seed(0)) / 5

    def better_each_time(self, state):
        found = look(self, state)
        jitter = 0.001 * torch.randn(19, generator=torch.Generator().manual_seed(len(looks)))
        self.precisions = dict.fromkeys(("raw", "ema", "half"), scatter + jitter + (gain if looks else 0))
        looks.append(1)
        worse = {"held-out mAP ema": 0.4} | ({"held-out mAP half": 0.4} if len(looks) > 1 else {})
        return {**found, "held-out mAP raw": 0.5 + 0.1 * (len(looks) == 2), **worse}

    monkeypatch.setattr(Judge, "look", better_each_time)
    result = run(tmp_path / "run", recipe)
    assert result.epoch == epoch
    assert load_network(tmp_path / "run").card["epoch"] == epoch


def test_the_network_half_way_between_frozen_and_tuned_is_a_choice(tmp_path, recipe, monkeypatch):
    monkeypatch.setattr(Judge, "is_beyond_doubt", lambda self, weights: True)
    look = Judge.look
    better = {"held-out mAP raw": 0.5, "held-out mAP ema": 0.4}
    monkeypatch.setattr(
        Judge,
        "look",
        lambda self, state: look(self, state) | better | ({"held-out mAP half": 0.6} if self.frozen else {}),
    )
    result = run(tmp_path / "run", recipe, learning_rate=1e-2)
    assert (result.epoch, result.weights) == (1, "half")
    assert load_network(tmp_path / "run").card["weights"] == "half"
    assert "half" not in " ".join(result.history[0])  # before tuning there is nothing between


def test_half_way_is_the_mean_of_all_weights(tmp_path, recipe, monkeypatch):
    seen = []
    networks = Judge.networks

    def kept(self, state):
        found = networks(self, state)
        if "half" in found:
            seen.append({name: copy.deepcopy(found[name].state_dict()) for name in ("ema", "half")})
            seen[-1]["frozen"] = self.frozen.state_dict()
        return found

    monkeypatch.setattr(Judge, "networks", kept)
    run(tmp_path / "run", recipe, learning_rate=1e-2)
    last = seen[-1]
    assert not torch.equal(last["frozen"]["head.weight"], last["ema"]["head.weight"])
    for name, value in last["half"].items():
        if value.is_floating_point():
            torch.testing.assert_close(value, (last["frozen"][name] + last["ema"][name]) / 2)


def test_a_stop_changes_nothing(tmp_path, recipe, monkeypatch):
    changes = {"look_every": 1, "checkpoint_seconds": 0.0}
    run(tmp_path / "whole", recipe, **changes)
    save, saved = TrainingState.save, []

    def stopping(self, path):
        save(self, path)
        saved.append(path)
        if len(saved) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(TrainingState, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", recipe, **changes)
    monkeypatch.setattr(TrainingState, "save", save)
    monkeypatch.setattr("propml.vision.head.fit_head", lambda *_, **__: pytest.fail("the head is there already"))
    learned, judged = mosaics(96)
    resumed = VisionRecipe(**{**recipe, **changes})
    train(learned, judged, resumed, tmp_path / "stopped", cache=None, verbose=False, device="cpu", resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "stopped")


def test_lam_is_chosen_with_the_head_and_not_by_short_runs(tmp_path, recipe, monkeypatch):
    monkeypatch.setattr(training, "lam_for", lambda *_, **__: pytest.fail("short runs"))
    result = run(tmp_path / "run", recipe, lam="auto", tune="head", noise=0.3)
    kept = json.loads((tmp_path / "run" / "lam.json").read_text())
    assert result.lam == kept["lam"]
    assert len({entry["lam"] for entry in kept["tried"]}) == 4


def test_the_oracle_chooses_the_head_by_true_labels(tmp_path, recipe):
    result = run(tmp_path / "run", recipe, lam="auto", tune="head", select="oracle", noise=0.3)
    tried = json.loads((tmp_path / "run" / "lam.json").read_text())["tried"]
    assert result.metrics["mAP"] == pytest.approx(max(entry["worth"] for entry in tried), abs=0.02)  # one view, not two


def test_too_few_images_to_judge_by_are_told_before_any_work(tmp_path, recipe, monkeypatch):
    monkeypatch.setattr("propml.vision.head.compute_features", lambda *_, **__: pytest.fail("computed"))
    with pytest.raises(ValueError, match=r"0 of 8 images are held out, .*; raise"):
        run(tmp_path / "run", recipe, n=8, hold_out=0.01)
