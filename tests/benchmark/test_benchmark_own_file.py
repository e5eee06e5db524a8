"""A user's own file in an experiment: read as `propml fit` reads it, judged by its truth, known by its content."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from propml.benchmark.cell import TabularCell
from propml.benchmark.experiment import load_experiment
from propml.benchmark.problem import load_problem
from propml.benchmark.store import ResultStore
from propml.cli import app

NAMES = ("beach", "city", "night")
EXPERIMENT = """
datasets = ["photos.csv"]
folds = 3
metrics = ["average_precision", "one_error"]
{noise}

[files."photos.csv"]
{options}

[methods.Ridge]
method = "ridge"

[methods."ML-kNN"]
method = "ml-knn"
"""


def photos(n=60, seed=0):
    """Rows of (truth, candidates, features): each feature tells of one label."""
    random = np.random.default_rng(seed)
    truth = random.random((n, 3)) < 0.4
    truth[np.arange(n), np.arange(n) % 3] = True
    candidates = truth | (random.random((n, 3)) < 0.2)
    return truth, candidates, truth + 0.3 * random.standard_normal((n, 3))


@pytest.fixture
def write(tmp_path):
    """Writes the experiment beside its data and gives its path."""

    def written(options, noise="", n=60):
        with (tmp_path / "photos.csv").open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file)
            rows.writerow(["name", "checked", "tags", "red", "green", "blue", "camera", *(f"t_{n}" for n in NAMES)])
            for i, (true, proposed, x) in enumerate(zip(*photos(n), strict=True)):
                texts = ["|".join(name for name, on in zip(NAMES, row, strict=True) if on) for row in (true, proposed)]
                flags = [str(int(each)) for each in true]
                rows.writerow([f"p{i}", *texts, *(f"{each:.3f}" for each in x), ("Leica", "Zeiss")[i % 2], *flags])
        path = tmp_path / "mine.toml"
        path.write_text(EXPERIMENT.format(options=options, noise=noise), encoding="utf-8")
        return path

    return written


OWN = 'truth = "checked"\ncandidates = "tags"\nsep = "|"\nignore = ["name", "t_*"]'
CORRUPTED = 'truth = "checked"\nsep = "|"\nignore = "name,tags,t_*"'


def problem_of(path):
    cell = load_experiment(path).cells()[0]
    assert isinstance(cell, TabularCell)
    settings = cell.corruption_settings
    return load_problem(cell.dataset, cell.noise, cell.seed, settings=settings, file=cell.file)


def test_own_candidates_are_trained_on_and_own_truth_judges(write):
    problem = problem_of(write(OWN, noise="noise = [50]"))
    truth, candidates, X = photos()
    assert np.array_equal(problem.truth, truth)
    assert np.array_equal(problem.candidates.to_matrix(), candidates)
    # three numbers and a camera of two makes; neither names nor labels are learned from
    assert problem.X.shape[1] in (4, 5)
    alike = [np.corrcoef(problem.X[:, j], X[:, j])[0, 1] for j in range(3)]  # they are scaled
    assert np.allclose(alike, 1, atol=1e-4)


def test_without_candidates_the_truth_is_corrupted(write):
    path = write(CORRUPTED, noise='corruption = "flips"\nnoise = [0.0, 0.5]')
    assert [cell.noise.level for cell in load_experiment(path).cells()] == [0.0, 0.0, 0.5, 0.5]
    problem = problem_of(path)
    assert np.array_equal(problem.truth, photos()[0])
    assert np.array_equal(problem.candidates.to_matrix(), problem.truth)


def test_true_labels_in_columns_of_0_and_1(write):
    flags = 'truth = ["t_*"]\nignore = ["name", "checked", "tags"]'
    problem = problem_of(write(flags, noise='corruption = "flips"\nnoise = [0.2]'))
    assert np.array_equal(problem.truth, photos()[0])


def test_a_true_label_that_nobody_proposed_is_judged_too(write, tmp_path):
    path = write(OWN)
    data = tmp_path / "photos.csv"
    data.write_text(data.read_text(encoding="utf-8").replace("p0,", "p0,harbour|", 1), encoding="utf-8")
    problem = problem_of(path)
    assert problem.truth.shape == problem.candidates.shape == (60, 4)
    harbour = problem.candidates.labels.index("harbour")
    assert problem.truth[:, harbour].tolist() == [1] + 59 * [0]
    assert not problem.candidates.to_matrix()[:, harbour].any()


def test_arrays_carry_both_kinds_of_labels(tmp_path):
    truth, candidates, X = photos()
    np.savez(tmp_path / "photos.npz", X=X, truth=truth.astype(int), candidates=candidates.astype(int))
    path = tmp_path / "mine.toml"
    text = EXPERIMENT.format(options="", noise="").replace("photos.csv", "photos.npz")
    path.write_text(text, encoding="utf-8")
    problem = problem_of(path)
    assert np.array_equal(problem.truth, truth)
    assert np.array_equal(problem.candidates.to_matrix(), candidates)


def test_the_command_runs_it_keeps_it_and_knows_other_content(write, tmp_path):
    path, out = write(OWN), str(tmp_path / "results")
    command = ["benchmark", "run", str(path), "--out", out]
    first = CliRunner().invoke(app, command, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    assert "photos.csv" in first.output
    assert "cells: 2 done now" in first.output
    keys = ResultStore(out).done()
    assert all(key.startswith("mine-photos.csv-real-") for key in keys)
    assert "2 before" in CliRunner().invoke(app, command, catch_exceptions=False).output
    kept = (tmp_path / "results" / "results.jsonl").read_text(encoding="utf-8")
    assert str(tmp_path) not in kept  # a folder of results may be given away
    write(OWN, n=61)
    again = CliRunner().invoke(app, command, catch_exceptions=False)
    assert "cells: 2 done now; " in again.output
    assert len(ResultStore(out).done()) == 4


def test_a_metric_that_is_added_is_measured_by_the_file(write, tmp_path):
    path, out = write(OWN), str(tmp_path / "results")
    CliRunner().invoke(app, ["benchmark", "run", str(path), "--out", out], catch_exceptions=False)
    path.write_text(path.read_text(encoding="utf-8").replace('"one_error"', '"ranking_loss"'), encoding="utf-8")
    again = CliRunner().invoke(app, ["benchmark", "run", str(path), "--out", out], catch_exceptions=False)
    assert "0 done now, 2 before" in again.output
    store = ResultStore(out)
    assert all("ranking_loss" in metrics for metrics in store.measured().values())


def test_a_file_that_changes_under_a_run_is_not_mixed_into_it(write):
    cell = load_experiment(write(OWN)).cells()[0]
    write(OWN, n=61)
    with pytest.raises(ValueError, match=r"photos\.csv was changed after the experiment was read"):
        cell.file.load()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('candidates = "tags"', r'files\."photos.csv" does not work: truth is missing.*photos.csv has name, checked'),
        ('truth = "cheked"', r"cheked.*checked"),
        ('truth = "checked"\nsepp = "|"', r'files\."photos.csv"\.sepp is not a known option; did you mean .sep.'),
        ('truth = "checked"\nsep = 3', r"sep is 3; a text was expected"),
        ('truth = "checked"\nsep = "|"\nvotes = "none.csv"\nid_column = "name"', r"none\.csv does not exist"),
        ('truth = "checked"\nsep = "|"\ntext = "name"\nembed = "auto"', r"looks at the labels of all rows"),
        (CORRUPTED, r"noise is missing; photos\.csv has no candidates of its own"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(write, options, told):
    with pytest.raises(ValueError, match=told):
        load_experiment(write(options))


def test_a_file_that_is_not_described(write):
    path = write(OWN)
    path.write_text(path.read_text(encoding="utf-8").replace('["photos.csv"]', '["photos.csv", "more.csv"]'), "utf-8")
    with pytest.raises(
        ValueError,
        match=r"names 'more\.csv', which is not a known .*, nor a file under \[files\]",
    ):
        load_experiment(path)
