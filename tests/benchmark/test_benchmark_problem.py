"""From names to data: which rows, which candidates, which features; and machines that are trained once."""

import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

from propml.benchmark import problem as problem_module
from propml.benchmark.problem import CandidateProblem, has_real_candidates, load_problem, load_truth
from propml.corruption import svm_confusions
from propml.datasets import digits_mosaic
from propml.noise import Noise
from propml.targets import Candidates

HALF = Noise("svm", 0.5)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "propml" / "corruption"


def test_svm_noise_is_the_share_of_false_labels_per_true_label(own_cache):
    problem = load_problem("digits-mosaic", HALF, seed=3, rows=60)
    sizes, true = problem.candidates.sizes(), problem.truth.sum(axis=1)
    assert np.array_equal(sizes, true + true // 2)  # rounded down in each row
    expected = svm_confusions(problem.X, problem.truth, 0.5, random_state=3)
    assert np.array_equal(problem.candidates.to_matrix(), expected.to_matrix())
    assert problem.candidates.labels == tuple("0123456789")
    assert len(list(own_cache.glob("svm-*.npz"))) == 1


def test_machines_are_trained_once_for_all_noise_levels(own_cache, monkeypatch):
    for level in (0.5, 1.5):
        load_problem("digits-mosaic", Noise("svm", level), seed=0, rows=40)
    assert len(list(own_cache.glob("svm-*.npz"))) == 1
    monkeypatch.setattr("propml.corruption.svm._Machines", None)  # would be needed to train again
    load_problem("digits-mosaic", Noise("svm", 1.0), seed=0, rows=40)


def test_settings_reach_the_corruption():
    exact = load_problem("digits-mosaic", HALF, seed=0, rows=40, settings={"rounding": "exact"})
    true = int(exact.truth.sum())
    assert exact.candidates.sizes().sum() == true + round(0.5 * true)


@pytest.mark.parametrize(
    ("corruption", "noise", "settings"),
    [
        ("flips", 0.3, {}),
        ("count", 6, {"mode": "fill"}),
        ("fraction", 0.5, {}),
        ("annotators", 0.2, {"sensitivity": 0.9, "n_annotators": 3}),
    ],
)
def test_other_corruptions_by_name(corruption, noise, settings):
    def made(seed):
        problem = load_problem("digits-mosaic", Noise(corruption, noise), seed, settings=settings, rows=200)
        return problem.candidates.to_matrix(), problem.truth

    candidates, truth = made(1)
    assert np.array_equal(candidates, made(1)[0])
    assert not np.array_equal(candidates, made(2)[0])
    spare = truth == 0
    added = {"flips": 0.3, "fraction": 0.5, "annotators": 1 - 0.8**3}
    if corruption == "count":
        assert (candidates.sum(axis=1) == 6).all()
    else:
        assert candidates[spare].mean() == pytest.approx(added[corruption], abs=0.05)


def test_a_subset_is_drawn_by_the_seed_from_the_rows_themselves():
    everything = digits_mosaic()
    first, again, other = (load_truth("digits-mosaic", seed, 50) for seed in (0, 0, 1))
    assert np.array_equal(first.X, again.X)
    assert not np.array_equal(first.X, other.X)
    rows = {row.tobytes() for row in everything.X}
    assert all(row.tobytes() in rows for row in first.X)
    assert load_truth("digits-mosaic", 0, 10**6).X.shape == everything.X.shape


def test_kept_scores_can_be_judged_by_the_same_truth():
    problem = load_problem("digits-mosaic", Noise("flips", 0.1), 5, rows=30)
    assert np.array_equal(problem.truth, load_truth("digits-mosaic", 5, 30).truth)


def test_features_are_scaled_over_all_rows_where_asked():
    X = np.array([[0.0, 5.0, 2.0], [1.0, 5.0, 4.0], [4.0, 5.0, 0.0]])
    candidates = Candidates.from_matrix(np.eye(3, dtype=int))
    expected = [[-1, 0, 0], [-0.5, 0, 1], [1, 0, -1]]
    for features in (X, sp.csr_array(X)):
        problem = CandidateProblem(features, candidates, np.eye(3))
        assert np.allclose(problem.scaled("unit-range"), expected)
        assert problem.scaled("none") is features


def test_a_dataset_without_candidates_needs_a_level(data_dir):
    with pytest.raises(ValueError, match="birds has no candidates of its own; give a noise level"):
        load_problem("birds", None, 0)


def test_missing_files_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("PROPML_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="propml datasets fetch music-emotion"):
        load_problem("music-emotion", None, 0)


def test_images_are_no_tables(monkeypatch):
    monkeypatch.setattr(problem_module, "load", lambda name: object())
    with pytest.raises(ValueError, match="voc2007 has no table of features"):
        load_truth("voc2007", 0)


def test_real_candidates_come_from_the_file_and_unlabelled_rows_are_dropped(data_dir):
    assert has_real_candidates("yeastcc")
    assert not has_real_candidates("yeast")  # extra too, with clean labels
    problem = load_problem("yeastcc", None, 0)
    assert problem.X.shape == (2434, 6139)
    assert sp.issparse(problem.X)
    assert problem.truth.sum(axis=1).mean() == pytest.approx(3.40, abs=0.005)
    assert (problem.candidates.to_matrix() >= problem.truth).all()
    assert load_problem("birds", Noise("flips", 0.0), 0).truth.shape == (351, 19)


def test_one_worker_trains_the_machines_and_the_others_wait(monkeypatch):
    running, most, trained = [], [], []
    real = problem_module.SVMConfusions.fit

    def slow_fit(self, X, truth):
        running.append(1)
        most.append(len(running))
        time.sleep(0.05)
        found = real(self, X, truth)
        trained.append(found.probabilities_)
        running.pop()
        return found

    monkeypatch.setattr(problem_module.SVMConfusions, "fit", slow_fit)
    threads = [
        threading.Thread(target=load_problem, args=("digits-mosaic", HALF, 0), kwargs={"rows": 30}) for _ in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(trained) == 3
    assert max(most) == 1
    assert all(np.array_equal(each, trained[0]) for each in trained)


def test_a_cache_that_cannot_be_written_costs_time_and_nothing_else(monkeypatch, tmp_path):
    blocked = tmp_path / "cache"
    blocked.write_text("a file where a folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.warns(UserWarning, match="nothing can be kept in the cache folder"):
        made = load_problem("digits-mosaic", HALF, 0, rows=40)
    assert made.candidates.shape[0] == len(made.truth)
