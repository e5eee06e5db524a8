"""Cells on a real Ray cluster of two nodes on this machine, whose workers are killed."""

import json
import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import fake_cells
import pytest
import ray
from fake_cells import cell

from propml.benchmark.executors import RayCluster
from propml.benchmark.runner import run_experiment
from propml.benchmark.store import ResultStore

# Clusters on one machine disturb each other: one worker runs all of these.
pytestmark = pytest.mark.xdist_group("ray")

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("ray")


@pytest.fixture(scope="module")
def cluster(ray_nodes, log):
    """Two nodes, whose workers find the fake cells."""
    with ray_nodes(HERE, FAKE_CELLS=str(log)) as nodes:
        yield nodes


def where(cell):
    """Fails with what a worker sees."""
    import propml

    seen = {name: os.environ.get(name) for name in ("PROPML_DATA", "OMP_NUM_THREADS")}
    seen |= {"file": propml.__file__, "node": ray.get_runtime_context().get_node_id(), "pid": os.getpid()}
    raise RuntimeError(json.dumps(seen))


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel tells who listens in /proc")
def test_a_ray_that_starts_here_listens_to_this_machine_only():
    """Whoever reaches a Ray can run code on it. This comes before the cluster, whose workers open ports at any time."""
    before, handler = listening(), signal.getsignal(signal.SIGTERM)
    executor = RayCluster(workers=1, compute=fake_cells.compute)
    try:
        assert wait([executor.submit(cell("Fails"))], 60).done
        opened = {address for _, address in listening() - before}
        assert signal.getsignal(signal.SIGTERM) is handler
    finally:
        executor.close()
    assert opened
    assert opened <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def test_workers_of_both_nodes_have_this_package_and_this_data(cluster, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PROPML_DATA", "data")
    executor = RayCluster(cluster.address, compute=where)
    assert executor.slots == 2
    futures = [executor.submit(cell("Where", seed=seed)) for seed in range(6)]
    seen = [json.loads(future.result(60).failure.message) for future in futures]
    executor.close()
    assert not ray.is_initialized()
    assert {each["PROPML_DATA"] for each in seen} == {str(tmp_path / "data")}
    assert {each["OMP_NUM_THREADS"] for each in seen} == {"1"}
    # Not the package beside these tests: the copy that was sent with the job, which any machine has.
    assert all(Path(each["file"]).match("*/runtime_resources/py_modules_files/*/propml/__init__.py") for each in seen)
    assert os.getpid() not in {each["pid"] for each in seen}


def test_killed_workers_cost_nothing(cluster, log, tmp_path):
    """Cells wait on both nodes, a worker is killed, and in the end all cells are there once; one kills every worker."""
    killed = []

    def kill_one():
        while not killed:
            lines = (log / "computed.txt").read_text().splitlines() if (log / "computed.txt").exists() else []
            waiting = [int(line.split()[1]) for line in lines if "-Waits-" in line]
            if len(waiting) == 2:  # on both nodes, which have one CPU each
                os.kill(waiting[0], signal.SIGKILL)
                killed.append(waiting[0])
                (log / "go").touch()
            time.sleep(0.02)

    killer = threading.Thread(target=kill_one, daemon=True)
    killer.start()
    toy = fake_cells.experiment(("Waits", "Plain", "Fails"), datasets=("birds",))
    deadly = fake_cells.experiment(("Killed",), datasets=("scene",), noise=(50.0,))
    both = SimpleNamespace(name="toy", title="A toy", note="", cells=lambda: [*toy.cells(), *deadly.cells()])
    summary = run_experiment(
        both, tmp_path / "r", ray_address=cluster.address, retries=1, compute=fake_cells.compute, verbose=False
    )
    killer.join(timeout=10)
    assert killed
    computed = [tuple(line.split()) for line in (log / "computed.txt").read_text().splitlines()]
    waited = next(key for key, pid in computed if int(pid) == killed[0] and "-Waits-" in key)
    tried = [int(pid) for key, pid in computed if key == waited]
    assert len(tried) == 2
    assert tried[0] == killed[0] != tried[1]
    assert sorted(each.method.name for each in summary.done) == ["Plain", "Plain", "Waits", "Waits"]
    failed = {each.method: each for each in summary.failed}
    assert len(summary.failed) == 3
    assert failed["Fails"].failure.error == "ZeroDivisionError"
    assert failed["Killed"].failure.error == "WorkerCrashedError"
    assert failed["Killed"].failure.message.startswith("The worker died unexpectedly")
    assert [key for key, _ in computed].count(failed["Killed"].key) == 2
    run_experiment(toy, tmp_path / "here", compute=fake_cells.compute, verbose=False)
    there, here = (
        {each.key: each.folds for each in ResultStore(tmp_path / folder).cells() if each.folds}
        for folder in ("r", "here")
    )
    assert there == here
    assert len(there) == 4
    assert ResultStore(tmp_path / "r").runs()[0]["executor"] == "ray"


def test_a_ray_that_is_running_already_is_used_and_left_running(cluster):
    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    executor = RayCluster(compute=fake_cells.compute)
    plain, _ = (executor.submit(cell(name)) for name in ("Plain", "Waits"))
    plain.result(30)
    executor.close()
    assert ray.is_initialized()
    ray.shutdown()


def listening():
    """The addresses on which this process and its descendants listen, with the sockets' inodes.

    Tests in other processes open sockets meanwhile, clusters of their own among them.
    """
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    ours = {inode for process in family() for inode in sockets(process)}
    return {(row[9], row[1].partition(":")[0]) for row in rows if row[3] == "0A" and row[9] in ours}


def family():
    """This process and all that it started, directly or not."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may be gone by now
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def sockets(process):
    """The inodes of a process's sockets."""
    links = []
    with suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                links.append(os.readlink(link))
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def test_a_ray_that_would_listen_to_others_is_not_left_running(monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: None)
    monkeypatch.setattr(ray.util, "get_node_ip_address", lambda: "10.0.0.7")
    with pytest.raises(ValueError, match=r"listens on 10\.0\.0\.7, where other machines reach it"):
        RayCluster(workers=1)


def test_cells_do_not_wait_for_a_gpu_that_is_not_there(cluster):
    with pytest.raises(ValueError, match="the Ray cluster has none"):
        RayCluster(cluster.address, gpus=1)
    assert not ray.is_initialized()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nowhere.invalid:6379"])
def test_no_cluster_is_one_sentence_before_ray_waits_for_it(address, monkeypatch):
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked, and would wait for minutes"))
    with pytest.raises(
        ValueError, match=rf"no Ray cluster answers at '{address}'.*the address that `ray start --head`"
    ):
        RayCluster(address)


def test_without_ray_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"propml\[cluster\]"):
        RayCluster()
