"""Models that learn from some of the rows and judge all of them: what a large audit does."""

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from planted import planted
from sklearn.base import BaseEstimator
from sklearn.metrics import average_precision_score

import propml
from propml.auditing import crossfit
from propml.auditing.crossfit import default_auditor, held_out_scores, rows_to_learn_from, split_rows
from propml.auditing.report import AuditReport
from propml.methods.ridge import RidgeRegressionClassifier as RidgeClassifier
from propml.targets import Candidates

RIDGE = RidgeClassifier(1.0)
QUICK = {"hidden": (16,), "epochs": 5}


class Recorder(BaseEstimator):
    """Tells the rows that it learned from and judged, by their only feature."""

    log: ClassVar = []  # of all clones

    def fit(self, X, y):
        self.learned_, self.n_labels_ = X.ravel().tolist(), y.shape[1]
        self.log.append((self.learned_, []))
        return self

    def decision_function(self, X):
        self.log[-1][1].extend(X.ravel().tolist())
        return np.repeat(X, self.n_labels_, axis=1)


def test_each_model_learns_from_a_sample_and_judges_every_row_that_it_did_not_learn_from():
    X = np.arange(200.0)[:, None]
    candidates = Candidates.from_matrix(np.tile([[1, 1, 0], [0, 1, 1]], (100, 1)))
    Recorder.log.clear()
    scores = held_out_scores(Recorder(), X, candidates, split_rows(X, 5, 0), train_rows=50)
    np.testing.assert_array_equal(scores, np.repeat(X, 3, axis=1))
    assert len(Recorder.log) == 5
    for learned, judged in Recorder.log:
        assert len(set(learned)) == 50
        assert not set(learned) & set(judged)
    assert sorted(row for _, judged in Recorder.log for row in judged) == X.ravel().tolist()
    assert len({row for learned, _ in Recorder.log for row in learned}) > 100, "models draw samples of their own"


def test_rows_are_scored_in_blocks(monkeypatch):
    X, _, candidates = planted(90)
    folds = split_rows(X, 3, 0)
    whole = held_out_scores(RIDGE, X, candidates, folds, train_rows=40)
    monkeypatch.setattr(crossfit, "BLOCK_ROWS", 7)
    np.testing.assert_allclose(held_out_scores(RIDGE, X, candidates, folds, train_rows=40), whole, atol=1e-6)


def test_a_sample_that_is_large_enough_is_no_sample():
    X, _, candidates = planted(100)
    model = default_auditor(0, False).set_params(**QUICK)
    everything = propml.audit(X, candidates, model=model, train_rows=None)
    for train_rows in (80, "auto"):
        report = propml.audit(X, candidates, model=model, train_rows=train_rows)
        np.testing.assert_array_equal(report.probabilities, everything.probabilities)
        assert report.settings["train_rows"] is None
    assert "to learn from" not in repr(everything)


def test_false_candidates_are_found_by_the_default_model_on_a_tenth_of_the_rows():
    X, truth, candidates = planted(2000)
    report = propml.audit(X, candidates, train_rows=160)
    told = report.verdicts()
    false = truth[told.row, told.label] == 0
    assert average_precision_score(false, -told.probability) > 0.85
    assert false[told.verdict == "drop"].mean() > 0.85
    assert report.settings["train_rows"] == 160
    assert "ProPMLClassifier, 5 folds of 160 rows to learn from" in repr(report)


def test_the_same_seed_draws_the_same_sample():
    X, _, candidates = planted(120)
    folds = split_rows(X, 5, 0)
    first, again, other = (
        held_out_scores(RIDGE, X, candidates, folds, train_rows=30, random_state=seed) for seed in (3, 3, 4)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_classifier_chooses_by_rows_of_the_sample_that_it_is_not_trained_on(monkeypatch):
    X, _, candidates = planted(100)
    model = default_auditor(0, False).set_params(**QUICK)
    splits = []
    fit = type(model).fit

    def watched(self, X, y, sample_weight=None):
        splits.append((len(X), self.cv))
        return fit(self, X, y, sample_weight)

    monkeypatch.setattr(type(model), "fit", watched)
    scores = held_out_scores(model, X, candidates, split_rows(X, 5, 0), train_rows=50)
    assert np.isfinite(scores).all()
    assert [n for n, _ in splits] == [50] * 5
    for _, ((train, held),) in splits:
        assert len(held) == 5
        assert sorted([*train, *held]) == list(range(50))


@pytest.mark.parametrize(
    ("X", "n_labels", "rows"),
    [
        (np.zeros((5, 100)), 200, 100_000),
        (np.zeros((5, 10)), 5, 100_000),
        (np.zeros((5, 400)), 200, 50_000),  # 30 million values in rows of 600
        (np.zeros((5, 9000)), 10, 20_000),  # never fewer
        (sp.csr_array(np.eye(5, 9000)), 599, 50_000),  # of sparse features, those that are stored
    ],
)
def test_how_many_rows_are_learned_from_goes_by_size_alone(X, n_labels, rows):
    assert rows_to_learn_from(X, n_labels) == rows


@pytest.mark.parametrize("train_rows", [0, -5, True, 2.5, "many"])
def test_a_number_of_rows_that_makes_no_sense_is_refused(train_rows):
    X, _, candidates = planted(30)
    with pytest.raises(ValueError, match=r"train_rows is .*; give a number of rows"):
        propml.audit(X, candidates, model=RIDGE, train_rows=train_rows)


def test_the_number_of_rows_survives_on_disk(tmp_path):
    X, _, candidates = planted(100)
    report = propml.audit(X, candidates, model=RIDGE, train_rows=40)
    report.save(tmp_path)
    assert AuditReport.load(tmp_path).settings["train_rows"] == 40
