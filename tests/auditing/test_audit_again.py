"""Facts about an audit that learns from a review: what was decided is certain, and says more of the rest."""

import numpy as np
import pytest
from planted import planted

import propml
from propml.auditing.crossfit import held_out_scores, split_rows
from propml.auditing.decisions import Decision
from propml.auditing.noise import fit_noise, reviewed_rates
from propml.methods.ridge import RidgeRegressionClassifier
from propml.targets import Candidates

RIDGE = RidgeRegressionClassifier(1.0)


def reviewed_by_truth(report, truth, n):
    """Decisions on the most suspicious candidates, as somebody makes them who knows the truth."""
    told = report.verdicts()
    order = np.argsort(told.probability, kind="stable")[:n]
    return [Decision(report.item_ids[i], report.label_names[j], bool(truth[i, j])) for i, j, *_ in told[order]]


def test_reviewed_labels_are_certain_and_the_rest_knows_better_how_many_are_false():
    X, truth, candidates = planted(500)
    first = propml.audit(X, candidates, model=RIDGE)
    decided = reviewed_by_truth(first, truth, 300)
    again = propml.audit(X, candidates, model=RIDGE, reviewed=decided)
    for each in decided:
        row, label = again.item_ids.index(each.item), again.label_names.index(each.label)
        assert again.probabilities[row, label] == each.belongs
        assert (again.candidates.to_matrix()[row, label] > 0) == each.belongs
    marked = again.candidates.to_matrix() > 0
    left = int((marked & (truth == 0)).sum())
    assert again.errors_left == pytest.approx(left, rel=0.35)
    n_false = sum(not each.belongs for each in decided)
    assert again.settings["reviewed"] == {"true": 300 - n_false, "false": n_false}
    assert again.notes()[0].startswith(f"A person reviewed 300 labels, and {n_false} of them were false; of the other")


def test_a_label_that_nobody_proposed_may_be_added_by_a_person():
    X, _, candidates = planted(200)
    row, label = np.argwhere(candidates.to_matrix() == 0)[0].tolist()
    report = propml.audit(
        X, candidates, model=RIDGE, reviewed=[Decision(str(row), str(candidates.labels[label]), True)]
    )
    assert report.candidates.to_matrix()[row, label] == 1
    assert report.probabilities[row, label] == 1


def test_rates_follow_what_reviewed_candidates_turn_out_to_be():
    """With the same scores: the more of them are false, the higher the rates; within what data allow."""
    X, _, candidates = planted(400)
    scores = held_out_scores(RIDGE, X, candidates, split_rows(X, 5, 0))
    model = fit_noise(scores, candidates)
    at = np.argwhere(candidates.to_matrix() > 0)[::7]
    truths = [np.full(len(at), value) for value in (True, False)]
    few, many = (reviewed_rates(model, scores, at, told).rate for told in truths)
    assert (few < model.rate).all()
    assert (many >= model.rate).all()
    assert (many <= model.most).all()
    assert reviewed_rates(model, scores, at[:0], truths[0][:0]) is model


def test_reviewed_labels_judge_the_annotators():
    """Two annotators who disagree: without more, nobody knows whom to believe."""
    rng = np.random.default_rng(0)
    truth = rng.random((60, 4)) < 0.4
    votes = [
        (i, who, j)
        for i in range(60)
        for j in range(4)
        for who, p in (("ann", truth[i, j]), ("bob", not truth[i, j]))
        if p
    ]
    item, who, label = zip(*votes, strict=True)
    candidates = Candidates.from_votes(item, who, label, labels=range(4), empty="ignore")
    X = rng.normal(size=(len(candidates), 3))
    decided = [
        Decision(str(candidates.index[i]), str(j), bool(truth[candidates.index[i], j]))
        for i in range(20)
        for j in range(4)
    ]
    report = propml.audit(X, candidates, model=RIDGE, reviewed=decided)
    rates = dict(zip(report.reliability.annotators, report.reliability.sensitivity, strict=True))
    assert rates["ann"] > 0.8 > 0.3 > rates["bob"]
