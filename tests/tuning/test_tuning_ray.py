"""The search on a real Ray cluster of two nodes on this machine, whose workers are killed."""

import sys
from pathlib import Path

import pytest
import ray
import ray.tune
from fake_tasks import Cliff, Hill, KilledOnce, Thirsty

from propml.datasets import digits_mosaic
from propml.tuning import ray_search
from propml.tuning.result import TrialRecord
from propml.tuning.searching import run_search, search
from propml.tuning.trials import Desk

# Clusters on one machine disturb each other: one worker runs all of these.
pytestmark = pytest.mark.xdist_group("ray")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def cluster(ray_nodes):
    """Two nodes, whose workers find the fake tasks."""
    with ray_nodes(HERE) as nodes:
        yield nodes


def test_a_killed_worker_s_trial_goes_on_from_its_checkpoint_and_networks_run(cluster, tmp_path):
    """One connection for two searches, since a cluster takes long to start workers."""
    ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
    task = KilledOnce(epochs=4, log=tmp_path / "log")
    found = run_search(
        task, trials=3, storage=tmp_path / "s.db", ray_address=cluster.address, folder=tmp_path / "files"
    )
    assert len(found.trials) == 3
    killed = float((tmp_path / "killed").read_text())
    epochs = [epoch for x, epoch, _ in task.lines() if x == killed]
    # Epochs 1 and 2 were not done again after the kill in epoch 3: they were in the checkpoint.
    assert epochs[:4] == [1, 2, 3, 3]
    pids = [pid for x, epoch, pid in task.lines() if x == killed and epoch == 3]
    assert pids[0] != pids[1]
    own = next(each for each in found.trials if each.params["x"] == killed)
    assert own.state in ("complete", "pruned")
    assert own.curve[own.epochs] == pytest.approx(task.value(killed, own.epochs))
    # The study is the same as everywhere: it goes on without a cluster.
    assert len(run_search(Hill(epochs=4), trials=4, storage=tmp_path / "s.db").trials) == 4

    made = digits_mosaic(60)
    space = {"hidden": [(8,)], "dropout": 0.5}
    networks = search(made.X, made.candidates, trials=1, epochs=3, space=space, ray_address=cluster.address)
    alone = search(made.X, made.candidates, trials=1, epochs=3, space=space)
    # Trial 0 has the same proposal; here and there it learns the same.
    assert networks.trials[0].params == alone.trials[0].params
    assert networks.trials[0].curve[1] == pytest.approx(alone.trials[0].curve[1], abs=1e-6)
    ray.shutdown()


class FakeRay:
    """What a worker sees of Ray: reports go out, a checkpoint may come in."""

    def __init__(self, monkeypatch, checkpoint=None):
        self.results, self.kept, self.checkpoint = [], [], checkpoint
        for name in ("report", "get_checkpoint"):
            monkeypatch.setattr(ray.tune, name, getattr(self, name))

    def report(self, metrics, *, checkpoint=None):
        self.results.append(metrics)
        self.kept.append(None if checkpoint is None else sorted(path.name for path in Path(checkpoint.path).iterdir()))

    def get_checkpoint(self):
        return self.checkpoint


def test_what_a_worker_reports(monkeypatch, tmp_path):
    fake = FakeRay(monkeypatch)
    ray_search._train({"configuration": {"x": 0.2}, "number": 0}, Hill(epochs=2), None)
    assert [(r["epoch"], r["over"]) for r in fake.results] == [(1, False), (2, True)]
    assert [r["value"] for r in fake.results] == pytest.approx([0.98, 0.99])
    assert fake.kept == [["epoch.json"]] * 2
    (tmp_path / "epoch.json").write_text("1")
    fake = FakeRay(monkeypatch, ray.tune.Checkpoint.from_directory(tmp_path))
    ray_search._train({"configuration": {"x": 0.2}, "number": 0}, Hill(epochs=2), None)
    assert [r["epoch"] for r in fake.results] == [2]


def test_a_trial_that_fails_says_why_instead_of_being_tried_again(monkeypatch):
    fake = FakeRay(monkeypatch)
    ray_search._train({"configuration": {"x": 0.9}, "number": 0}, Cliff(), None)
    assert [r["why"] for r in fake.results] == ["its objective is nan after epoch 1, which is no number to compare"]
    ray_search._train({"configuration": {"x": 0.9}, "number": 0}, Thirsty(), None)
    assert fake.results[-1]["why"].startswith("out of memory")


def test_a_task_that_keeps_its_files_has_a_folder_that_all_machines_see(monkeypatch, tmp_path):
    fake, task = FakeRay(monkeypatch), Hill()
    task.is_large = True
    ray_search._train({"configuration": {"x": 0.2}, "number": 7}, task, tmp_path)
    assert (tmp_path / "trials" / "7" / "epoch.json").exists()
    assert fake.kept == [None]


def test_the_study_behind_ray_s_searcher():
    desk, ends = Desk(Hill(epochs=3), 1), []
    desk.progress = lambda: ends.append(0)
    study, searcher = desk.study, ray_search._searcher(desk)
    proposed = searcher.suggest("a")
    assert proposed["configuration"].keys() == {"x"}
    assert searcher.suggest("b") == "FINISHED"
    searcher.on_trial_result("a", {"epoch": 1, "value": 0.4})
    searcher.on_trial_result("a", {"epoch": 1, "value": 0.4, "why": "it rained"})
    searcher.on_trial_complete("a", {"epoch": 2, "value": 0.5, "over": False})
    assert study.trials[0].intermediate_values == {1: 0.4, 2: 0.5}
    assert study.trials[0].state.name == "PRUNED"
    assert ends == [0]


def test_no_cluster_is_one_sentence():
    with pytest.raises(ValueError, match=r"no Ray cluster answers at '127\.0\.0\.1:1'"):
        run_search(Hill(), trials=1, ray_address="127.0.0.1:1")


def test_enough_trials_need_no_cluster(tmp_path):
    run_search(Hill(), trials=2, storage=tmp_path / "s.db")
    found = run_search(Hill(), trials=2, storage=tmp_path / "s.db", ray_address="127.0.0.1:1")
    assert len(found.study.trials) == 2
    with pytest.raises(ValueError, match="no Ray cluster answers"):  # one more would need it
        run_search(Hill(), trials=3, storage=tmp_path / "s.db", ray_address="127.0.0.1:1")


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"propml\[cluster\]"):
        run_search(Hill(), trials=1, ray_address="local")


@pytest.mark.parametrize(
    ("result", "error", "expected"),
    [
        ({"why": "it rained"}, False, ("failed", "it rained")),
        ({}, True, ("failed", "its worker died 3 times, most often for want of memory")),
        ({"value": 0.5, "epoch": 3, "over": True}, False, ("complete", "")),
        ({"value": 0.5, "epoch": 1, "over": False}, False, ("pruned", "")),
    ],
)
def test_how_a_trial_of_ray_ends(result, error, expected):
    desk = Desk(Hill(epochs=3), 5)
    ray_search.end(desk, desk.ask(), result, error)
    records = [TrialRecord.of(trial, desk.task.space) for trial in desk.study.trials]
    assert [(each.state, each.why) for each in records] == [expected]
