"""Kill a toy experiment again and again, and look at what is left each time: ``killed_runs.py MODE FOLDER SEED``.

Children are forked from a process that has imported everything, so that a life of milliseconds is enough to get
somewhere. Prints the number of kills; an assertion that fails ends with its traceback and exit code 1.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

import fake_cells

from propml.benchmark import provenance
from propml.benchmark.runner import cell_title, run_experiment
from propml.benchmark.store import ResultStore

TOY = fake_cells.experiment(methods=("Plain", "Other", "Third"), noise=(50.0, 100.0, 150.0))


def run(folder, before=lambda: None):
    """Start a runner in a child, which reports on a file beside its folder."""
    Path(f"{folder}.told").touch()
    child = os.fork()
    if child:
        return child
    with Path(f"{folder}.told").open("a", buffering=1) as sys.stderr:
        before()
        summary = run_experiment(TOY, folder, compute=fake_cells.compute)
        os._exit(len(summary.failed))


def ended_well(child):
    return os.waitpid(child, 0)[1] == 0


def check_reported(folder):
    """Whatever was reported done is in the store, and no key is there twice."""
    store = ResultStore(folder)
    titles = {cell.key: cell_title(cell) for cell in TOY.cells()}
    told = [line.partition("  ")[0] for line in Path(f"{folder}.told").read_text().splitlines() if line.endswith("]")]
    assert len(told) == len(set(told)), "a cell was reported twice"
    assert set(told) <= {titles[key] for key in store.done()}, "a cell that was reported is gone"
    for key in store.done():
        assert len(store.scores(key)) == 2, "rows without their scores"


def at_random(folder, rng):
    kills = 0
    while True:
        child = run(folder)
        time.sleep(rng.uniform(0, 0.01 + 0.002 * kills))  # longer and longer, to get to the end on a slow disk too
        os.kill(child, signal.SIGKILL)
        done = ended_well(child)
        check_reported(folder)
        if done:
            return kills
        kills += 1


class KillAt:
    """Dies at the n-th call that changes a file, in the middle of it where it is a write."""

    def __init__(self, n):
        self.left = n

    def __call__(self):
        for name in ("write", "fsync", "replace", "ftruncate", "open", "unlink"):
            setattr(os, name, self.deadly(name, getattr(os, name)))

    def deadly(self, name, real):
        def call(*arguments, **more):
            self.left -= 1
            if self.left == 0:
                if name == "write":
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **more)

        return call


def at_every_call(folder):
    """One kill at each call, each on a folder that an earlier kill has left behind."""
    kills = 0
    while True:
        kills += 1
        part = f"{folder}-{kills}"
        first = run(part, KillAt(kills))
        if ended_well(first):
            return kills - 1
        check_reported(part)
        assert ended_well(run(part)), kills
        check_reported(part)
        assert len(ResultStore(part).done()) == len(TOY.cells()), kills


if __name__ == "__main__":
    mode, folder, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    provenance.run_provenance()  # asks git once, so that no child has to
    if mode == "random":
        kills = at_random(folder, random.Random(seed))
    else:
        TOY = TOY.narrowed(methods=["Plain"], noise=[0.5])
        kills = at_every_call(folder)
    sys.stdout.write(f"{kills}\n")
