"""Ctrl-C or SIGTERM in the middle of long work: one sentence, the exit code of a shell, and a next step."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import propml, write_photos

FILE = ("photos.csv", "--candidates", "tags", "--id", "id", "--ignore", "truth")
COMMANDS = {
    "propml.methods.propml.ProPMLClassifier.fit": (("fit", *FILE), "nothing was written"),
    "propml.methods.propml.ProPMLClassifier.fit_held_out_logits": (("audit", *FILE), "nothing was written"),
    "propml.corruption.files.write_candidates": (
        ("corrupt", "digits-mosaic", "--method", "flips", "--rate", 0.1, "--out", "c.npz"),
        "run the same command again",
    ),
    "propml.tuning.trials.TrialQueue.ask": (
        ("tune", "table", *FILE),
        "kept in the study, and the same command goes on",
    ),
    "propml.vision.training.fit": (
        ("vision", "train", "--dataset", "digits-mosaic", "--backbone", "small_cnn", "--size", 16, "--lam", 0.3),
        "with --resume goes on from the last checkpoint",
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_photos(tmp_path / "photos.csv", n=60)
    return tmp_path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("place", COMMANDS)
def test_a_command_that_is_stopped_says_what_is_kept(place, number, code, folder, monkeypatch):
    monkeypatch.setattr(place, lambda *_, **__: signal.raise_signal(number))
    before = signal.getsignal(signal.SIGTERM)
    arguments, sentence = COMMANDS[place]
    printed = propml(*arguments)
    assert printed.code == code
    assert printed.err.splitlines()[-1].startswith("stopped: ")
    assert sentence in printed.err
    assert not list(folder.rglob("model.safetensors"))
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_a_command_does_when_it_is_stopped_is_not_stopped_again(folder, monkeypatch):
    """A whole group is told to stop by one that tells its members, too."""
    cleaned = []

    def stopped(*_, **__):
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleaned.append(True)

    monkeypatch.setattr("propml.methods.propml.ProPMLClassifier.fit", stopped)
    assert propml("fit", *FILE).code == 143
    assert cleaned == [True]


WORKERS = """
import sys
from propml.cli import main
if __name__ == "__main__":
    sys.argv = ["propml", *{words!r}]
    main()
"""


@pytest.mark.parametrize(
    "words",
    [
        ("tune", "table", *FILE, "--workers", "2", "--trials", "400", "--epochs", "50"),
        ("benchmark", "run", "quick", "--workers", "2"),
    ],
    ids=["tune", "benchmark"],
)
def test_sigterm_ends_a_command_and_its_workers(words, folder):
    script = folder / "command.py"
    script.write_text(WORKERS.format(words=list(words)))
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.PIPE, text=True)
    workers = wait_for(lambda: len(found := spawned(process.pid)) == 2 and found)
    process.terminate()
    said = process.communicate()[1]
    assert process.returncode == 143, said
    assert "stopped: " in said
    assert "Traceback" not in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in workers)


def spawned(parent):
    """The workers of a process."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            own = int((place / "stat").read_text().rpartition(")")[2].split()[1]) == parent
            if own and b"spawn_main" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
    return found


def wait_for(condition, seconds=120):
    limit = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.05)
    return found
