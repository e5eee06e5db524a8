"""The files of a search: the best configuration, all trials, and the page."""

import base64
import csv
import re
import tomllib
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import matplotlib
import numpy as np
import optuna
import pytest
from fake_tasks import Cliff, Hill, Thirsty
from optuna.distributions import CategoricalDistribution, FloatDistribution

from propml.benchmark.experiment import load_experiment
from propml.benchmark.runner import run_experiment
from propml.datasets import digits_mosaic
from propml.tuning import read_best, search
from propml.tuning.result import SearchResult, compared_trials, pictures, render_page
from propml.tuning.searching import run_search
from propml.tuning.spaces import OneOf, Range, When
from propml.tuning.tasks import TableData


@pytest.fixture(scope="module")
def found():
    made = digits_mosaic(90)
    return search(made.X, made.candidates, trials=6, epochs=3, space={"hidden": [(8, 8), (4,)]})


def test_the_benchmark_runs_the_best_configuration_as_it_is(found, tmp_path):
    best = found.write(tmp_path, {"datasets": ["digits-mosaic"], "noise": [50], "rows": 60, "folds": 2})
    experiment = load_experiment(str(best))
    (entry,) = experiment.methods
    assert entry.name == "ProPML tuned"
    assert entry.method == "propml"
    assert entry.params == found.params
    assert len(experiment.cells()) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"best.toml", "trials.csv", "search.html"}
    summary = run_experiment(experiment, tmp_path / "results", verbose=False)
    assert [cell.method.name for cell in summary.done] == ["ProPML tuned"]
    assert summary.failed == []


def test_reading_it_back_gives_the_same_arguments(found, tmp_path):
    method, params = read_best(found.write(tmp_path))
    assert method == "propml"
    assert params == found.params
    assert isinstance(params["hidden"], tuple)


def test_the_estimator_of_a_method_without_networks_scales_as_the_search_did():
    made = digits_mosaic(90)
    X = made.X * np.linspace(1, 100, made.X.shape[1])
    found = search(X, made.candidates, "ridge", trials=3)
    values = []
    data = TableData(X, made.candidates)
    for fold in data.folds:
        model = found.estimator().fit(X[fold.train], made.candidates[fold.train])
        values.append(data.judged(model.predict_proba(X[fold.held]), fold))
    # The search scales all rows at once, as the benchmark does, and the estimator those that it is given.
    assert np.mean(values) == pytest.approx(found.value, abs=0.02)
    assert model[0].fit_transform(X).min() == -1


def test_oracle_says_so_in_the_file(found):
    assert "held-out candidate labels" in found.to_toml()
    found.facts["objective"] = "oracle"
    assert "true labels (oracle)" in found.to_toml()
    found.facts["objective"] = "candidates"


def test_all_trials_are_in_the_table():
    found = run_search(Thirsty(), trials=10)
    rows = list(csv.DictReader(found.to_csv().splitlines()))
    assert [int(row["trial"]) for row in rows] == list(range(10))
    for row, each in zip(rows, found.trials, strict=True):
        assert float(row["x"]) == each.params["x"]
        assert (row["value"] == "") == (each.state == "failed") == (each.params["x"] > 0.5)
        assert row["why"] == each.why


def test_texts_and_numbers_survive_toml():
    from propml.tuning.result import _toml_lines

    values = {"a": 1e-07, "b": True, "c": 'quo"te\n', "d": (1, 2), "e": 3, "f": (), "g": 0.1}
    text = "\n".join(_toml_lines(values))
    assert tomllib.loads(text) == {**values, "d": [1, 2], "f": []}


def test_files_that_are_no_result_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"is not there; give the best\.toml"):
        read_best(tmp_path / "best.toml")
    (tmp_path / "other.toml").write_text("[methods.A]\nmethod = 'a'\n[methods.B]\nmethod = 'b'\n")
    with pytest.raises(ValueError, match="holds 2 methods"):
        read_best(tmp_path / "other.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("methods = 3", "methods is 3, expected fields"),
        ("", "holds 0 methods"),
        ("[methods]\nA = 3", "methods.A is 3, expected fields"),
        ("[methods.A]\nparams = {}", "methods.A has no 'method'"),
        ("[methods.A]\nmethod = 'ridge'\nparams = 3", "methods.A.params is 3, expected fields"),
        ("recipe = 3", "methods.recipe.params is 3, expected fields"),
        ("id,tags\np1,beach", "is not a readable TOML file"),
        ("\xff", "is not a readable TOML file"),
        ("x = " + "[" * 9999 + "]" * 9999, "is not a readable TOML file"),
    ],
)
def test_files_of_another_kind_are_told_by_name(tmp_path, text, words):
    (tmp_path / "b.toml").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=rf"b\.toml.*{words}.*; give the best\.toml that `propml tune` wrote"):
        read_best(tmp_path / "b.toml")


def test_a_study_without_values_has_no_best():
    study = run_search(Hill(), trials=1)
    assert study.best.number == 0
    assert study.failures() == []


# -- the page and its pictures -------------------------------------------------------------------------------------

SPACE = {
    "a": Range(0.01, 1.0, log=True),
    "b": Range(0.0, 1.0),
    "c": OneOf(("x", "y")),
    "d": Range(0.0, 1.0, when=When("c", ("x",))),
}
STORED = {
    "a": FloatDistribution(0.01, 1, log=True),
    "b": FloatDistribution(0, 1),
    "c": CategoricalDistribution(["x", "y"]),
    "d": FloatDistribution(0, 1),
}


def result(n=80, scale=1.0, seed=0):
    """value = 3·log10(a) + b: `a` matters most, `b` a little, `c` not at all; `d` is there only sometimes.

    Every third trial is stopped after epoch 1.
    """
    rng = np.random.default_rng(seed)
    study = optuna.create_study(direction="maximize")
    for number in range(n):
        params = {"a": float(10 ** rng.uniform(-2, 0)), "b": float(rng.random()), "c": str(rng.choice(["x", "y"]))}
        if params["c"] == "x":
            params["d"] = float(rng.random())
        value = scale * (3 * np.log10(params["a"]) + params["b"])
        curve = {1: value, 3: value + 0.5} if number % 3 else {1: value}
        study.add_trial(
            optuna.create_trial(
                state=optuna.trial.TrialState.COMPLETE if number % 3 else optuna.trial.TrialState.PRUNED,
                params=params,
                distributions={name: STORED[name] for name in params},
                value=curve[max(curve)],
                intermediate_values=curve,
            )
        )
    task = Hill(epochs=3)
    task.space = SPACE
    return SearchResult.of(study, task)


def titles(found):
    return [title for title, _, _ in pictures(found)]


def test_trials_are_compared_at_the_last_epoch_that_half_of_them_reached():
    epoch, study = compared_trials(result())
    assert (epoch, len(study.trials)) == (3, 53)
    shares = optuna.importance.get_param_importances(study)
    assert next(iter(shares)) == "a"
    few = result()
    del few.trials[1:30]  # of the rest, 17 of 51 were stopped; then most were
    few.trials[:] = [each for each in few.trials if each.epochs == 1 or each.number % 4 == 1]
    epoch, study = compared_trials(few)
    assert (epoch, len(study.trials)) == (1, len(few.trials))


def test_every_picture_is_well_formed_and_matplotlib_stays_as_it_was():
    before = dict(matplotlib.rcParams)
    drawn = list(pictures(result()))
    assert [title for title, _, _ in drawn] == ["History", "Epoch by epoch", "Importance", "Parallel coordinates"]
    assert all(ET.fromstring(svg).tag.endswith("svg") for _, _, svg in drawn)
    assert "over the 53 trials that were compared after epoch 3" in drawn[2][1]
    assert dict(matplotlib.rcParams) == before


def test_too_few_trials_or_equal_ones_say_nothing_about_importance():
    assert titles(result(7)) == ["History", "Epoch by epoch"]
    assert "Importance" not in titles(result(scale=0.0))
    assert titles(run_search(Hill(), trials=2)) == ["History"]


class Balanced(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.open, self.rows = [], 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.rows += tag == "tr"
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_one_file_with_everything():
    found = run_search(Cliff(), trials=25)
    page = render_page(found, 'propml tune "x" <y>')
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)
    assert "propml tune &quot;x&quot; &lt;y&gt;" in page
    for word in ("History", "Importance", "Parallel coordinates", "no number to compare"):
        assert word in page
    for picture in re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page):
        ET.fromstring(base64.b64decode(picture))
    parser = Balanced(page)
    assert parser.open == []
    assert parser.rows == 1 + 25


def test_the_page_says_whose_labels_were_looked_at():
    found = run_search(Hill(), trials=2)
    assert "no true label was used" in render_page(found)
    found.facts["objective"] = "oracle"
    assert "TRUE labels" in render_page(found)


@pytest.mark.filterwarnings("error")
def test_pictures_are_drawn_without_a_warning():
    assert len(titles(result(20))) == 4
