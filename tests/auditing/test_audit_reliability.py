"""Annotators and labels: rates that are known are found, and every number is what its definition says."""

import gzip
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from planted import planted
from scipy.special import expit, logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import average_precision_score

import propml
from propml.auditing.annotator_model import LEVELS, AnnotatorModel, Votes, fit_annotators, reliability_of
from propml.auditing.report import AuditReport
from propml.corruption.annotators import simulated_annotators, vote_table
from propml.datasets import digits_mosaic
from propml.methods.ridge import RidgeRegressionClassifier as RidgeClassifier
from propml.targets import Annotations, Candidates

SENSITIVITY, RATE, COVERAGE = [0.9, 0.8, 0.7, 0.6, 0.9], [0.05, 0.1, 0.2, 0.05, 0.3], [0.8, 0.6, 0.6, 0.8, 0.4]


def test_rates_of_simulated_annotators_are_found():
    data = digits_mosaic(800)
    voted = simulated_annotators(data.truth, SENSITIVITY, RATE, coverage=COVERAGE)
    told = propml.audit(data.X, voted, model=RidgeClassifier(10.0)).annotators()
    np.testing.assert_allclose(told["sensitivity"], SENSITIVITY, atol=0.04)
    np.testing.assert_allclose(told["false_positive_rate"], RATE, atol=0.03)
    looked = pd.DataFrame(vote_table(voted)).groupby("annotator")["item"].nunique()
    assert told["items"].tolist() == looked[told["annotator"]].tolist()


def test_a_good_annotator_is_found_among_spammers():
    data = digits_mosaic(800)
    voted = simulated_annotators(data.truth, [0.9, 0.8, 0.3, 0.3, 0.3], [0.05, 0.05, 0.3, 0.3, 0.3], coverage=0.8)
    told = propml.audit(data.X, voted, model=RidgeClassifier(10.0)).annotators()
    np.testing.assert_allclose(told["sensitivity"], [0.9, 0.8, 0.3, 0.3, 0.3], atol=0.05)
    np.testing.assert_allclose(told["false_positive_rate"], [0.05, 0.05, 0.3, 0.3, 0.3], atol=0.05)


def test_three_real_annotators_of_tweets_agree_with_what_was_agreed_upon(data_dir):
    tweets = []
    for part in ("valid", "test"):
        path = data_dir / "text" / f"redv2-{part}.json.gz"
        tweets += json.loads(gzip.decompress(path.read_bytes()))
    people = ("annotator1", "annotator2", "annotator3")
    votes = [(i, who, j) for i, tweet in enumerate(tweets) for who in people for j in np.flatnonzero(tweet[who])]
    votes += [(i, who, None) for i, tweet in enumerate(tweets) for who in people if not any(tweet[who])]
    candidates = Candidates.from_votes(*zip(*sorted(votes, key=lambda v: v[0]), strict=True), labels=range(7))
    X = TfidfVectorizer(min_df=2).fit_transform(tweet["text"] for tweet in tweets)
    report = propml.audit(X, candidates, model=RidgeClassifier(10.0))
    agreed = np.array([tweet["agreed_labels"] for tweet in tweets])
    marked = candidates.to_matrix() > 0
    assert average_precision_score(agreed[marked] == 0, -report.probabilities[marked]) > 0.98
    told = report.verdicts()
    assert (agreed[told.row, told.label] == 0)[told.verdict == "drop"].mean() > 0.95


def test_rates_of_each_label_are_found():
    X, truth, _ = planted(900)
    voted = simulated_annotators(truth, [0.9, 0.7, 0.8], [0.1, 0.2, 0.15])
    labels = propml.audit(X, voted, model=RidgeClassifier(1.0)).labels()
    np.testing.assert_allclose(labels["sensitivity"], 0.8, atol=0.07)
    np.testing.assert_allclose(labels["false_positive_rate"], 0.15, atol=0.05)


def test_probabilities_from_votes_are_calibrated():
    X, truth, _ = planted(1500, noise=1.5)
    voted = simulated_annotators(truth, [0.9, 0.7, 0.6], [0.1, 0.2, 0.25])
    report = propml.audit(X, voted, model=RidgeClassifier(1.0))
    marked = voted.to_matrix() > 0
    stated, true = report.probabilities[marked], truth[marked]
    for part in np.array_split(np.argsort(stated), 6):
        assert abs(stated[part].mean() - true[part].mean()) < 0.07


def test_the_posterior_is_bayes_rule():
    # Two labels, three rows; eve looks at rows 0 and 1, tom at row 0 only; nobody at row 2.
    table = {"item": [0, 0, 1, 2], "annotator": ["eve", "tom", "eve", "nobody"], "label": ["a", "b", None, None]}
    voted = Candidates.from_votes(*table.values(), labels=["a", "b"], empty="ignore")
    votes = Votes(voted)
    rates = np.array([0.9, 0.7, 0.8]), np.array([0.2, 0.1, 0.8])
    model = AnnotatorModel(np.array([0.3, -1.0]), 2.0, *rates, np.zeros((3, LEVELS)))
    standing = np.array([[0.5, 0.1], [1.0, 0.0], [0.2, 0.4]])
    made = model.posterior(standing, votes, slice(0, 3))
    for i, seen in enumerate(([(0.9, 0.2, "a"), (0.7, 0.1, "b")], [(0.9, 0.2, None)], [(0.8, 0.8, None)])):
        for j, name in enumerate("ab"):
            true, false = expit(model.alpha[j] + 2 * standing[i, j]), expit(-model.alpha[j] - 2 * standing[i, j])
            for sensitivity, rate, proposed in seen:
                true *= sensitivity if proposed == name else 1 - sensitivity
                false *= rate if proposed == name else 1 - rate
            assert made[i, j] == pytest.approx(true / (true + false))


def test_unknown_labels_take_no_evidence_from_silence():
    states = Candidates.from_matrix([[1, -1], [0, 1]])
    seen = Annotations(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), ("one",))
    votes = Votes(replace(states, annotations=seen))
    model = AnnotatorModel(np.zeros(2), 0.0, np.array([0.9]), np.array([0.1]), np.zeros((1, LEVELS)))
    made = model.posterior(np.zeros((2, 2)), votes, slice(0, 2))
    assert made[0, 1] == 0.5
    assert made[1, 0] == pytest.approx(0.1)  # silence: odds (1 − 0.9) / (1 − 0.1)


def test_an_annotator_of_one_vote_is_judged_mildly_and_a_random_one_is_not_believed():
    rng = np.random.default_rng(0)
    truth = (rng.random((300, 4)) < 0.3).astype(int)
    voted = simulated_annotators(truth, [0.95, 0.95, 0.95, 0.4], [0.05, 0.05, 0.05, 0.4])
    table = vote_table(voted)
    false = int(np.flatnonzero(truth[0] == 0)[0])
    table = {
        "item": [*table["item"], 0],
        "annotator": [*table["annotator"], "newcomer"],
        "label": [*table["label"], false],
    }
    candidates = Candidates.from_votes(*table.values(), labels=range(4), empty="ignore")
    model = fit_annotators(np.full((300, 4), 0.5), Votes(candidates))
    newcomer, random = candidates.annotations.names.index("newcomer"), 3
    assert 0.3 < model.sensitivity[newcomer] < 0.9  # by their votes alone it is 0
    assert model.false_positive_rate[newcomer] < 0.4
    gain = np.log(model.sensitivity[random] / model.false_positive_rate[random])
    assert abs(gain) < 0.25


def sure_votes(truth, seed=0):
    """Votes of three annotators who see each label through noise, with P(true) as confidence."""
    rng = np.random.default_rng(seed)
    rows, confidence = [], []
    for who, distance in enumerate((1.5, 2.0, 2.5)):
        sure = expit(
            logit(truth.mean()) + distance * (distance * truth + rng.normal(size=truth.shape)) - distance**2 / 2
        )
        for i in range(len(truth)):
            proposed = np.flatnonzero(sure[i] > 0.2)
            rows += [(i, who, j) for j in proposed] or [(i, who, None)]
            confidence += sure[i, proposed].tolist() or [1.0]
    voted = Candidates.from_votes(*zip(*rows, strict=True), labels=range(truth.shape[1]), empty="ignore")
    told = dict(zip(rows, confidence, strict=True))
    table = vote_table(voted)
    return voted, np.array([told[vote] for vote in zip(*table.values(), strict=True)])


def audited(X, voted, confidence):
    candidates = replace(voted, annotations=replace(voted.annotations, confidence=confidence))
    return propml.audit(X, candidates, model=RidgeClassifier(10.0)).probabilities


def test_confidences_find_more_errors_and_are_learned_from_rather_than_believed():
    data = digits_mosaic(500)
    truth = np.asarray(data.truth)
    voted, confidence = sure_votes(truth)
    marked = voted.to_matrix() > 0

    def found(probabilities):
        return average_precision_score(truth[marked] == 0, -probabilities[marked])

    without = audited(data.X, voted, None)
    told = audited(data.X, voted, confidence)
    assert found(told) > found(without) + 0.005
    np.testing.assert_array_equal(audited(data.X, voted, np.ones(len(confidence))), without)
    np.testing.assert_array_equal(audited(data.X, voted, np.full(len(confidence), 0.7)), without)
    np.testing.assert_array_equal(
        audited(data.X, voted, np.sqrt(confidence)), told
    )  # only the order within each counts
    shuffled = np.random.default_rng(0).random(len(confidence))
    assert abs(found(audited(data.X, voted, shuffled)) - found(without)) < 0.005


def test_a_less_sure_vote_makes_its_label_less_probable():
    data = digits_mosaic(400)
    voted, confidence = sure_votes(np.asarray(data.truth))
    surest = int(np.argmax(np.where(voted.annotations.label >= 0, confidence, 0)))
    lower = confidence.copy()
    lower[surest] = confidence.min()
    row, label = voted.annotations.row[surest], voted.annotations.label[surest]
    before, after = (audited(data.X, voted, sure)[row, label] for sure in (confidence, lower))
    assert after < before


def test_confidences_in_a_table_of_votes_and_in_a_saved_report(tmp_path):
    X, truth, _ = planted(120)
    voted, confidence = sure_votes(truth)
    table = {**vote_table(voted), "confidence": confidence.tolist()}
    report = propml.audit(X, replace(voted, annotations=None), votes=table, model=RidgeClassifier(10.0))
    np.testing.assert_array_equal(report.probabilities, audited(X, voted, confidence))
    report.save(tmp_path)
    np.testing.assert_array_equal(AuditReport.load(tmp_path).candidates.annotations.confidence, confidence)


def counts_by_loops(votes, truth):
    """Sensitivity, rate, precision and Dice agreement from the definitions, vote by vote."""
    proposals = {(a, i): set() for i, a in votes["looked"]}
    for i, a, j in votes["cast"]:
        proposals[a, i].add(j)
    people = sorted({a for a, _ in proposals})
    rows = []
    for a in people:
        mine = [(i, labels) for (who, i), labels in proposals.items() if who == a]
        hits = sum(truth[i, j] for i, labels in mine for j in labels)
        cast = sum(len(labels) for _, labels in mine)
        true = sum(truth[i].sum() for i, _ in mine)
        false = sum((1 - truth[i]).sum() for i, _ in mine)
        shared = both = 0
        for i, labels in mine:
            for (who, item), others in proposals.items():
                if item == i and who != a:
                    shared += 2 * len(labels & others)
                    both += len(labels) + len(others)
        rows.append((hits / true, (cast - hits) / false, hits / cast, shared / both))
    return np.array(rows).T


def test_counts_follow_the_definitions_and_add_up_over_blocks():
    truth = np.random.default_rng(1).random((25, 5))
    voted = simulated_annotators((truth > 0.6).astype(int), [0.8, 0.6, 0.9], [0.1, 0.3, 0.2], coverage=0.8)
    made = reliability_of(Votes(voted), ((rows, truth[rows]) for rows in (slice(0, 10), slice(10, 11), slice(11, 25))))
    entries = list(zip(voted.annotations.row, voted.annotations.annotator, voted.annotations.label, strict=True))
    votes = {"looked": {(i, a) for i, a, _ in entries}, "cast": [entry for entry in entries if entry[2] >= 0]}
    expected = counts_by_loops(votes, truth)
    for name, values in zip(("sensitivity", "false_positive_rate", "precision", "agreement"), expected, strict=True):
        np.testing.assert_allclose(getattr(made, name), values, err_msg=name)
    looks = np.bincount([i for i, _ in votes["looked"]], minlength=25)
    for j in range(5):
        hits = sum(truth[i, j] for i, _, label in votes["cast"] if label == j)
        assert made.label_sensitivity[j] == pytest.approx(hits / (looks @ truth[:, j]))


def test_agreement_and_rates_that_nothing_is_known_of_are_not_a_number():
    seen = Annotations(np.array([0, 1]), np.array([0, 0]), np.array([0, -1]), ("eve", "absent"))
    candidates = Candidates.from_matrix([[1, 0], [0, 0]], empty="ignore")
    truth = np.array([[1.0, 0.0], [0.0, 0.0]])
    made = reliability_of(Votes(replace(candidates, annotations=seen)), [(slice(0, 2), truth)])
    assert made.sensitivity[0] == 1
    assert np.isnan(made.agreement).all()
    assert np.isnan(made.sensitivity[1])
    assert made.items.tolist() == [2, 0]
    assert made.votes.tolist() == [1, 0]
    assert np.isnan(made.label_sensitivity[1])
