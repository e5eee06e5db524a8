"""Ctrl-C in the middle of long work: one sentence, the exit code of a shell, and a next step."""

import pytest
from command_line import propml, write_photos

FILE = ("photos.csv", "--candidates", "tags", "--id", "id", "--ignore", "truth")
COMMANDS = {
    "propml.methods.propml.ProPMLClassifier.fit": (("fit", *FILE), "nothing was written"),
    "propml.methods.propml.ProPMLClassifier.fit_held": (("audit", *FILE), "nothing was written"),
    "propml.tuning.trials.Desk.ask": (("tune", "table", *FILE), "kept in the study, and the same command goes on"),
    "propml.vision.training.fit": (
        ("vision", "train", "--dataset", "digits-mosaic", "--backbone", "small_cnn", "--size", 16, "--lam", 0.3),
        "with --resume goes on from the last checkpoint",
    ),
}


@pytest.mark.parametrize("place", COMMANDS)
def test_a_command_that_is_stopped_says_what_is_kept(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_photos(tmp_path / "photos.csv", n=60)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupted)
    arguments, sentence = COMMANDS[place]
    printed = propml(*arguments)
    assert printed.code == 130
    assert printed.err.splitlines()[-1].startswith("stopped: ")
    assert sentence in printed.err
    assert not list(tmp_path.rglob("model.safetensors"))
