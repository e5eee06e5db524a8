"""propml.audit as a whole: what it finds, that no model judges a row it saw, and input that is hardly any."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from planted import planted
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import propml
from propml.auditing.crossfit import held_out_scores, row_groups, split_rows
from propml.corruption.annotators import simulated_annotators, vote_table
from propml.datasets import digits_mosaic
from propml.methods.ridge import RidgeRegressionClassifier as RidgeClassifier
from propml.tables.features import Features
from propml.targets import Annotations, Candidates

RIDGE = RidgeClassifier(1.0)


def false_first(report, truth):
    """Average precision of the ranking by P(true), false candidates being what is looked for."""
    marked = report.candidates.to_matrix() > 0
    return average_precision_score(truth[marked] == 0, -report.probabilities[marked])


def test_it_is_a_function_however_it_was_imported_and_light():
    code = (
        "import inspect, propml, propml.auditing.report; from propml import audit; "
        "assert inspect.isfunction(audit) and audit is propml.audit is propml.auditing.audit; "
        "import sys; heavy = {'torch', 'sklearn', 'pandas', 'polars', 'matplotlib'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_false_candidates_of_digits_are_found_by_the_default_model():
    data = digits_mosaic(300)
    report = propml.audit(data.X, data.candidates)
    marked = data.candidates.to_matrix() > 0
    chance = (data.truth[marked] == 0).mean()
    assert false_first(report, data.truth) > chance + 0.2
    told = report.verdicts()
    false = data.truth[told.row, told.label] == 0
    assert false[told.verdict == "drop"].mean() > chance + 0.2


def test_verdicts_on_a_planted_problem_are_mostly_right():
    X, truth, candidates = planted()
    report = propml.audit(X, candidates, noise="uniform", model=RIDGE)
    told = report.verdicts()
    true = truth[told.row, told.label] == 1
    assert false_first(report, truth) > 0.9
    assert true[told.verdict == "keep"].mean() > 0.85
    assert true[told.verdict == "drop"].mean() < 0.1
    cleaned = report.cleaned().to_matrix()
    assert (cleaned != truth).mean() < 0.5 * (candidates.to_matrix() != truth).mean()


def test_the_same_seed_gives_the_same_report_and_another_one_other_folds():
    X, _, candidates = planted(120)
    first, again, other = (propml.audit(X, candidates, model=RIDGE, random_state=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(first.probabilities, again.probabilities)
    assert not np.array_equal(first.probabilities, other.probabilities)


class Spy(BaseEstimator):
    """Remembers the rows it was fitted on, by their features, and refuses to judge them."""

    def fit(self, X, y):
        self.seen_ = {row.tobytes() for row in X}
        self.n_labels_ = y.shape[1]
        return self

    def decision_function(self, X):
        assert not self.seen_ & {row.tobytes() for row in X}, "a row is judged by a model that saw it"
        return np.zeros((len(X), self.n_labels_))


def test_no_row_is_judged_by_a_model_that_saw_it_or_a_copy_of_it():
    X, _, candidates = planted(90)
    X[30:60] = X[:30]
    X[60:63] = X[0]
    report = propml.audit(X, candidates, model=Spy())
    assert report.settings["folds"] == 5


def test_every_row_is_held_out_once_and_folds_are_of_nearly_equal_size():
    X = np.random.default_rng(0).normal(size=(103, 3))
    X[50:60] = X[50]
    folds = split_rows(X, 5, 0)
    held = np.concatenate([held for _, held in folds])
    assert sorted(held) == list(range(103))
    assert max(len(held) for _, held in folds) - min(len(held) for _, held in folds) <= 11
    for train, held in folds:
        assert sorted([*train, *held]) == list(range(103))


def test_copies_are_known_in_sparse_features_whatever_order_they_are_stored_in():
    dense = np.array([[1.0, 0, 2], [0, 0, 0], [1, 0, 2], [0, 0, 0]])
    shuffled = sp.csr_array(dense)
    shuffled.indices[:2], shuffled.data[:2] = shuffled.indices[:2][::-1].copy(), shuffled.data[:2][::-1].copy()
    assert row_groups(shuffled).tolist() == row_groups(dense).tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("cv", [1, 0, True, None, "five", []])
def test_folds_that_make_no_sense_are_refused(cv):
    X, _, candidates = planted(30)
    with pytest.raises(ValueError, match=r"cv is .*at least 2 folds"):
        propml.audit(X, candidates, model=RIDGE, cv=cv)


def test_given_folds_are_used_and_rows_they_never_hold_out_are_left_without_an_opinion():
    X, _, candidates = planted(60)
    pairs = [(np.arange(30), np.arange(30, 60))]
    scores = held_out_scores(RIDGE, X, candidates, split_rows(X, pairs, 0))
    assert np.isnan(scores[:30]).all()
    assert np.isfinite(scores[30:]).all()
    report = propml.audit(X, candidates, model=RIDGE, cv=pairs)
    for label in range(6):  # the share of the label's candidates that is false is all that is known
        own = candidates.to_matrix()[:30, label] > 0
        assert len(set(report.probabilities[:30, label][own])) == 1


# -- models -----------------------------------------------------------------------------------------------------------


def test_models_of_scikit_learn_and_pipelines_serve_as_well():
    X, truth, candidates = planted()
    logistic = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression()))
    for model in (logistic, make_pipeline(StandardScaler(), RidgeClassifier(1.0))):
        report = propml.audit(X, candidates, model=model)
        assert false_first(report, truth) > 0.9
        assert report.settings["model"] == "Pipeline"
        steps = report.settings["params"]["steps"]
        assert steps[0] == ["standardscaler", "StandardScaler()"], "as JSON gives it back"
    assert not hasattr(logistic[-1], "estimators_"), "the model that was given is cloned, not fitted"


class OnlyProbabilities(BaseEstimator):
    def fit(self, X, y):
        self.inner_ = OneVsRestClassifier(LogisticRegression()).fit(X, y)
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


def test_a_model_that_only_gives_probabilities_will_do():
    X, truth, candidates = planted()
    assert false_first(propml.audit(X, candidates, model=OnlyProbabilities()), truth) > 0.9


class Mute(BaseEstimator):
    def fit(self, X, y):
        return self


class Narrow(Mute):
    def decision_function(self, X):
        return np.zeros((len(X), 2))


@pytest.mark.parametrize(("model", "words"), [(Mute(), "neither decision_function nor"), (Narrow(), "scores of shape")])
def test_a_model_that_cannot_score_every_label_is_named(model, words):
    X, _, candidates = planted(30)
    with pytest.raises(ValueError, match=words):
        propml.audit(X, candidates, model=model)


def test_forests_and_neighbours_which_give_a_list_per_label_serve_as_well():
    X, truth, candidates = planted()
    marked = candidates.to_matrix()
    marked[:, 5] = 0  # a label of one class, of which forests know no P(1)
    for model in (RandomForestClassifier(50, min_samples_leaf=5, random_state=0), KNeighborsClassifier(15)):
        report = propml.audit(X, marked, model=model)
        assert false_first(report, truth) > 0.8


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, pd.DataFrame, pl.DataFrame, lambda X: X.tolist()])
def test_features_come_in_many_forms(make):
    X, _, candidates = planted(60)
    expected = propml.audit(X, candidates, model=RIDGE).probabilities
    np.testing.assert_allclose(propml.audit(make(X), candidates, model=RIDGE).probabilities, expected, atol=1e-5)


# -- hardly any input -------------------------------------------------------------------------------------------------


def mixed_rows(n=90):
    """The true label of each row; a number with gaps, a category, a date and a text, of which the last two tell it."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, n)
    words = ["the invoice is wrong", "my parcel never came", "I cannot log in"]
    others = ["please", "again", "since yesterday", "as always", "thanks", "dear team", "help", "order 17"]
    return kind, {
        "price": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
        "country": rng.choice(["NO", "IT"], n),
        "day": np.datetime64("2026-01-01") + kind.astype("timedelta64[D]") * 30,
        "message": [" ".join([words[k], *rng.choice(others, 3)]) for k in kind],
    }


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_mixed_columns_and_gaps_become_features_as_in_files(frame):
    kind, columns = mixed_rows()
    candidates = np.eye(3, dtype=int)[kind]
    candidates[::5] |= np.eye(3, dtype=int)[(kind[::5] + 1) % 3]
    report = propml.audit(frame(columns), candidates, noise="uniform", model=RIDGE)
    same = propml.audit(Features.learn(columns).X, candidates, noise="uniform", model=RIDGE)
    np.testing.assert_array_equal(report.probabilities, same.probabilities)
    assert false_first(report, np.eye(3)[kind]) > 0.95


@pytest.mark.parametrize("texts", [list, np.array, pd.Series, pl.Series])
def test_a_list_of_texts_is_one_column(texts):
    kind, columns = mixed_rows()
    candidates = np.eye(3, dtype=int)[kind]
    candidates[::5] = 1
    report = propml.audit(texts(columns["message"]), candidates, noise="uniform", model=RIDGE)
    assert false_first(report, np.eye(3)[kind]) > 0.95


def test_numbers_in_a_frame_stay_as_they_are():
    X, _, candidates = planted()
    frame = pd.DataFrame(X).rename(columns=str)
    frame["flag"] = X[:, 0] > 0
    wide = np.column_stack([X, X[:, 0] > 0])
    by_frame, by_array = (propml.audit(each, candidates, model=RIDGE).probabilities for each in (frame, wide))
    np.testing.assert_array_equal(by_frame, by_array)


def test_features_that_tell_nothing_lead_to_no_drop():
    rng = np.random.default_rng(0)
    candidates = Candidates.from_matrix((rng.random((200, 8)) < 0.4).astype(int), empty="ignore")
    report = propml.audit(rng.normal(size=(200, 5)), candidates, model=RIDGE)
    found = report.verdicts().counts()
    assert found["drop"] < 0.02 * sum(found.values())


def test_popular_labels_are_not_true_for_being_popular():
    # Label 0 is a candidate of most rows, whatever the features: that it scores high everywhere proves nothing.
    X, truth, candidates = planted(400, false_rate=0.0)
    marked = candidates.to_matrix()
    marked[:, 0] |= np.random.default_rng(1).random(400) < 0.7
    report = propml.audit(X, Candidates.from_matrix(marked), noise="by-label", model=RIDGE)
    told = report.verdicts()
    popular = (told.label == 0) & (truth[told.row, told.label] == 0)
    assert (told.verdict[popular] == "drop").mean() > 0.7


def test_a_single_candidate_stays():
    X, truth, _ = planted(100)
    report = propml.audit(X, Candidates.from_classes(truth.argmax(axis=1)), noise=0.4, model=RIDGE)
    assert not (report.verdicts().verdict == "drop").any()


def test_one_label():
    X = np.random.default_rng(0).normal(size=(40, 2))
    candidates = Candidates.from_matrix((X[:, :1] > 0).astype(int), ["yes"], empty="ignore")
    report = propml.audit(X, candidates, model=RIDGE)
    assert report.cleaned() == candidates
    assert report.labels()["candidates"].tolist() == [(X[:, 0] > 0).sum()]


def test_one_label_by_a_model_that_answers_with_one_number_per_row():
    X = np.random.default_rng(0).normal(size=(40, 2))
    candidates = Candidates.from_matrix((X[:, :1] > 0).astype(int), empty="ignore")

    class OneNumber(Mute):
        def decision_function(self, X):
            return X[:, 0]

    assert propml.audit(X, candidates, model=OneNumber()).cleaned() == candidates


@pytest.mark.parametrize("n_rows", [1, 2, 3, 9])
def test_a_handful_of_rows_is_judged_by_what_is_assumed_alone(n_rows):
    X, _, candidates = planted(20)
    report = propml.audit(X[:n_rows], candidates[np.arange(n_rows)])
    assert np.isfinite(report.probabilities).all()
    assert (report.cleaned().sizes() == candidates.sizes()[:n_rows]).all()


def test_rows_without_candidates_stay_empty_and_labels_that_are_never_candidates_stay_unjudged():
    X, _, candidates = planted(100)
    marked = candidates.to_matrix()
    marked[:10], marked[:, 2] = 0, 0
    report = propml.audit(X, marked, model=RIDGE)
    assert (report.cleaned().sizes()[:10] == 0).all()
    labels = report.labels()
    assert labels["candidates"][2] == 0
    assert np.isnan(labels["share_true"][2])


def test_a_label_that_is_always_a_candidate_is_kept_and_may_be_false_anywhere():
    X, _, candidates = planted(300)
    marked = candidates.to_matrix()
    marked[:, 0] = 1
    report = propml.audit(X, marked, model=RIDGE)
    assert (report.probabilities[:, 0] > 0.9).all()


def test_everything_a_candidate_is_refused_unless_several_annotators_voted():
    X, truth, _ = planted(50)
    with pytest.raises(ValueError, match=r"no label is excluded in any row.*votes of several annotators"):
        propml.audit(X, np.ones((50, 6)), model=RIDGE)
    votes = vote_table(simulated_annotators(truth, [0.9] * 4, [0.1] * 4))
    report = propml.audit(X, np.ones((50, 6)), votes=votes, model=RIDGE)
    assert false_first(report, truth) > 0.9


def test_unknown_labels_are_not_judged_and_stay_unknown():
    X, _, candidates = planted(100)
    marked = candidates.to_matrix()
    marked[::3, 1] = -1
    report = propml.audit(X, Candidates.from_matrix(marked))
    assert np.isnan(report.probabilities[::3, 1]).all()
    assert (report.cleaned().to_matrix()[::3, 1] == -1).all()
    assert not ((report.verdicts().row % 3 == 0) & (report.verdicts().label == 1)).any()


def test_all_rows_alike():
    marked = np.tile([[1, 1, 0], [1, 0, 0]], (20, 1))
    report = propml.audit(np.ones((40, 3)), marked, model=RIDGE)
    assert (report.cleaned().to_matrix() == marked).all()


@pytest.mark.parametrize(
    ("X", "marked", "words"),
    [
        (np.zeros((0, 2)), np.zeros((0, 2)), "there are no rows"),
        (np.zeros((3, 2)), np.ones((4, 2)), "X has 3 rows and the candidate labels 4"),
        (np.zeros((3, 2)), np.zeros((3, 2)), "no row has a candidate label"),
        (np.array([[0, 1], [2, np.nan], [3, 4]]), np.eye(3), "first in row 1; fill in what is missing"),
        (sp.csr_array([[0, 1], [2, 0], [0, np.inf]]), np.eye(3), "first in row 2"),
    ],
)
def test_input_that_cannot_be_audited_is_refused_in_a_sentence(X, marked, words):
    with pytest.raises(ValueError, match=words):
        propml.audit(X, marked, model=RIDGE)


# -- labels that are missing ------------------------------------------------------------------------------------------


def test_labels_that_were_left_out_are_proposed_where_candidates_may_be_incomplete():
    X, truth, candidates = planted(600, noise=0.7)
    marked = candidates.to_matrix()
    lost = (truth == 1) & (np.random.default_rng(0).random(truth.shape) < 0.3)
    lost[(marked & ~lost).sum(axis=1) == 0] = False
    report = propml.audit(X, np.where(lost, 0, marked), incomplete=True, model=RIDGE)
    told = report.verdicts()
    missing = told.verdict == "missing"
    assert truth[told.row[missing], told.label[missing]].mean() > 0.8
    assert missing.sum() > 0.1 * lost.sum()
    np.testing.assert_array_equal(told.confidence[missing], told.probability[missing])
    cleaned = report.cleaned().to_matrix()
    assert (cleaned[told.row[missing], told.label[missing]] == 1).all()
    assert propml.audit(X, np.where(lost, 0, marked), model=RIDGE).verdicts().counts()["missing"] == 0


def test_complete_candidates_have_hardly_anything_missing():
    X, _, candidates = planted(600, noise=0.7)
    found = propml.audit(X, candidates, incomplete=True, model=RIDGE).verdicts().counts()
    assert found["missing"] <= 6


# -- votes ------------------------------------------------------------------------------------------------------------


def test_votes_and_scores_together_beat_majority_vote_and_scores_alone():
    X, truth, _ = planted(500, noise=1.5)
    voted = simulated_annotators(truth, [0.9, 0.7, 0.6], [0.1, 0.2, 0.25])
    voted = voted[voted.sizes() > 0]
    X, truth = X[voted.index], truth[voted.index]
    marked = voted.to_matrix() > 0
    share = voted.votes.toarray() / voted.voters[:, None]
    majority = average_precision_score(truth[marked] == 0, -share[marked])
    alone = false_first(propml.audit(X, Candidates.from_matrix(voted.to_matrix()), model=RIDGE), truth)
    both = false_first(propml.audit(X, voted, model=RIDGE), truth)
    assert both > max(majority, alone) + 0.02


def test_votes_beside_the_candidates_are_the_same_as_votes_within():
    X, truth, _ = planted(80)
    voted = simulated_annotators(truth, [0.95, 0.9], [0.05, 0.1])
    expected = propml.audit(X, voted, model=RIDGE).probabilities
    bare = Candidates.from_matrix(voted.to_matrix(), voted.labels, empty="ignore")
    table = vote_table(voted)
    for votes in (table, pd.DataFrame(table), pl.DataFrame(table), voted.annotations):
        report = propml.audit(X, bare, votes=votes, model=RIDGE)
        np.testing.assert_array_equal(report.probabilities, expected)
        assert len(report.annotators()) == 2


def test_one_annotator_alone_is_judged_by_the_scores():
    X, truth, _ = planted(200)
    voted = simulated_annotators(truth, [1.0], [0.2])
    bare = Candidates.from_matrix(voted.to_matrix())
    report = propml.audit(X, voted, model=RIDGE)
    np.testing.assert_array_equal(report.probabilities, propml.audit(X, bare, model=RIDGE).probabilities)
    assert abs(report.annotators()["false_positive_rate"][0] - 0.2) < 0.06


def test_rows_that_nobody_voted_on_are_judged_by_their_candidates():
    X, truth, candidates = planted(200)
    voted = vote_table(simulated_annotators(truth[:100], [0.95, 0.95], [0.05, 0.05], labels=candidates.labels))
    report = propml.audit(X, candidates, votes=voted, model=RIDGE)
    told = report.verdicts()
    later = told.row >= 100
    assert truth[told.row, told.label][later & (told.verdict == "keep")].mean() > 0.85
    assert truth[told.row, told.label][later & (told.verdict == "drop")].mean() < 0.15


@pytest.mark.parametrize(
    ("votes", "words"),
    [
        ({"item": [0], "annotator": ["eve"]}, "votes has no column 'label'"),
        ({"item": [7], "annotator": ["eve"], "label": [1]}, "row 0 of votes: there is no item 7"),
        ({"item": [0], "annotator": ["eve"], "label": ["x"]}, "row 0 of votes: there is no label .x."),
        ({"item": [0, 1], "annotator": ["eve"], "label": [1]}, "2 items, 1 annotators"),
        ([("eve", 0, 1)], "votes has no column 'item'; give a DataFrame or mapping"),
        (Annotations(np.array([9]), np.array([0]), np.array([0]), ("eve",)), "votes name row 9"),
        (Annotations(np.array([0]), np.array([0]), np.array([5]), ("eve",)), "votes name label 5"),
    ],
)
def test_votes_that_do_not_fit_are_named(votes, words):
    X, marked = np.random.default_rng(0).normal(size=(3, 2)), np.eye(3)
    with pytest.raises(ValueError, match=words):
        propml.audit(X, marked, votes=votes, model=RIDGE)


def test_items_of_votes_may_be_numbers_as_text_and_must_be_named_apart():
    X, truth, candidates = planted(40)
    table = vote_table(simulated_annotators(truth, [0.9, 0.9], [0.1, 0.1], labels=candidates.labels))
    as_text = {**table, "item": [str(item) for item in table["item"]]}
    one, other = (propml.audit(X, candidates, votes=v, model=RIDGE).probabilities for v in (table, as_text))
    np.testing.assert_array_equal(one, other)
    twice = Candidates(candidates.states, candidates.labels, (*range(39), 0))
    with pytest.raises(ValueError, match="several items are called 0"):
        propml.audit(X, twice, votes=table, model=RIDGE)
