"""Two processes on one machine are one process with the whole batch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_runs import run, small_recipe, weights_of

from propml.vision.batches import Batches
from propml.vision.distributed import Process, join_processes

CPU = torch.device("cpu")

# What each of the two processes does: train, and score images that cannot be shared out evenly.
CODE = """
import json, os, sys
import torch
torch.set_num_threads(1)
sys.path.insert(0, {tests!r})
from small_runs import run, small_recipe
result = run({out!r}, small_recipe(**{changes!r}), n_train=75, n_test=41)
rank = os.environ["RANK"]
print(json.dumps([rank, result.history, result.metrics, result.epoch, result.weights]), file=open({out!r} + rank, "w"))
"""
# What is left of a group when its training is over: gloo's threads, one of which may abort a process that ends.
THREADS = """
import os, threading
import torch
from propml.vision.distributed import join_processes
def threads():
    return {open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")}
with join_processes("cpu") as here:
    network = here.wrap(torch.nn.Linear(2, 2))
    network(torch.ones(1, 2)).sum().backward()
    del network
print(sum("gloo" in name for name in threads()), file=open(OUT + os.environ["RANK"], "w"))
"""
# 75 images, 8 of them held out: 67 are steps of 32, 32 and 3, which two processes fill up to 4.
CHANGES = {"batch_size": 32, "noise": 0.3, "lam": "auto", "lam_epochs": 1, "hold_out": 0.1, "epochs": 2}


def two_processes(code, tmp_path):
    script = tmp_path / "work.py"
    script.write_text(code)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_no_thread_outlives_the_group(tmp_path):
    out = str(tmp_path / "threads")
    two_processes(f"OUT = {out!r}\n" + THREADS, tmp_path)
    assert [Path(out + rank).read_text().strip() for rank in "01"] == ["0", "0"]


@pytest.mark.parametrize("compiled", [None, pytest.param("default", marks=pytest.mark.slow)])
def test_two_processes_learn_and_measure_what_one_does(compiled, tmp_path):
    out = str(tmp_path / "two")
    changes = {**CHANGES, "compile": compiled}
    two_processes(CODE.format(tests=str(Path(__file__).parent), out=out, changes=changes), tmp_path)
    first, second = (json.loads(Path(out + rank).read_text()) for rank in "01")
    assert _without_speed(first[1]) == _without_speed(second[1])
    assert first[2:] == second[2:]
    one = run(tmp_path / "one", small_recipe(**CHANGES), n_train=75, n_test=41)
    assert first[3:] == [one.epoch, one.weights]
    for name, value in one.metrics.items():
        assert first[2][name] == pytest.approx(value, abs=1e-3), name
    for ours, theirs in zip(_without_speed(first[1]), _without_speed(one.history), strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert ours["held-out mAP raw"] == pytest.approx(theirs["held-out mAP raw"], abs=1e-3)
    together, alone = weights_of(out), weights_of(tmp_path / "one")
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, atol=2e-3, err_msg=name)


STOPPED = """
import os, sys
sys.path.insert(0, {tests!r})
from small_runs import run, small_recipe
rank, heard = os.environ["RANK"], []
result = run({out!r}, small_recipe(epochs=3), on_epoch=lambda record: heard.append(record) or len(heard) == 1)
print(len(heard), len(result.history), file=open({out!r} + rank, "w"))
"""


def test_the_first_process_ends_the_training_of_all(tmp_path):
    out = str(tmp_path / "two")
    two_processes(STOPPED.format(tests=str(Path(__file__).parent), out=out), tmp_path)
    assert [Path(out + rank).read_text().split() for rank in "01"] == [["1", "1"], ["0", "1"]]


def _without_speed(history):
    return [{name: value for name, value in entry.items() if name != "images_per_second"} for entry in history]


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("n_images", [1, 7, 12, 19])
def test_filling_is_told_from_images(world, n_images):
    """Over all processes every image of an epoch counts once, whatever the sampler fills up with."""
    images, targets = np.zeros((n_images, 2, 2, 3), np.uint8), np.zeros((n_images, 1))
    seen, per_process = [], 4
    for rank in range(world):
        here = Process(CPU, rank, world)
        batches = Batches(images, targets, per_process, rank=rank, world=world)
        for step, (_, _, index) in enumerate(batches.epoch(0)):
            left = n_images - step * per_process * world
            weights, factor = here.true_images(left, len(index))
            seen += (index if weights is None else index[weights > 0]).tolist()
            assert factor * min(left, per_process * world) == len(index) * world
    assert sorted(seen) == list(range(n_images))


def test_a_batch_that_cannot_be_shared_out_is_refused():
    assert Process(CPU, 0, 2).batch_size(64) == 32
    with pytest.raises(ValueError, match="64 images cannot be shared out among 3 processes"):
        Process(CPU, 0, 3).batch_size(64)


def test_one_process_needs_nothing(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    with join_processes("cpu") as here:
        assert (here.rank, here.world, here.is_first) == (0, 1, True)
        network = torch.nn.Linear(1, 1)
        assert here.wrap(network) is network
        assert here.gather(3) == [3]
        here.share_buffers(network)
        here.wait()
        assert torch.equal(here.mean(torch.ones(2)), torch.ones(2))
    with join_processes("auto") as here:
        assert here.device.type == ("cuda" if torch.cuda.is_available() else "cpu")


def test_a_group_in_this_process(monkeypatch):
    """What several processes say to each other, checked with one that believes it is two of itself."""
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("this torch is built without torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        here = Process(CPU, 0, 2)
        assert here.gather("mine")[0] == "mine"
        network = torch.nn.BatchNorm1d(2)
        here.share_buffers(network)
        here.wait()
        assert torch.equal(here.mean(torch.full((2,), 4.0)), torch.full((2,), 2.0))
        assert isinstance(here.wrap(network), torch.nn.parallel.DistributedDataParallel)
        monkeypatch.setenv("WORLD_SIZE", "2")
        with join_processes("cpu") as joined:  # somebody else's group is used, and left alone
            assert joined.world == 2
        assert dist.is_initialized()
    finally:
        dist.destroy_process_group()
