"""Worker processes: what they compute comes back, and when one dies the others and its cell live on."""

import dataclasses
import os
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import wait
from functools import partial
from pathlib import Path

import fake_cells
import pytest
from fake_cells import cell

from propml.benchmark.executors import InProcess, LocalProcesses, WorkerDied, attempt
from propml.benchmark.runner import run_experiment
from propml.benchmark.store import ResultStore

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def log(tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_CELLS", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def pool_log(tmp_path_factory):
    return tmp_path_factory.mktemp("pool")


@pytest.fixture(scope="module")
def pool(pool_log):
    executor = LocalProcesses(2, retries=1, compute=partial(compute_in, pool_log))
    yield executor
    executor.close()


def compute_in(folder, cell):
    os.environ["FAKE_CELLS"] = str(folder)
    return fake_cells.compute(cell)


@pytest.fixture(autouse=True)
def fresh_log(pool_log):
    (pool_log / "computed.txt").unlink(missing_ok=True)


def finish(executor, *cells):
    """What becomes of cells, by the names of their methods; a cell without a result by what it failed with."""
    futures = {each.method.name: executor.submit(each) for each in cells}
    assert not wait(futures.values(), 60).not_done, "workers hang"
    ended = {name: future.exception() or future.result() for name, future in futures.items()}
    assert all(ended[each.method.name].key == each.key for each in cells if not futures[each.method.name].exception())
    return ended


def running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.05)


def report_environment(cell):
    import torch

    raise RuntimeError(f"OMP_NUM_THREADS is {os.environ['OMP_NUM_THREADS']}, and torch has {torch.get_num_threads()}")


def test_a_cell_that_raises_is_a_failure_without_folders_in_it():
    failure = attempt(cell("Fails"), fake_cells.compute).failure
    assert (failure.error, failure.message) == ("ZeroDivisionError", "nothing to divide in birds")
    lines = failure.trace.splitlines()
    assert lines[0].startswith("propml/benchmark/executors.py:")
    assert lines[-1].startswith("fake_cells.py:")
    assert 'raise ZeroDivisionError(f"nothing' in lines[-1]


def test_in_this_process_cells_come_back_one_by_one():
    executor = InProcess(fake_cells.compute)
    plain, failed = (executor.submit(cell(name)) for name in ("Plain", "Fails"))
    assert plain.result(0).folds[0].values == fake_cells.outcome(cell("Plain")).folds[0].values
    assert failed.result(0).failure.error == "ZeroDivisionError"
    executor.close()


def test_workers_compute_the_same_in_other_processes(pool, pool_log):
    ended = finish(pool, cell("Plain"), cell("Fails"))
    assert ended["Plain"].folds[1].values == fake_cells.outcome(cell("Plain")).folds[1].values
    assert (ended["Plain"].folds[1].scores == fake_cells.outcome(cell("Plain")).folds[1].scores).all()
    assert ended["Fails"].failure.message == "nothing to divide in birds"
    processes = {int(line.split()[1]) for line in (pool_log / "computed.txt").read_text().splitlines()}
    assert len(processes) == 2
    assert os.getpid() not in processes


def test_a_worker_that_dies_fails_its_cell_after_the_retries_and_no_other(pool, pool_log):
    ended = finish(pool, cell("Killed"), cell("Plain"))
    assert isinstance(ended["Killed"], WorkerDied)
    assert str(ended["Killed"]) == (
        "the process that computed it died 2 times, at every try: it was ended by SIGKILL, as the system does when "
        "memory runs out"
    )
    assert len(ended["Plain"].folds) == 2
    assert fake_cells.computed(pool_log).count(cell("Killed").key) == 2


def test_a_worker_that_dies_once_is_replaced_and_its_cell_is_done(pool, pool_log):
    ended = finish(pool, cell("Killed once"), cell("Exits"))
    assert len(ended["Killed once"].folds) == 2
    assert str(ended["Exits"]).endswith("died 2 times, at every try: it ended with exit code 3")


def test_a_worker_that_dies_between_cells_is_replaced(pool, pool_log):
    finish(pool, cell("Plain"))
    idle = int((pool_log / "computed.txt").read_text().split()[1])
    os.kill(idle, signal.SIGKILL)
    wait_for(lambda: not running(idle))
    ended = finish(pool, *(dataclasses.replace(cell(name), seed=5) for name in ("Plain", "Killed once")))
    assert all(len(result.folds) == 2 for result in ended.values())


def test_workers_have_one_thread_and_this_process_keeps_its_own(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    executor = LocalProcesses(1, retries=0, compute=report_environment)
    failure = finish(executor, cell())["Plain"].failure
    executor.close()
    assert failure.message == "OMP_NUM_THREADS is 1, and torch has 1"
    assert os.environ["OMP_NUM_THREADS"] == "7"


def test_workers_die_with_a_runner_that_is_killed(tmp_path):
    process = subprocess.Popen([sys.executable, HERE / "fake_cells.py", tmp_path / "r", "2", "Waits"])
    wait_for(lambda: len(fake_cells.computed(tmp_path)) == 2)
    workers = [int(line.split()[1]) for line in (tmp_path / "computed.txt").read_text().splitlines()]
    process.kill()
    process.wait()
    wait_for(lambda: not any(running(pid) for pid in workers))


def test_ctrl_c_at_a_terminal_ends_workers_quietly_and_what_was_done_stays(tmp_path):
    """The signal goes to the whole group, as from a terminal."""
    code = textwrap.dedent("""
        import sys, fake_cells
        from propml.benchmark.runner import run_experiment
        if __name__ == "__main__":
            toy = fake_cells.experiment(("Plain", "Waits"), datasets=("birds",), noise=(50.0,))
            run_experiment(toy, sys.argv[1], workers=2, compute=fake_cells.compute)
    """)
    (tmp_path / "script.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", tmp_path / "r"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])},
    )
    wait_for(lambda: ResultStore(tmp_path / "r").done() and len(fake_cells.computed(tmp_path)) == 2)
    time.sleep(1)  # a block can be read a moment before it is on the disk; until then an interrupt takes it back
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "1 of 2 cells are done" in errors
    assert errors.count("Traceback") == 1  # of this script, which does not catch it; workers say nothing
    assert len(ResultStore(tmp_path / "r").done()) == 1


def test_a_run_outlives_methods_that_take_their_process_down(tmp_path):
    toy = fake_cells.experiment(("Killed", "Plain", "Fails"), datasets=("birds",), noise=(50.0,))
    summary = run_experiment(toy, tmp_path / "r", workers=2, retries=0, compute=fake_cells.compute, verbose=False)
    assert [each.method.name for each in summary.done] == ["Plain"]
    messages = {each.failure.error: each.failure.message for each in summary.failed}
    assert sorted(messages) == ["WorkerDied", "ZeroDivisionError"]
    assert "died once" in messages["WorkerDied"]
    assert len(ResultStore(tmp_path / "r").failed()) == 2
