"""Many workers on one study, who are killed at random: every trial is finished once, none is lost, none is doubled.

Over SQLite, and over PostgreSQL where there is a server to start. A worker is a forked child that asks and tells as
``propml tune`` does; the value of a trial is known from its argument.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from storm.tally import Tally

TESTS = Path(__file__).parents[1]
TRIALS, WORKERS = 12, 4
# Deaths in the middle of it after which a trial counts as failed; so many kills cannot take one trial that far.
MOST_KILLS = 2


def storm(seconds: float, seed: int) -> list[Tally]:
    """Search with workers that are killed, for so long, at least once on each database."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "storm.database_storm", str(seconds), str(seed)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
    )
    if done.returncode:
        raise RuntimeError(f"the storm itself broke (seed {seed}): {done.stderr[-3000:]}")
    return [Tally(**each) for each in json.loads(done.stdout)]


def start(url: str, name: str, seed: int, log: Path) -> int:
    """A worker in a process of its own."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        from fake_tasks import Hill

        from propml.tuning.searching import run_search

        # Its log is written before a trial is told: what is finished was computed, and by whom.
        run_search(Hill(epochs=2, log=log), trials=TRIALS, storage=url, name=name, seed=seed)
        code = 0
    except BaseException:
        import traceback

        with open(f"{log}.errors", "a") as file:
            traceback.print_exc(file=file)
    finally:
        os._exit(code)


def attack(url: str, name: str, folder: Path, rng: random.Random, tally: Tally) -> None:
    """One search by several workers, of which some are killed and replaced."""
    told = f"{tally.what}, search {name}"
    log = folder / name
    workers = {start(url, name, rng.getrandbits(31), log) for _ in range(WORKERS)}
    for _ in range(rng.randint(1, MOST_KILLS)):
        time.sleep(rng.uniform(0, 0.4))
        victim = rng.choice(sorted(workers))
        os.kill(victim, signal.SIGKILL)
        workers.remove(victim)
        tally.tried += os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL
        workers.add(start(url, name, rng.getrandbits(31), log))
    codes = [os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) for worker in workers]
    if any(codes):
        errors = Path(f"{log}.errors")
        tally.fail(f"{told}: workers ended with {codes}: {errors.read_text()[-800:] if errors.exists() else ''}")
        return
    wrong = wrong_trials(url, name, log)
    if wrong:
        tally.fail(f"{told}: {wrong}", lost=True)


def wrong_trials(url: str, name: str, log: Path) -> str | None:
    """What is amiss in a study that is over."""
    from fake_tasks import Hill

    from propml.tuning.trials import TrialQueue, finished

    task = Hill(epochs=2, log=log)
    queue = TrialQueue(task, TRIALS, url, name)
    try:
        trials, ended = queue.study.get_trials(deepcopy=False), finished(queue.study)
    finally:
        queue.storage.engine.dispose()  # a child must not have the connection of its parent
    states = [trial.state.name for trial in trials]
    if len(ended) != TRIALS or {"RUNNING", "WAITING"} & set(states):
        return f"{len(ended)} of {TRIALS} trials are finished; states: {states}"
    if failed := [trial.user_attrs.get("why") for trial in ended if trial.state.name == "FAIL"]:
        return f"trials failed: {failed}"
    arguments = [trial.params["x"] for trial in ended]
    if len(set(arguments)) != TRIALS:
        return f"trials are doubled: {sorted(arguments)}"
    computed = {(x, epoch) for x, epoch, _ in task.lines()}
    for trial in ended:
        last = max(trial.intermediate_values)
        x = trial.params["x"]
        if (x, last) not in computed or trial.value != task.value(x, last):
            return f"trial {trial.number} has a value that nobody computed: {trial.value} for {x} after epoch {last}"
    begun = {trial.params["x"] for trial in trials if trial.intermediate_values}
    return f"begun and lost: {begun - set(arguments)}" if begun - set(arguments) else None


def main(seconds: float, seed: int) -> None:
    """Both databases in turn until time is over."""
    import pytest

    sys.path.insert(0, str(TESTS / "tuning"))
    from fake_tasks import Hill
    from postgres_server import postgres

    from propml.tuning.searching import work
    from propml.tuning.trials import TrialQueue

    end = time.monotonic() + seconds
    rng = random.Random(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="propml-databases-")))
        places: list[tuple[Any, Tally]] = [(f"sqlite:///{folder / 'study.db'}", Tally("kills: study in SQLite"))]
        try:
            url = stack.enter_context(postgres())
            places.append((url, Tally("kills: study in PostgreSQL")))
        except pytest.skip.Exception as why:
            places[0][1].what += f" (PostgreSQL was not tried: {why})"
        for url, _ in places:  # what workers need is imported, and the tables are made
            queue = TrialQueue(Hill(), 1, url, "first")
            work(queue)
            queue.storage.engine.dispose()
        number = 0
        while number < len(places) or time.monotonic() < end:
            url, tally = places[number % len(places)]
            attack(url, f"s{number}", folder, rng, tally)
            number += 1
    sys.stdout.write(json.dumps([vars(each) for _, each in places]))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]))
