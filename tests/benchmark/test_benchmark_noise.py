"""Several kinds of noise in one experiment: run, kept apart, and shown."""

from dataclasses import replace

import numpy as np
import pytest

from propml.benchmark.experiment import load_experiment
from propml.benchmark.problem import load_problem
from propml.benchmark.reporting import write_report
from propml.benchmark.results import means
from propml.benchmark.runner import run_experiment
from propml.benchmark.store import ResultStore
from propml.corruption import class_flips, realised_ratio
from propml.noise import Noise

TWO_KINDS = """
title = "Two kinds of noise that share a level"
datasets = ["digits-mosaic"]
rows = 60
folds = 3
test_folds = 2
metrics = ["average_precision", "example_F1"]

[corruptions.none]
[corruptions.flips]
noise = [0.2, 0.4]
[corruptions.class-flips]
noise = [0.2]

[methods.Ridge]
method = "ridge"

[methods."Extra trees"]
method = "extra-trees"
params = { n_estimators = 20 }
"""


@pytest.mark.parametrize("noise", ["none", "neighbours 100", "flips 0.3", "class-flips 0.3", "count 5"])
def test_a_text_makes_the_same_candidates_as_the_number_does(noise):
    kind, _, level = noise.partition(" ")
    problem = load_problem("digits-mosaic", Noise.read(noise), 1, rows=80)
    if level:
        again = load_problem("digits-mosaic", Noise.read(float(level), kind), 1, rows=80)
        assert problem.candidates == again.candidates
    assert (realised_ratio(problem.truth, problem.candidates).ratio > 0) == (kind != "none")


def test_flips_by_class_see_the_labels_alone():
    problem = load_problem("digits-mosaic", Noise("class-flips", 0.2), 1, rows=80)
    np.testing.assert_array_equal(
        problem.candidates.to_matrix(), class_flips(problem.truth, 0.2, random_state=1).to_matrix()
    )


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "kinds.toml").write_text(TWO_KINDS, encoding="utf-8")
    run_experiment(folder / "kinds.toml", folder / "results", verbose=False)
    return folder / "results"


def test_kinds_that_share_a_level_are_kept_apart(results):
    store = ResultStore(results)
    rows = [row for row in means(store.cells()) if row.metric == "average_precision"]
    ridge = {str(row.noise): row.mean for row in rows if row.method == "Ridge"}
    assert list(ridge) == ["none", "flips 0.2", "flips 0.4", "class-flips 0.2"]
    assert len(set(ridge.values())) == 4
    assert {row.n for row in rows} == {2}  # two of three folds
    assert {len(store.scores(key)) for key in store.done()} == {2}


def test_the_report_shows_each_kind(results, tmp_path):
    write_report(results, tmp_path, formats=["html", "md", "tex", "csv"])
    for name in ("report.html", "report.md", "tables.tex"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert all(kind in text for kind in ("none", "flips 0.2", "flips 0.4", "class-flips 0.2"))
    assert "--noise 'class-flips 0.2'" in (tmp_path / "report.html").read_text(encoding="utf-8").replace("&#39;", "'")
    lines = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*.csv")]
    assert any(",class-flips 0.2," in text for text in lines)


def test_a_new_metric_needs_no_new_fit(results):
    asked = replace(load_experiment(results.parent / "kinds.toml"), metrics=("OF1",))
    again = run_experiment(asked, results, verbose=False)
    assert not again.done
    assert all("OF1" in measured for measured in ResultStore(results).measured().values())
