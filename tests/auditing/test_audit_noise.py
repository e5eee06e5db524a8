"""From scores to P(true): rates are found, truth is not harmed, and what nobody can know is not claimed."""

import itertools

import numpy as np
import pytest
from review_pages import render_review
from scipy.special import expit

import propml
from propml.auditing import AuditReport
from propml.auditing.noise import NoiseModel, fit_noise
from propml.auditing.process import from_candidates
from propml.auditing.verdicts import give_verdicts
from propml.methods import RidgeRegressionClassifier
from propml.targets import Candidates

SHOWS = np.array([True])
FREQUENCY = np.array([-4.0, -3.5, -3.0, -3.0, -2.5, -4.0])


def world(n=4000, levels=FREQUENCY, steep=3.0, seed=0):
    """Scores that are the logits of P(true), and the truth drawn from them."""
    rng = np.random.default_rng(seed)
    scores = steep * rng.normal(size=(n, len(levels))) + levels
    return scores, rng.random(scores.shape) < expit(scores), rng


def proposed(truth, rng, rate=0.0, lost=0.0):
    """Candidates: false labels come with a rate, true ones go with another."""
    states = np.where(truth, rng.random(truth.shape) >= lost, rng.random(truth.shape) < rate)
    return Candidates.from_matrix(states.astype(np.int8), empty="ignore")


def verdicts(scores, candidates, noise="auto", incomplete=False):
    rates = fit_noise(scores, candidates, noise, incomplete=incomplete)
    told = give_verdicts(from_candidates(scores, candidates, rates, incomplete), candidates, incomplete=incomplete)
    return rates, told


def precision_and_confidence(told, kind, right):
    which = told.verdict == kind
    return right[told.row[which], told.label[which]].mean(), told.confidence[which].mean()


# -- rates --------------------------------------------------------------------------------------------------------


def test_one_rate_of_all_labels_is_found():
    scores, truth, rng = world()
    rates = fit_noise(scores, proposed(truth, rng, rate=0.3), "uniform")
    np.testing.assert_allclose(rates.rate, 0.3, atol=0.03)


def test_a_rate_of_each_label_is_found():
    scores, truth, rng = world()
    true = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    rates = fit_noise(scores, proposed(truth, rng, rate=true), "by-label")
    np.testing.assert_allclose(rates.rate, true, atol=0.04)


def test_the_cautious_end_stays_below_the_rates_of_all_labels():
    scores, truth, rng = world()
    for true in (0.0, 0.1, 0.3, np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5])):
        rates = fit_noise(scores, proposed(truth, rng, rate=true))
        assert (rates.rate <= true + 0.01).all()
        assert (rates.most >= true - 0.03).all()


def test_a_frequent_label_that_is_hard_to_predict_is_not_taken_for_noise():
    scores, truth, rng = world(levels=np.array([1.0, -4.0, -4.0, -4.0]), steep=1.0)
    candidates = proposed(truth, rng)
    rates, told = verdicts(scores, candidates)
    assert rates.most[0] > 0.3  # which nobody can rule out
    assert (told.verdict == "drop").mean() < 0.01
    low, high = rates.false_shares()
    assert low[0] < 0.01 < 0.2 < high[0]


def test_a_rare_clean_label_of_which_scores_tell_nothing_keeps_its_candidates_among_noisy_ones():
    """Its rows with low scores hold as many candidates as others, as if all of them were proposed by chance."""
    scores, truth, rng = world(levels=np.array([-6.0, *FREQUENCY[1:]]))
    candidates = proposed(truth, rng, rate=np.array([0.0, 0.3, 0.3, 0.3, 0.3, 0.3]))
    scores[:, 0] = rng.permutation(scores[:, 0])
    _, told = verdicts(scores, candidates)
    dropped = told.label[told.verdict == "drop"]
    assert (dropped == 0).sum() < 0.1 * truth[:, 0].sum()
    assert (dropped > 0).sum() > 100


@pytest.mark.parametrize("n", [60, 100, 200])
def test_a_handful_of_candidates_stays_among_noisy_labels(n):
    """Models that saw two or three rows of a label score all others low, whatever is true."""
    scores, truth, rng = world(n, levels=np.array([-6.0, -2.0, -1.5, -2.0]))
    few = rng.choice(n, 4, replace=False)
    truth[:, 0], scores[:, 0] = np.isin(np.arange(n), few), -6 + 0.1 * rng.normal(size=n)
    scores[few, 0] -= 1
    truth[:, 1] |= ~truth.any(axis=1)
    _, told = verdicts(scores, proposed(truth, rng, rate=np.array([0.0, 0.3, 0.3, 0.3])))
    dropped = told.label[told.verdict == "drop"]
    assert (dropped == 0).sum() == 0 < (dropped > 0).sum()


def test_a_stated_share_is_taken():
    scores, truth, rng = world()
    candidates = proposed(truth, rng, rate=0.2)
    true = 1 - truth[candidates.to_matrix() > 0].mean()
    rates = fit_noise(scores, candidates, float(true))
    low, high = rates.false_shares()
    np.testing.assert_allclose(low, true, atol=1e-6)
    np.testing.assert_allclose(high, true, atol=1e-6)
    named = fit_noise(scores, candidates, {2: 0.5, "3": 0.25})
    np.testing.assert_allclose(named.false_shares()[0][[2, 3]], [0.5, 0.25], atol=1e-6)
    others = [0, 1, 4, 5]
    np.testing.assert_allclose(named.rate[others], fit_noise(scores, candidates).rate[others])


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        ("random", "noise is 'random'; choose one of auto, uniform, by-label, confusions"),
        (1.2, "noise is 1.2; give the share of candidates that is false"),
        (True, "noise is True; give the share"),
        ({"cat": 0.2}, "noise names the label 'cat', which no row has; there are 0, 1"),
        ({0: "much"}, "noise of 0 is 'much'; give the share"),
    ],
)
def test_noise_that_cannot_be_is_refused(noise, message):
    scores, truth, rng = world(200)
    with pytest.raises(ValueError, match=message):
        fit_noise(scores, proposed(truth, rng), noise)


# -- P(true) ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("noise", "rate"), [("uniform", 0.2), ("by-label", np.linspace(0.1, 0.5, 6)), ("auto", 0.3)])
def test_drops_are_as_right_as_they_are_confident(noise, rate):
    scores, truth, rng = world()
    _, told = verdicts(scores, proposed(truth, rng, rate=rate), noise)
    assert (told.verdict == "drop").sum() > 500
    precision, confidence = precision_and_confidence(told, "drop", ~truth)
    assert precision > confidence - 0.05


@pytest.mark.parametrize("steep", [0.5, 1.0, 3.0])
def test_clean_labels_stay(steep):
    for seed in range(3):
        scores, truth, rng = world(1500, steep=steep, seed=seed)
        _, told = verdicts(scores, proposed(truth, rng))
        assert not (told.verdict == "drop").any()


def test_calibration_looks_at_all_labels_however_many_rows_there_are(monkeypatch):
    """Of ten labels every tenth cell would be of one label."""
    scores, truth, rng = world(3000, levels=np.linspace(-4, 2, 10))
    candidates = proposed(truth, rng)
    whole = fit_noise(scores, candidates)
    monkeypatch.setattr("propml.auditing.noise.MOST_CELLS", 3001)  # every tenth
    some = fit_noise(scores, candidates)
    assert some.slope == pytest.approx(whole.slope, abs=0.15)
    assert some.slope == pytest.approx(1, abs=0.2)
    np.testing.assert_allclose(some.offset + some.level, whole.offset + whole.level, atol=0.3)


def test_confusions_are_believed_as_the_scores_are():
    scores, truth, rng = world()
    candidates = proposed(truth, rng)
    rates = fit_noise(scores, candidates, "confusions")
    np.testing.assert_allclose(rates.of_candidates(scores), expit(rates.logits(scores)))
    # Scores that are logits of P(candidate) are calibrated already.
    assert rates.slope == pytest.approx(1, abs=0.1)


def test_the_formulas_are_those_of_bayes():
    rates = NoiseModel(1.0, 0.0, np.zeros(1), np.full(1, 0.3), np.full(1, 0.1), np.full(1, 0.1), np.full(1, 0.2), SHOWS)
    for true in (0.2, 0.6, 0.95):
        candidate = 0.8 * true + 0.1 * (1 - true)
        score = np.array([[np.log(candidate / (1 - candidate))]])
        assert rates.of_candidates(score).item() == pytest.approx(0.8 * true / candidate)
        assert rates.of_others(score).item() == pytest.approx(0.2 * true / (1 - candidate))


def test_a_higher_score_is_never_less_probable():
    scores, truth, rng = world(500)
    for noise, incomplete in itertools.product(("auto", "uniform", "by-label", "confusions"), (False, True)):
        rates = fit_noise(scores, proposed(truth, rng, rate=0.2), noise, incomplete=incomplete)
        for probable in (rates.of_candidates(scores), rates.of_others(scores)):
            assert ((probable >= 0) & (probable <= 1)).all()
            for j in range(6):
                assert (np.diff(probable[np.argsort(scores[:, j]), j]) >= 0).all()


def test_what_is_surely_false_is_still_ranked():
    rates = NoiseModel(1.0, 0.0, np.zeros(1), np.full(1, 0.5), np.full(1, 0.4), np.full(1, 0.4), np.zeros(1), SHOWS)
    probable = rates.of_candidates(np.array([[-9.0], [-7.0], [-5.0], [-2.0]]))[:, 0]
    assert (np.diff(probable) > 0).all()


def test_the_unit_of_scores_does_not_matter():
    scores, truth, rng = world(800)
    candidates = proposed(truth, rng, rate=0.2)
    one, other = (fit_noise(moved, candidates).of_candidates(moved) for moved in (scores, 1000 * scores + 5000))
    np.testing.assert_allclose(one, other, atol=1e-3)


def test_scores_that_tell_nothing_drop_nothing():
    rng = np.random.default_rng(0)
    candidates = Candidates.from_matrix((rng.random((400, 5)) < 0.4).astype(int), empty="ignore")
    for scores in (rng.normal(size=(400, 5)), np.zeros((400, 5)), -1.0 * candidates.to_matrix()):
        _, told = verdicts(scores, candidates)
        assert not (told.verdict == "drop").any() or told.confidence[told.verdict == "drop"].max() <= 0.95
    assert fit_noise(-1.0 * candidates.to_matrix(), candidates).slope == 0


def test_rows_without_scores_are_kept():
    candidates = Candidates.from_matrix([[1, 1, 0], [1, 0, 0]])
    scores = np.full((2, 3), np.nan)
    rates, told = verdicts(scores, candidates)
    assert told.verdict.tolist() == ["keep"] * 3
    named = fit_noise(scores, candidates, {0: 0.4})
    np.testing.assert_allclose(named.false_shares()[0][0], 0.4)
    assert np.isfinite(named.of_candidates(scores)).all()
    assert np.isfinite(rates.of_candidates(scores)).all()


def test_blocks_of_rows_change_nothing(monkeypatch):
    scores, truth, rng = world(60)
    candidates = proposed(truth, rng, rate=0.3)
    rates = fit_noise(scores, candidates)
    whole = from_candidates(scores, candidates, rates, False)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 7 * candidates.shape[1])
    np.testing.assert_allclose(from_candidates(scores, candidates, rates, False), whole)


def test_unknown_labels_have_no_probability_and_count_for_nothing():
    scores, truth, rng = world(600)
    states = proposed(truth, rng, rate=0.2).to_matrix()
    hidden = states.copy()
    hidden[::2, 3] = -1
    candidates = Candidates.from_matrix(hidden, empty="ignore")
    rates = fit_noise(scores, candidates)
    assert np.isnan(from_candidates(scores, candidates, rates, False)[::2, 3]).all()
    assert rates.share[3] == pytest.approx((states[1::2, 3].sum() + 0.5) / 301)


# -- missing labels -----------------------------------------------------------------------------------------------


def test_lost_labels_are_found_and_no_candidate_goes_for_it():
    scores, truth, rng = world(levels=np.array([0.0, -1.0, -2.0, -2.0, -3.0, -3.0]), steep=6.0)
    candidates = proposed(truth, rng, lost=0.3)
    rates, told = verdicts(scores, candidates, incomplete=True)
    assert (rates.lost <= 0.32).all()
    assert rates.lost.mean() > 0.2
    assert (told.verdict == "missing").sum() > 200
    precision, confidence = precision_and_confidence(told, "missing", truth)
    assert precision > confidence - 0.05
    assert (told.verdict == "drop").mean() <= 0.01


def test_nothing_is_missing_where_nothing_was_lost():
    for steep in (1.0, 3.0, 6.0):
        scores, truth, rng = world(steep=steep)
        _, told = verdicts(scores, proposed(truth, rng, rate=0.1), incomplete=True)
        assert (told.verdict == "missing").sum() <= 0.01 * truth.sum()


# -- in the report ------------------------------------------------------------------------------------------------


def test_the_report_says_what_it_assumes_and_what_would_go(tmp_path):
    scores, truth, rng = world(1500, levels=np.array([6.0, -3.5, -3.0, -3.0, -2.5, -4.0]))
    rate = np.array([0.0, 0.0, 0.0, 0.5, 0.0, 0.0])
    report = propml.audit(scores, proposed(truth, rng, rate=rate), noise="by-label")
    labels = report.labels()
    assert labels["false_least"][3] > 0.6
    assert labels["false_most"].max() <= 1
    first, *flagged = report.notes()
    assert "of the candidates are false, by noise='by-label'" in first
    assert any(note.startswith("'3': ") and "candidates would be dropped" in note for note in flagged)
    report.save(tmp_path)
    again = AuditReport.load(tmp_path)
    assert again.notes() == report.notes()
    assert repr(again) == repr(report)


def test_p_true_is_called_an_upper_bound_unless_the_noise_is_stated():
    scores, truth, rng = world(800)
    candidates = proposed(truth, rng, rate=np.full(truth.shape[1], 0.2))
    false = 1 - truth.sum() / (candidates.to_matrix() > 0).sum()
    for noise, bounded in (("confusions", True), (float(false), False)):
        report = propml.audit(scores, candidates, noise=noise)
        assert report.bounded == bounded
        assert any("upper bound" in note for note in report.notes()) == bounded
        assert f'"bounded":{str(bounded).lower()}' in render_review(report)


def test_where_nothing_can_be_told_the_report_says_so():
    scores, truth, rng = world(600, levels=np.array([0.5, 0.0, 0.5]), steep=0.2)
    report = propml.audit(scores, proposed(truth, rng, rate=0.1), model=RidgeRegressionClassifier())
    assert (report.verdicts().verdict != "drop").all()
    assert any(note.startswith("Nothing is dropped") for note in report.notes())
