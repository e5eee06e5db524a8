"""Damaged, forged and mixed files of our own, read and used as a user would.

What is damaged must give the same as before, or a ``ValueError`` that names the file, or an ``OSError``; other results
without a word are lost ones. What is forged, with checksums that are right, may give anything but a crash. All happens
in a child process that is watched, since the interpreter itself may end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storm.tally import Tally

if TYPE_CHECKING:
    from storm.own_specimens import Specimen

HANGS_AFTER = 120.0  # seconds for one file
NASTY = (None, True, -1, 0, 10**12, 10**400, 1e308, "", "x", "../x", [], {}, [[]], {"a": []}, ["a", 1], "\ud800")


def storm(seconds: float, seed: int) -> list[Tally]:
    """Damage files for so many seconds; one row of counts for each kind."""
    end, tallies, first = time.monotonic() + seconds, {}, 0
    with tempfile.TemporaryDirectory() as folder:
        while True:
            lines, problem = _watched(Path(folder), seed, first, end - time.monotonic())
            told = [json.loads(line) for line in lines]
            if not told:
                raise RuntimeError(f"the storm itself is broken: {problem}")
            for each in told:
                tally = tallies.setdefault(each["what"], Tally(f"own files: {each['what']}"))
                tally.tried += 1
                if each["problem"]:
                    tally.fail(f"seed {seed}, trial {each['trial']}: {each['problem']}", lost=each["lost"])
            if problem is None:
                return list(tallies.values())
            first = told[-1]["trial"] + 2  # the one in between ended the interpreter
            crashed = tallies.setdefault("crashes", Tally("own files: crashes of the interpreter"))
            crashed.tried += 1
            crashed.fail(f"seed {seed}, trial {first - 1}: {problem}")


def _watched(place: Path, seed: int, first: int, seconds: float) -> tuple[list[str], str | None]:
    """What a child told of its trials, and how it ended where it did not come to its end."""
    told = place / "told.jsonl"
    told.write_text("")
    command = [sys.executable, "-m", "storm.own_files_storm", str(place), str(seed), str(first), str(seconds)]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    with (place / "stderr").open("w") as errors:
        child = subprocess.Popen(command, env=environment, stderr=errors)
        size, since = -1, time.monotonic()
        while child.poll() is None:
            time.sleep(0.2)
            if told.stat().st_size != size:
                size, since = told.stat().st_size, time.monotonic()
            elif time.monotonic() - since > HANGS_AFTER:
                child.kill()
                child.wait()
    lines = told.read_text().splitlines()
    if child.returncode == 0:
        return lines, None
    return lines, f"the interpreter ended with {child.returncode}: {(place / 'stderr').read_text()[-500:]}"


def run_trials(place: Path, seed: int, first: int, seconds: float) -> None:
    """Damage and use files, one after the other; every trial is one line of ``told.jsonl``."""
    from storm.own_specimens import make_specimens

    end = time.monotonic() + seconds
    root = place / "specimens"
    shutil.rmtree(root, ignore_errors=True)
    specimens = make_specimens(root)
    expected = [comparable(each.use(copied(each, place / "trial"))) for each in specimens]
    number = first
    with (place / "told.jsonl").open("w") as told:
        while number < first + len(specimens) or time.monotonic() < end:
            which = number % len(specimens)
            specimen, rng = specimens[which], random.Random(f"{seed} {number}")
            problem, lost = tried(specimen, expected[which], place / "trial", rng)
            line = {"what": specimen.what, "trial": number, "problem": problem, "lost": lost}
            told.write(json.dumps(line) + "\n")
            told.flush()
            number += 1


def tried(specimen: Specimen, expected: Any, place: Path, rng: random.Random) -> tuple[str, bool]:
    """What went wrong with one damaged folder, or nothing; and whether a result was lost by it."""
    copied(specimen, place)
    how, forged = spoil(specimen, place, rng)
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            found = comparable(specimen.use(place))
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) or str(place) in str(error):
            return "", False
        return f"{how}: {type(error).__name__} without the file's name: {error}"[:400], False
    except Exception as error:
        return f"{how}: {type(error).__name__}: {error}"[:400], False
    if forged or not specimen.checked or found == expected or (specimen.parts and set(found) <= set(expected)):
        return "", False
    return f"{how}: it gives other results", True


def copied(specimen: Specimen, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(specimen.folder, place)
    return place


def spoil(specimen: Specimen, place: Path, rng: random.Random) -> tuple[str, bool]:
    """Damage one file of a folder; says how, and whether checksums were made right again."""
    from storm.byte_damage import damaged

    files = sorted(path for path in place.rglob("*") if path.is_file() and path.parent.name != "data")
    path = rng.choice(files)
    name = str(path.relative_to(place))
    ways = ["bytes", "bytes", "part"] + ["forged"] * 3 * (path.suffix == ".safetensors")
    ways += ["json"] * 2 * (path.suffix in (".json", ".jsonl"))
    way = rng.choice(ways)
    if way == "part":
        twin = specimen.twin / name
        if twin.exists():
            shutil.copy(twin, path)
        else:
            path.unlink()
        # A file that is all there is brings everything with it: nobody can tell it from the right one.
        return f"{name} of another folder", len(files) == 1 or _is_whole(path)
    if way == "forged":
        return f"{name} forged", _forged(path, rng)
    if way == "json":
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        at = rng.randrange(len(lines))
        value = json.loads(lines[at])
        forged = path.name == "audit.json" and rng.random() < 0.5
        _edit(value, rng)
        if forged and isinstance(value, dict):
            value.pop("own_sha256", None)
            value["own_sha256"] = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
        lines[at] = json.dumps(value)
        path.write_text("\n".join(lines) + "\n")
        return f"{name}, line {at + 1}, edited", forged
    path.write_bytes(damaged(path.read_bytes(), rng))
    return f"{name} damaged", False


def _is_whole(path: Path) -> bool:
    """Whether a file stands for itself: a block file may be exchanged, and what it tells is true of its own cells."""
    return path.suffix in (".jsonl", ".npz")


def _forged(path: Path, rng: random.Random) -> bool:
    """Change arrays or values of a saved state and sign it; what names the file by its digest is made right, too."""
    from forged_states import forge

    def change(arrays: dict[str, Any], outline: Any) -> None:
        if arrays and rng.random() < 0.6:
            name = rng.choice(sorted(arrays))
            arrays[name] = _other(arrays[name], rng)
        else:
            _edit(outline, rng)

    try:
        forge(path, change)
    except (OverflowError, UnicodeEncodeError, TypeError):  # what JSON or UTF-8 cannot hold is in no file
        return True
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    for record, field in (
        (path.parent / "card.json", "model_sha256"),
        (path.parents[1] / "audit.json", "report_sha256"),
    ):
        if record.exists():
            told = json.loads(record.read_bytes()) | {field: digest}
            if told.pop("own_sha256", None):
                told["own_sha256"] = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
            record.write_text(json.dumps(told))
    return True


def _other(array: Any, rng: random.Random) -> Any:
    """An array like this one, in a way that no writer would make it."""
    import numpy as np

    made = np.array(array)
    kind = rng.randrange(6)
    if kind == 0 and made.size:
        values = [0, -1, 7, 10**6, 2**31 - 1] + [float("nan"), float("inf"), 1e308] * (made.dtype.kind == "f")
        with np.errstate(all="ignore"):
            made.flat[rng.randrange(made.size)] = np.array(rng.choice(values)).astype(made.dtype)
        return made
    if kind == 1:
        return made[: rng.randrange(len(made) + 1)]
    if kind == 2:
        return made[None]
    if kind == 3:
        return made.astype(rng.choice(["i1", "u8", "f2", "f8", "b1"]))
    if kind == 4:
        return np.concatenate([made, made])
    return np.ascontiguousarray(made.T) if made.ndim > 1 else made[::-1].copy()


def _edit(value: Any, rng: random.Random) -> None:
    """Replace, remove or rename one value somewhere inside a JSON value."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = rng.choice(keys)
        inner = value[key]
        if isinstance(inner, dict | list) and inner and rng.random() < 0.8:
            value = inner
            continue
        way = rng.randrange(4)
        if way == 0 and isinstance(value, dict):
            value[f"{key}x"] = value.pop(key)
        elif way == 1:
            del value[key]
        else:
            value[key] = rng.choice(NASTY)
        return


def comparable(value: Any) -> Any:
    """A value that equals another one if, and only if, both are the same to the last bit."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, set):
        return value
    if isinstance(value, dict):
        return repr(value)
    if isinstance(value, list | tuple):
        return [comparable(each) for each in value]
    return value


if __name__ == "__main__":
    run_trials(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
