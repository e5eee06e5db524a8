"""Damaged files of every foreign format, read as a user's files are.

A reader may succeed, or fail with a ``ValueError`` that names the file or an ``OSError``. Everything else is a failure,
also that the interpreter ends or never comes back: the files are read in a child process, which is watched.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from storm.tally import Tally

if TYPE_CHECKING:
    from storm.foreign_files import Kind

HANGS_AFTER = 60.0  # seconds for one file
MEMORY = 6 * 2**30  # bytes of address space, so that a bomb breaks the child and not the machine


def storm(seconds: float, seed: int) -> list[Tally]:
    """Damage files for so many seconds; one row of counts for each format."""
    end = time.monotonic() + seconds
    tallies: list[Tally] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first = 0
        while time.monotonic() < end or not first:
            ended = _watched(place, seed, first, max(1.0, end - time.monotonic()))
            told = [json.loads(line) for line in (place / "told.jsonl").read_text("utf-8").splitlines()]
            names = told[0]["kinds"]
            tallies = tallies or [Tally(f"damaged files: {name}") for name in names]
            reached = int((place / "reached").read_text() or first)
            for number in range(first, reached + 1):
                tallies[number % len(names)].tried += 1
            for failure in told[1:]:
                tallies[failure["number"] % len(names)].fail(failure["example"])
            if ended is None:
                break
            tallies[reached % len(names)].fail(f"seed {seed}, file {reached}: the interpreter {ended}")
            first = reached + 1
    return tallies


def _watched(place: Path, seed: int, first: int, seconds: float) -> str | None:
    """Run a child; what became of it, or None where it came to its end."""
    (place / "reached").write_text("")
    (place / "told.jsonl").write_text("")
    command = [sys.executable, "-m", "storm.files_storm", str(place), str(seed), str(first), str(seconds)]
    paths = [str(Path(__file__).parents[1]), *sys.path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"}
    with (place / "stderr").open("w") as errors:
        child = subprocess.Popen(command, env=environment, stderr=errors)
        before, since = "", time.monotonic()
        while child.poll() is None:
            time.sleep(0.2)
            now = (place / "reached").read_text()
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > HANGS_AFTER:
                child.kill()
                child.wait()
                return f"did not come back within {HANGS_AFTER:g} seconds"
    if child.returncode == 0:
        return None
    if not (place / "told.jsonl").read_text():
        raise RuntimeError(f"the storm itself is broken: {(place / 'stderr').read_text()[-2000:]}")
    return f"ended with {child.returncode}: {(place / 'stderr').read_text()[-300:]}"


def child(place: Path, seed: int, first: int, seconds: float) -> None:
    """Damage and read files, one after the other; every failure is one line of ``told.jsonl``."""
    import resource

    from storm.foreign_files import KINDS

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    kinds = list(KINDS.items())
    for _, kind in kinds:
        for read in kind.readers:  # what cannot read a whole file says nothing about damaged ones
            read(written(place / "trial", kind, kind.content))
    number, end = first, time.monotonic() + seconds
    with (place / "told.jsonl").open("a", encoding="utf-8") as told, (place / "reached").open("r+") as reached:
        print(json.dumps({"kinds": list(KINDS)}), file=told, flush=True)
        # Every format once, however short the time is.
        while time.monotonic() < end or number < first + len(kinds):
            os.pwrite(reached.fileno(), b"%d" % number, 0)
            name, kind = kinds[number % len(kinds)]
            for example in trial(place / "trial", kind, random.Random(f"{seed} {number}")):
                example = f"seed {seed}, file {number} ({name}): {example}"
                print(json.dumps({"number": number, "example": example}), file=told, flush=True)
            number += 1


def trial(folder: Path, kind: Kind, rng: random.Random) -> list[str]:
    """Damage one file and read it in every way; what went wrong."""
    path = written(folder, kind, kind.damage(kind.content, rng))
    names = [Path(name).name for name, _ in kind.beside] + [path.name]
    wrong = []
    for read in kind.readers:
        try:
            read(path)
        except (ValueError, OSError) as error:
            # An error of the system names the file that is missing, which may be one that the damage invented.
            if not any(name in str(error) for name in names) and not getattr(error, "filename", None):
                wrong.append(f"{type(error).__name__} without the name of the file: {str(error)[:300]}")
        except Exception as error:  # what this storm looks for
            wrong.append(f"{type(error).__name__}: {str(error)[:300]}")
    return wrong


def written(folder: Path, kind: Kind, content: bytes) -> Path:
    """A new folder with this file in it, and with what belongs beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, body in (*kind.beside, (kind.file, content)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(body)
    return folder / kind.file


if __name__ == "__main__":
    child(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
