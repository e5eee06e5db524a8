"""Commands that are killed with SIGKILL, at a change of a file or at any moment, and are run again.

Run again, a command must end well and give what an undisturbed one gives: nothing lost, doubled or left over.
Commands run in children that are forked from one process, which has imported everything and has no threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from storm.tally import Tally

TESTS = Path(__file__).parents[1]


def storm(seconds: float, seed: int) -> list[Tally]:
    """Kill commands for so long, at least each of them once."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    with tempfile.TemporaryDirectory(prefix="propml-kills-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "storm.kills_storm", folder, str(seconds), str(seed)],
            capture_output=True,
            text=True,
            env=environment,
        )
    if done.returncode:
        raise RuntimeError(f"the storm itself broke (seed {seed}): {done.stderr[-3000:]}")
    return [Tally(**each) for each in json.loads(done.stdout)]


def differs(found: Any, undisturbed: Any, _: Any) -> str | None:
    """What a command gives must be what an undisturbed one gives."""
    return None if found == undisturbed else f"it gives {str(found)[:400]}"


class Command(NamedTuple):
    """A command, and how to judge it.

    ``found`` reads what it gives, as plain values. ``kept`` reads what is there after a kill, and raises where that is
    half of something. ``wrong`` compares what was found with what an undisturbed run gives and with what was kept.
    """

    name: str
    words: list[str]
    found: Callable[[Path], Any]
    kept: Callable[[Path], Any]
    wrong: Callable[[Any, Any, Any], str | None] = differs


class Deadly:
    """Counts calls that change a file or a study, and kills this process at one of them: within, before or after it."""

    def __init__(self, left: float) -> None:
        self.left = left
        self.calls = 0

    def install(self) -> None:
        from sqlalchemy.orm import Session

        for name in ("write", "fsync", "ftruncate"):
            self._wrap(os, name)
        self._wrap(Session, "commit")  # of the database that a study is in
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.truncate"):
            self._count()

    def _count(self) -> None:
        self.calls += 1
        if self.calls >= self.left:
            os.kill(os.getpid(), signal.SIGKILL)

    def _wrap(self, owner: Any, name: str) -> None:
        real = getattr(owner, name)

        def call(*arguments: Any, **more: Any) -> Any:
            if name == "write" and self.calls + 1 >= self.left:
                real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            self._count()
            done = real(*arguments, **more)
            if owner is not os:
                self._count()
            return done

        setattr(owner, name, call)


def start(command: Command, folder: Path, kill_at: float = float("inf")) -> int:
    """The process that runs a command in a folder; its standard error goes into a file beside it."""
    child = os.fork()
    if child:
        return child
    from propml.cli import main

    code = 70
    try:
        log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        sys.argv = ["propml", *command.words]
        deadly = Deadly(kill_at)
        deadly.install()
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        Path(f"{folder}.calls").write_text(str(deadly.calls))
    except BaseException:
        traceback.print_exc()
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def files_of(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


class Reference:
    """An undisturbed run: how it ends, how long it takes and how often it changes a file."""

    def __init__(self, command: Command, fresh: Callable[[], Path]) -> None:
        folder = fresh()
        begun = time.perf_counter()
        assert ended(start(command, folder)) == 0, Path(f"{folder}.log").read_text()
        self.seconds = time.perf_counter() - begun
        self.calls = int(Path(f"{folder}.calls").read_text())
        self.files, self.found = files_of(folder), command.found(folder)


def attack(command: Command, reference: Reference, fresh: Callable[[], Path], rng: random.Random, tally: Tally) -> None:
    """Kill a command once or twice, run it again, and compare."""
    folder, kills, kept = fresh(), [], None
    for _ in range(rng.choice((1, 1, 2))):
        if rng.random() < 0.75:
            at: float = rng.randint(1, reference.calls)
            kills.append(f"at call {at}")
            code = ended(start(command, folder, at))
        else:
            at = rng.uniform(0, 1.1 * reference.seconds)
            kills.append(f"after {at:.3f} s")
            child = start(command, folder)
            time.sleep(at)
            os.kill(child, signal.SIGKILL)
            code = ended(child)
        tally.tried += 1
        told = f"propml {' '.join(command.words)}, killed {' and '.join(kills)}"
        if code not in (0, -signal.SIGKILL):
            tally.fail(f"{told}: exit code {code}: {Path(f'{folder}.log').read_text()[-800:]}")
            return
        try:
            kept = command.kept(folder)
        except Exception as error:
            tally.fail(f"{told}: half of it is there: {type(error).__name__}: {error}", lost=True)
            return
    code = ended(start(command, folder))
    if code:
        tally.fail(f"{told}: run again, it ends with {code}: {Path(f'{folder}.log').read_text()[-800:]}")
    elif files_of(folder) != reference.files:
        odd = sorted({*files_of(folder)} ^ {*reference.files})
        tally.fail(f"{told}: run again, files are missing or left over: {odd}")
    elif wrong := command.wrong(command.found(folder), reference.found, kept):
        tally.fail(f"{told}: run again, {wrong}", lost=True)


TRIALS = 4


def other_trials(found: list[Any], _: Any, kept: list[Any]) -> str | None:
    """A killed search proposes other trials than an undisturbed one, but has as many, and keeps those it had."""
    if len(found) != TRIALS or len({each[1] for each in found}) != TRIALS:
        return f"the study has {found}"
    lost = [each for each in kept if each not in found]
    return f"it has lost {lost}" if lost else None


def trials_in(folder: Path) -> list[Any]:
    """Number and argument of the finished trials of a study."""
    if not (folder / "tuned/study.db").exists():
        return []
    database = sqlite3.connect(f"file:{folder / 'tuned/study.db'}?mode=ro", uri=True, timeout=60)
    try:
        return database.execute(
            "SELECT number, param_value FROM trials JOIN trial_params USING (trial_id) "
            "WHERE state = 'COMPLETE' ORDER BY number"
        ).fetchall()
    except sqlite3.OperationalError:  # killed before there was a table
        return []
    finally:
        database.close()


def results_in(folder: Path) -> Any:
    """The values of a store, each of them once."""
    from propml.benchmark.store import ResultStore

    store = ResultStore(folder / "results")
    for key in store.done():
        assert len(store.scores(key)) == 2, f"{key} has rows without their scores"
    cells = sorted((cell.key, [fold.values for fold in cell.folds]) for cell in store.cells())
    return cells, len((folder / "results/results.jsonl").read_text().splitlines())


def arrays_in(folder: Path) -> Any:
    """The arrays of what ``corrupt`` writes."""
    import numpy as np

    with np.load(folder / "candidates.npz") as arrays:
        return {name: (value.shape, value.tobytes()) for name, value in arrays.items()}


def model_in(folder: Path) -> Any:
    """A model, and its card without what every run has anew; they belong together."""
    model, card = folder / "model/model.safetensors", json.loads((folder / "model/card.json").read_text())
    del card["made"]
    assert card.pop("model_sha256") == hashlib.sha256(model.read_bytes()).hexdigest(), "the card is of another model"
    return model.read_bytes(), card


def model_kept(folder: Path) -> Any:
    """The model of a fit that was killed: whole, with or without its card, which is a copy for people."""
    from propml.auditing.model_card import read_model

    return read_model(folder / "model").model.get_params()


def audit_in(folder: Path) -> Any:
    """All that an audit writes."""
    return {name: (folder / name).read_bytes() for name in files_of(folder) if name.startswith("audit/")}


def if_there(pattern: str, found: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """What a killed command has left is whole, or not there."""
    return lambda folder: found(folder) if any(folder.glob(pattern)) else None


TOY = """
title = "Toy"
datasets = ["digits-mosaic"]
rows = 60
noise = [50, 100]
folds = 2

[methods.Ridge]
method = "ridge"

[methods.ML-kNN]
method = "ml-knn"
"""
FILE = ["photos.csv", "--candidates", "tags", "--id", "id", "--ignore", "truth"]
COMMANDS = [
    Command(
        "benchmark run",
        ["benchmark", "run", "toy.toml", "--out", "results"],
        results_in,
        if_there("results/results.jsonl", results_in),
    ),
    Command(
        "tune",
        ["tune", "table", *FILE, "--method", "ridge", "--trials", str(TRIALS)],
        trials_in,
        trials_in,
        other_trials,
    ),
    Command(
        "corrupt",
        ["corrupt", "digits-mosaic", "--method", "flips", "--rate", "0.1", "--out", "candidates.npz"],
        arrays_in,
        if_there("candidates.npz", arrays_in),
    ),
    Command(
        "fit",
        ["fit", *FILE, "--method", "ridge", "--out", "model"],
        model_in,
        if_there("model/model.safetensors", model_kept),
    ),
    Command("audit", ["audit", *FILE, "--quick", "--out", "audit"], audit_in, lambda folder: None),
]


def main(folder: Path, seconds: float, seed: int) -> None:
    """Attack all commands in turn until time is over."""
    sys.path.insert(0, str(TESTS / "cli"))
    from command_line import propml, write_photos

    end = time.monotonic() + seconds
    write_photos(folder / "photos.csv", n=40)
    (folder / "toy.toml").write_text(TOY)
    count = 0

    def fresh() -> Path:
        nonlocal count
        count += 1
        made = folder / str(count)
        made.mkdir()
        for name in ("photos.csv", "toy.toml"):
            (made / name).write_bytes((folder / name).read_bytes())
        return made

    for command in COMMANDS:  # so that no child has to import what only a running command needs
        os.chdir(fresh())
        printed = propml(*command.words)
        assert printed.code == 0, printed
    references = {command.name: Reference(command, fresh) for command in COMMANDS}
    rng = random.Random(seed)
    tallies = {command.name: Tally(f"kills: {command.name}") for command in COMMANDS}
    for place in range(sys.maxsize):
        command = COMMANDS[place % len(COMMANDS)]
        if place >= len(COMMANDS) and time.monotonic() > end:
            break
        attack(command, references[command.name], fresh, rng, tallies[command.name])
    sys.stdout.write(json.dumps([vars(each) for each in tallies.values()]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
