"""``propml tune`` as a user calls it."""

import tomllib
from dataclasses import replace

import pytest
from command_line import propml, told, write_photos

from propml import load

SMALL = ("--trials", 4, "--epochs", 3, "--param", "hidden=[8]|[4]", "--param", "dropout=0.5")


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos.csv", n=90)


def tune(photos, *more):
    arguments = ("--candidates", "tags", "--id", "id", "--ignore", "truth")
    return propml("tune", "table", photos, *arguments, "--out", photos.parent / "tuned", *more)


def test_a_file_of_one_s_own(photos):
    printed = tune(photos, *SMALL)
    assert printed.code == 0, printed
    out = photos.parent / "tuned"
    assert {path.name for path in out.iterdir()} >= {"best.toml", "trials.csv", "search.html", "study.db"}
    best = tomllib.loads((out / "best.toml").read_text())["methods"]["ProPML tuned"]
    assert best["method"] == "propml"
    assert best["params"]["hidden"] in ([8], [4])
    assert "trials: " in printed.out
    assert "search.html" in printed.out
    # The same command finds the study and has nothing left to do.
    assert "4" in tune(photos, *SMALL).out
    assert len((out / "trials.csv").read_text().splitlines()) == 5


def test_the_best_configuration_is_fitted_as_it_is(photos):
    arguments = ("fit", photos, "--candidates", "tags", "--id", "id", "--ignore", "truth", "--out", photos.parent / "m")
    best = photos.parent / "best.toml"
    best.write_text('[methods."ProPML tuned"]\nmethod = "propml"\nparams = { hidden = [7], lam = 0.3, epochs = 2 }\n')
    done = propml(*arguments, "--tuned", best)
    assert done.code == 0, done
    model = load(photos.parent / "m" / "model.safetensors")
    assert (tuple(model.hidden), model.lam, model.epochs) == ((7,), 0.3, 2)
    assert "gives the networks a size" in told(propml(*arguments, "--tuned", best, "--quick"))
    other = propml(*arguments, "--tuned", best, "--method", "ridge")
    assert "and --method is ridge; leave one of them out" in told(other)
    best.write_text('[methods."Ridge tuned"]\nmethod = "ridge"\nparams = { alpha = 3.0 }\n')
    assert "scaled to [-1, 1], which propml fit does not do" in told(propml(*arguments, "--tuned", best))
    best.write_text("methods = 3\n")
    assert "(methods is 3, expected fields); give the best.toml" in told(propml(*arguments, "--tuned", best))
    best.write_text("[recipe]\nlr = 0.1\n")
    assert "give it to propml vision train --tuned" in told(propml(*arguments, "--tuned", best))


def test_a_table_of_votes_is_searched_as_it_is_fitted(photos):
    lines = [line.split(",") for line in photos.read_text().splitlines()[1:]]
    votes = [
        f"{cells[0]},{person},{tag}" for cells in lines for tag in cells[5].split(";") for person in ("ann", "bob")
    ]
    (photos.parent / "votes.csv").write_text("\n".join(["item,annotator,label", *votes]) + "\n")
    options = ("--id", "id", "--ignore", "truth,tags", "--votes", photos.parent / "votes.csv", "--min-votes", 2)
    out = photos.parent / "voted"
    searched = propml("tune", "table", photos, *options, "--text", "camera", *SMALL, "--out", out)
    assert searched.code == 0, searched
    fitted = propml("fit", photos, *options, "--tuned", out / "best.toml", "--out", out / "model")
    assert fitted.code == 0, fitted
    assert "90 rows" in fitted.out
    assert "5 labels" in fitted.out


def test_other_methods_and_their_arguments(photos):
    printed = tune(photos, "--method", "ridge", "--trials", 3, "--param", "alpha=log:1..100")
    assert printed.code == 0, printed
    best = tomllib.loads((photos.parent / "tuned" / "best.toml").read_text())["methods"]["Ridge tuned"]
    assert 1 <= best["params"]["alpha"] <= 100


def test_a_dataset_s_best_configuration_is_an_experiment(tmp_path):
    printed = propml(
        *("tune", "table", "digits-mosaic", "--noise", 50, "--method", "ridge", "--trials", 2, "--out", tmp_path)
    )
    assert printed.code == 0, printed
    assert f"propml benchmark run {tmp_path / 'best.toml'}" in printed.out
    ran = propml("benchmark", "run", tmp_path / "best.toml", "--out", tmp_path / "results")
    assert ran.code == 0, ran
    status = propml("benchmark", "status", tmp_path / "best.toml", "--out", tmp_path / "results")
    assert "Ridge tuned" in status.out


def test_oracle_by_name_with_a_column_of_true_labels(photos):
    printed = tune(photos, "--method", "ridge", "--trials", 2, "--objective", "oracle", "--truth", "truth")
    assert printed.code == 0, printed
    assert "true labels (oracle)" in (photos.parent / "tuned" / "best.toml").read_text()
    assert "judges by true labels, and none were given" in told(tune(photos, "--objective", "oracle"))


def test_failed_trials_are_told(photos):
    printed = tune(photos, "--method", "ridge", "--trials", 8, "--param", "alpha=-5|1.0")
    assert printed.code == 0, printed
    assert "failed: trial" in printed.err
    assert "alpha" in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--param", "lamb=1"), "did you mean 'lam'"),
        (("--param", "lam=1..0.1"), "the smaller first"),
        (("--param", "lam"), "write NAME=LOW..HIGH"),
        (("--method", "rigde"), "did you mean 'ridge'"),
        (("--objective", "thruth"), 'choose "candidates"'),
        (("--device", "cuda:99"), "cannot be used here"),
        (("--noise", 77), "--noise makes false labels for a DATASET, and"),
        (("--param", "hidden=["), "hidden is '['; write a list such as [256,256]"),
        (("--storage", "postgresql://me:word@127.0.0.1:1/db"), "cannot be opened"),
    ],
)
def test_mistakes_are_one_sentence(photos, arguments, words):
    sentence = told(tune(photos, "--trials", 1, *arguments))
    assert words in sentence
    assert ":word@" not in sentence


def test_a_study_of_failures_takes_the_command_that_was_meant(photos):
    ridge = ("--method", "ridge", "--trials", 3)
    assert "all 3 trials failed" in told(tune(photos, *ridge, "--param", "alpha=abc"))
    assert tune(photos, *ridge).code == 0
    assert "another space of alpha" in told(tune(photos, *ridge, "--param", "alpha=1.0"))


def test_a_study_has_the_folds_of_one_seed(photos):
    assert tune(photos, "--method", "ridge", "--trials", 2).code == 0
    other = tune(photos, "--method", "ridge", "--trials", 4, "--seed", 1)
    assert "was made with another seed: 0, now 1; give the search another name" in told(other)


def test_options_of_files_are_refused_with_a_dataset():
    arguments = (
        "--noise",
        50,
        "--candidates",
        "tags",
        "--id",
        "zz",
        "--sep",
        "|",
        "--truth",
        "q",
        "--categorical",
        "a",
    )
    sentence = told(propml("tune", "table", "digits-mosaic", *arguments))
    assert sentence.startswith("digits-mosaic is a DATASET, and a FILE is read with ")
    assert all(flag in sentence for flag in ("--candidates", "--id", "--sep", "--truth", "--categorical"))
    assert "--noise" not in sentence


def test_datasets_that_are_not_there_or_need_noise():
    assert "neither a file nor a known dataset" in told(propml("tune", "table", "nowhere"))
    assert "--noise 100 (percent)" in told(propml("tune", "table", "digits-mosaic"))
    assert "brings its own candidates" in told(propml("tune", "table", "yeastcc", "--noise", 50))


def test_images(tmp_path, monkeypatch):
    from propml.tuning import tasks
    from propml.tuning.searching import work

    seen = {}

    def run(self, configuration, report, folder):
        seen.update(configuration, noise=self.recipe.noise, images=len(self.source.items))
        report(self.epochs, 0.5)

    monkeypatch.setattr(tasks.VisionTask, "run", run)
    monkeypatch.setattr(
        "propml.tuning.searching.work_in_processes", lambda queue, storage, workers, folder, seed: work(queue, folder)
    )
    printed = propml(
        *("tune", "vision", "digits-mosaic", "--backbone", "small_cnn", "--size", 16, "--noise", 0.2, "--epochs", 3),
        *("--limit", 40, "--trials", 1, "--param", "learning_rate=1e-3..1e-2", "--device", "cpu", "--out", tmp_path),
    )
    assert printed.code == 0, printed
    assert seen["images"] == 40
    assert 1e-3 <= seen["learning_rate"] <= 1e-2
    assert seen["noise"] == 0.2
    recipe = tomllib.loads((tmp_path / "best.toml").read_text())["recipe"]
    assert recipe["backbone"] == "small_cnn"
    assert recipe["learning_rate"] == seen["learning_rate"]


def test_the_defaults_for_images_are_those_of_a_recipe(monkeypatch):
    from propml.vision.recipe import PAPER

    def seen(source, recipe, *_, **__):
        assert recipe == replace(PAPER, lam=1.0, weights=None)
        raise ValueError("seen")

    monkeypatch.setattr("propml.tuning.tasks.VisionTask", seen)
    assert told(propml("tune", "vision", "digits-mosaic")) == "seen"


@pytest.mark.parametrize("command", ["table", "vision"])
def test_help_teaches_with_examples(command):
    printed = propml("tune", command, "--help")
    assert printed.code == 0
    for words in ("Examples", f"propml tune {command}", "--storage", "best.toml"):
        assert words in printed.out
