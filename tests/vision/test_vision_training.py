"""The loop: it learns, it resumes to the last bit, it stops at NaN, and it refuses to mix two runs."""

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import mosaics, run, same_weights, small_recipe, weights_of

import propml.vision.training as training
from propml.atomic_files import lock_file
from propml.persistence import read_state
from propml.vision.checkpoint import TrainingState
from propml.vision.optimiser import WeightAverage
from propml.vision.sources import ImageSource
from propml.vision.training import train

# Runs a training in another process, which kills itself in the middle of its n-th step.
KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
sys.path.insert(0, {tests!r})
from small_runs import run, small_recipe
from propml.vision.optimiser import WeightAverage
update, steps = WeightAverage.update, 0
def killing(self):
    global steps
    steps += 1
    if steps == {at}:
        os.kill(os.getpid(), signal.SIGKILL)
    update(self)
WeightAverage.update = killing
run({out!r}, small_recipe(**{changes!r}))
"""
# Three steps an epoch, a checkpoint after every one.
EVERY_STEP = {"look_every": 1, "checkpoint_seconds": 0.0, "noise": 0.3, "augment": "paper", "hold_out": 0.1}


def killed(out, at, changes):
    code = KILLED.format(tests=str(Path(__file__).parent), at=at, out=str(out), changes=changes)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_kill_9_in_mid_epoch_then_resume_ends_with_the_same_weights(tmp_path):
    """Adam, averaged weights, dropout, batch norm and augmentation all go on where they were."""
    changes = {**EVERY_STEP, "backbone": "test_resnet", "size": 32, "head": "query2label", "epochs": 2, "look_every": 2}
    changes |= {"head_width": 16, "head_feedforward": 32, "batch_size": 16}
    whole = run(tmp_path / "whole", small_recipe(**changes))
    # Six steps an epoch: the fourth of the second epoch, whose last checkpoint is from after its second.
    killed(tmp_path / "killed", 10, changes)
    _, left = read_state(tmp_path / "killed" / "last.safetensors")
    assert (left["epoch"], left["step"]) == (1, 2)
    resumed = run(tmp_path / "killed", small_recipe(**changes), resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "killed")
    for ours, theirs in zip(whole.history, resumed.history, strict=True):
        for name in ours.keys() - {"images_per_second"}:
            assert ours[name] == theirs[name], name
    assert (whole.epoch, whole.weights, whole.metrics) == (resumed.epoch, resumed.weights, resumed.metrics)


@pytest.mark.parametrize("after", [3, 6, 8])
def test_a_stop_anywhere_changes_nothing(tmp_path, monkeypatch, after):
    """While λ is being chosen; and in two epochs of CDCR's second stage, with scaled gradients."""
    changes = dict(EVERY_STEP)
    if after == 3:
        changes |= {"lam": "auto", "lam_epochs": 1, "epochs": 1}
    else:
        changes |= {"loss": "bce", "curriculum": "cdcr", "warmup_epochs": 1, "epochs": 3, "precision": "float16"}
    run(tmp_path / "whole", small_recipe(**changes))
    update, steps = WeightAverage.update, []

    def stopping(self):
        update(self)
        steps.append(self.updates)
        if len(steps) == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(WeightAverage, "update", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "stopped", small_recipe(**changes))
    monkeypatch.setattr(WeightAverage, "update", update)
    run(tmp_path / "stopped", small_recipe(**changes), resume=True)
    assert same_weights(tmp_path / "whole", tmp_path / "stopped")


def test_images_that_cannot_be_read_are_told_before_training_and_listed(tmp_path):
    learned, _ = mosaics(40)
    paths = []
    for i, pixels in enumerate(learned.items):
        paths.append(tmp_path / f"{i}.png")
        if i % 5:
            Image.fromarray(pixels).save(paths[i])
    source = ImageSource("mine", tuple(paths), learned.truth, None, learned.label_names, "train")
    told = []

    def tell(note):
        told.append(note)
        assert not (tmp_path / "run" / "curves.csv").exists()

    result = train(source, None, small_recipe(epochs=1), tmp_path / "run", cache=None, verbose=False, tell=tell)
    assert told == result.notes
    assert "mine (train): 32 images; 8 could not be read and are left out: " in told[1]
    assert told[1].endswith("and 3 more")
    lines = (tmp_path / "run" / "skipped.txt").read_text().splitlines()
    assert lines == [f"{paths[i]}: there is no such file" for i in range(0, 40, 5)]


def test_a_finished_run_is_only_read(tmp_path):
    first = run(tmp_path / "run", small_recipe())
    before = (tmp_path / "run" / "best.safetensors").stat().st_mtime_ns
    again = run(tmp_path / "run", small_recipe(), resume=True)
    assert (first.metrics, first.history) == (again.metrics, again.history)
    assert (tmp_path / "run" / "best.safetensors").stat().st_mtime_ns == before


def test_whoever_hears_of_every_epoch_may_end_the_training(tmp_path):
    heard = []

    def at_two(record):
        heard.append(record)
        return record["epoch"] == 2

    recipe = small_recipe(epochs=4)
    stopped = run(tmp_path / "stopped", recipe, on_epoch=at_two)
    assert heard == stopped.history
    assert [record["epoch"] for record in heard] == [1, 2]
    # Resumed, it tells the earlier epochs again and ends as if it had not been stopped.
    heard.clear()
    resumed = run(tmp_path / "stopped", recipe, resume=True, on_epoch=heard.append)
    assert heard == resumed.history
    assert [record["epoch"] for record in heard] == [1, 2, 3, 4]
    run(tmp_path / "whole", recipe)
    assert same_weights(tmp_path / "whole", tmp_path / "stopped")
    # One that says so of an earlier epoch ends it before another one.
    assert run(tmp_path / "stopped", recipe, resume=True, on_epoch=at_two).history == resumed.history


def test_two_runs_do_not_mix(tmp_path):
    run(tmp_path / "run", small_recipe(epochs=1))
    with pytest.raises(ValueError, match="holds a run already"):
        run(tmp_path / "run", small_recipe(epochs=1))
    with pytest.raises(ValueError, match=r"was started with epochs 1, not 2, learning_rate 0\.003, not 0\.1; go on"):
        run(tmp_path / "run", small_recipe(epochs=2, learning_rate=0.1), resume=True)


def test_two_runs_do_not_share_a_folder(tmp_path):
    (tmp_path / "run").mkdir()
    with (tmp_path / "run" / ".lock").open("w") as file:
        lock_file(file.fileno())
        with pytest.raises(ValueError, match="another run is under way"):
            run(tmp_path / "run", small_recipe(epochs=1))
    run(tmp_path / "run", small_recipe(epochs=1))


def test_what_others_put_into_a_folder_stays_there(tmp_path):
    out = tmp_path / "run"
    (out / "lam" / "notes").mkdir(parents=True)
    for name in ("skipped.txt", "lam/notes/mine.txt"):
        (out / name).write_text("mine")
    run(out, small_recipe(epochs=1))
    assert (out / "skipped.txt").read_text() == (out / "lam/notes/mine.txt").read_text() == "mine"


def test_a_network_without_its_checkpoint_is_not_trained_over(tmp_path):
    run(tmp_path / "run", small_recipe(epochs=1))
    for name in ("last.safetensors", "curves.csv"):
        (tmp_path / "run" / name).unlink()
    with pytest.raises(ValueError, match="holds a run already"):
        run(tmp_path / "run", small_recipe(epochs=1))


def test_a_folder_in_which_nothing_was_learned_is_that_of_a_new_run(tmp_path):
    with pytest.raises(ValueError, match="cannot take images of 4 × 4 pixels"):
        run(tmp_path / "run", small_recipe(size=4, lam="auto", noise=0.2))
    assert (tmp_path / "run" / "recipe.json").exists()
    run(tmp_path / "run", small_recipe(epochs=1, noise=0.3))
    run(tmp_path / "clean", small_recipe(epochs=1, noise=0.3))
    assert same_weights(tmp_path / "run", tmp_path / "clean")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {p.name for p in (tmp_path / "clean").iterdir()}


def test_a_run_that_was_stopped_while_lam_was_chosen_is_not_overwritten(tmp_path, monkeypatch):
    def stopping(self, path):
        save(self, path)
        raise KeyboardInterrupt

    save = TrainingState.save
    monkeypatch.setattr(TrainingState, "save", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", small_recipe(lam="auto", lam_epochs=1, epochs=1))
    assert not (tmp_path / "run" / "last.safetensors").exists()
    with pytest.raises(ValueError, match="holds a run already"):
        run(tmp_path / "run", small_recipe(lam="auto", lam_epochs=1, epochs=1))


@pytest.mark.parametrize("changes", [{}, {"lam": "auto"}, {"lam": "auto", "select": "last"}])
def test_a_handful_of_images_is_refused_before_training(tmp_path, changes):
    with pytest.raises(ValueError, match=r"0 of 5 images are held out, .*; raise"):
        run(tmp_path / "run", small_recipe(**changes), n_train=5)
    assert run(tmp_path / "run", small_recipe(select="last"), n_train=5).epoch == 2


def test_a_last_batch_of_one_image_does_not_break_batch_norms(tmp_path):
    """At 32 pixels the last batch norms of this network see a single place of each image."""
    recipe = small_recipe(backbone="resnet10t", size=32, batch_size=16, select="last", epochs=1)
    learned, _ = mosaics(33)
    assert train(learned, None, recipe, tmp_path / "run", cache=None, verbose=False).epoch == 1


def test_images_of_a_single_label_are_learned_from(tmp_path):
    learned, judged = (
        replace(each, truth=each.truth[:, :1], candidates=None, label_names=each.label_names[:1])
        for each in mosaics(96, 50)
    )
    result = train(learned, judged, small_recipe(), tmp_path / "run", cache=None, verbose=False)
    assert set(result.held_out) == {"mAP"}
    assert 0 < result.metrics["mAP"] <= 1


def test_propml_is_above_bce_where_two_fifths_of_all_false_labels_are_candidates(tmp_path):
    """The mean of three seeds; λ ≈ 0.25 is what held-out candidates choose for each of them.

    Single runs scatter by five points. Over ten seeds ProPML is ahead by 5.8 points of mAP (70.9 against 65.2), in nine
    of them, and with batches of 16 images by 3.0, in eight.
    """
    found = {"bce": [], "propml": []}
    for seed in (0, 1, 2):
        for loss, lam in (("bce", 1.0), ("propml", 0.25)):
            recipe = small_recipe(loss=loss, lam=lam, noise=0.4, epochs=16, eval_every=16, seed=seed)
            result = run(tmp_path / f"{loss}{seed}", recipe, n_train=600, n_test=500)
            found[loss].append(result.metrics["mAP"])
    assert np.mean(found["propml"]) > np.mean(found["bce"])
    assert np.mean(found["bce"]) > 0.5  # a ranking by chance has 0.36, so that both have learned


def test_lam_is_the_best_on_held_out_candidates(tmp_path):
    found = run(tmp_path / "run", small_recipe(noise=0.2, lam="auto", lam_epochs=6, epochs=6), n_train=600)
    tried = json.loads((tmp_path / "run" / "lam.json").read_text())["tried"]
    assert len(tried) == 4
    assert found.lam == max(tried, key=lambda entry: entry["worth"])["lam"]
    for entry in tried:
        assert entry["worth"] == pytest.approx(entry["held_out"]["mAP"])  # of the weights that the short run selected
    assert not (tmp_path / "run" / "lam").exists()  # the short runs are gone, their numbers stay
    assert run(tmp_path / "bce", small_recipe(loss="bce", lam="auto")).lam == 1.0


@pytest.mark.parametrize("loss", ["asl", "propall", "power", "unbiased"])
def test_every_loss_learns(tmp_path, loss):
    recipe = small_recipe(loss=loss, noise=0.1, epochs=5, lam=1.0, batch_size=16)
    history = run(tmp_path / "run", recipe, n_train=300, n_test=200).history
    assert history[-1]["mAP raw"] > history[0]["mAP raw"] + 0.01


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_images(tmp_path, monkeypatch):
    make = training.make_objective

    def poisoned(*arguments):
        objective = make(*arguments)
        forward, calls = objective.forward, []

        def nan_at_third(*args, **options):
            calls.append(1)
            return forward(*args, **options) * (float("nan") if len(calls) == 3 else 1.0)

        objective.forward = nan_at_third
        return objective

    monkeypatch.setattr(training, "make_objective", poisoned)
    with pytest.raises(ValueError, match=r"the loss is nan in epoch 1, step 3, on the batch of image \d+, image \d+"):
        run(tmp_path / "run", small_recipe(look_every=2, checkpoint_seconds=0.0))
    monkeypatch.setattr(training, "make_objective", make)
    run(tmp_path / "run", small_recipe(look_every=2), resume=True)  # the checkpoint is from before the NaN
    run(tmp_path / "clean", small_recipe())
    assert same_weights(tmp_path / "run", tmp_path / "clean")


def test_last_learns_from_all_images_and_takes_the_last_epoch(tmp_path):
    result = run(tmp_path / "run", small_recipe(select="last", epochs=3, ema_decay=0.0, eval_every=2))
    assert (result.epoch, result.weights, result.held_out) == (3, "raw", {})
    assert [entry["epoch"] for entry in result.history] == [2, 3]
    assert "mAP ema" not in result.history[0]


def test_the_oracle_selects_by_true_labels_as_the_paper_does(tmp_path):
    result = run(tmp_path / "run", small_recipe(select="oracle", epochs=3, lam="auto", lam_epochs=1, noise=0.3))
    best = max(entry[f"mAP {weights}"] for entry in result.history for weights in ("raw", "ema"))
    assert result.metrics["mAP"] == best
    tried = json.loads((tmp_path / "run" / "lam.json").read_text())["tried"]
    assert result.lam == max(tried, key=lambda entry: entry["validation"]["mAP"])["lam"]


def test_a_run_writes_what_it_did(tmp_path):
    pytest.importorskip("tensorboard")
    run(tmp_path / "run", small_recipe(noise=0.2), tensorboard=True)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {
        ".lock",
        "recipe.json",
        "candidates.npz",
        "curves.csv",
        "last.safetensors",
        "best.safetensors",
        "tensorboard",
    }
    with np.load(tmp_path / "run" / "candidates.npz") as stored:
        assert stored["candidates"].shape == (96, 10)
    assert len((tmp_path / "run" / "curves.csv").read_text().splitlines()) == 3


def test_the_seed_decides_everything(tmp_path):
    for folder, seed in (("one", 0), ("same", 0), ("other", 1)):
        run(tmp_path / folder, small_recipe(seed=seed, noise=0.3, augment="paper", epochs=1))
    assert same_weights(tmp_path / "one", tmp_path / "same")
    one, other = weights_of(tmp_path / "one"), weights_of(tmp_path / "other")
    assert not np.array_equal(one["head.weight"], other["head.weight"])


def test_decoded_images_are_kept_in_a_folder_of_ones_own(tmp_path, monkeypatch):
    learned, _ = mosaics(40)
    train(learned, None, small_recipe(size=8, epochs=1), tmp_path / "run", cache=tmp_path / "cache", verbose=False)
    assert list((tmp_path / "cache").glob("*/images.npy"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    train(learned, None, small_recipe(size=8, epochs=1), tmp_path / "again", verbose=False)
    assert list((tmp_path / "xdg" / "propml" / "images").glob("*/images.npy"))


@pytest.mark.slow
def test_a_compiled_network_learns_the_same(tmp_path):
    plain = run(tmp_path / "plain", small_recipe(epochs=1))
    compiled = run(tmp_path / "compiled", small_recipe(epochs=1, compile="default"))
    assert compiled.history[0]["loss"] == pytest.approx(plain.history[0]["loss"], rel=1e-3)
    torch._dynamo.reset()
