"""The search on a real Ray cluster of two nodes on this machine, whose workers are killed."""

import sys
from pathlib import Path

import pytest
import ray
from fake_tasks import Hill, KilledOnce

from propml.datasets import digits_mosaic
from propml.tuning.searching import Board, run_search, search

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


def test_the_board_tells_values_one_way_and_who_stops_the_other():
    board = Board()
    assert not board.report(7, 1, 0.5)
    assert board.take() == [(7, 1, 0.5)]
    board.stop([7])
    assert board.report(7, 2, 0.6)
    assert not board.report(8, 1, 0.1)
    assert board.take() == [(7, 2, 0.6), (8, 1, 0.1)]
    assert board.take() == []


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
