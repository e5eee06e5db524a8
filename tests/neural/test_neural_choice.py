"""Facts about what is chosen on candidates: scaling, λ, noise rates, threshold."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Ridge

from propml.folds import make_folds
from propml.metrics import average_precision
from propml.neural.criteria import (
    average_precision_loss,
    balanced_lam,
    get_criterion,
    get_loss,
    lam_grid,
    one_error_loss,
)
from propml.neural.encoding import FeatureScaler, QuantileBins
from propml.neural.ensemble import Ensemble, Networks, Standard
from propml.neural.fitting import fit_scaler, plausibility_of
from propml.neural.forest import Trees, fit_forest
from propml.neural.judgement import (
    balanced_threshold,
    candidate_sigmoid,
    f1_threshold,
    middle_threshold,
    noise_floor,
    true_logits,
)
from propml.neural.linear import PENALTY, _System, fit_linear, is_solvable, linear_models
from propml.neural.members import Member, chosen_weights
from propml.neural.path import lambda_path
from propml.neural.saving import ensemble_from_state, ensemble_state
from propml.targets import Candidates

# --- features ----------------------------------------------------------------------------------------------------


def test_dense_features_are_standardised_and_clipped():
    X = np.random.default_rng(0).normal(5, 3, size=(200, 3))
    X[:, 2] = 7.0
    X[0, 0] = 1e6
    scaled = FeatureScaler(3).fit(X).transform(X)
    assert scaled[:, 1].mean() == pytest.approx(0, abs=1e-5)
    assert scaled[:, 1].std() == pytest.approx(1, abs=1e-4)
    assert (scaled[:, 2] == 0).all()
    assert scaled[0, 0] == 5.0


def test_binary_features_stay_as_they_are():
    X = (np.random.default_rng(0).random((100, 8)) < 0.1).astype(float)
    scaler = FeatureScaler(8).fit(X)
    assert scaler.keeps_zeros
    assert not scaler.counts
    np.testing.assert_allclose(scaler.transform(X), X)


@pytest.mark.parametrize("rarity", [0.0, 1.0])
def test_counts_go_through_the_logarithm_sparse_and_dense_alike(rarity):
    X = np.random.default_rng(0).poisson(0.2, size=(300, 6)).astype(float)
    scaler, other = FeatureScaler(6).fit(X, rarity), FeatureScaler(6).fit(sp.csr_array(X), rarity)
    assert scaler.counts
    scaled = scaler.transform(X)
    np.testing.assert_allclose(other.transform(sp.csr_array(X)).toarray(), scaled, rtol=1e-5)
    if rarity == 0:
        filled = np.where(scaled > 0, scaled, np.nan)
        np.testing.assert_allclose(np.sqrt(np.nanmean(filled**2, axis=0)), 1, rtol=1e-5)
    else:
        np.testing.assert_allclose(np.sqrt((scaled**2).mean(axis=0)), 1, rtol=1e-5)


def test_how_loud_rare_words_are_is_chosen_on_held_out_candidates():
    # Two hundred common words are noise; each label goes with a rare word. Turning rare words up must win.
    rng = np.random.default_rng(0)
    n = 120
    common = rng.random((n, 200)) < 0.3
    rare = np.eye(20)[rng.integers(20, size=n)]
    X = np.hstack([common, rare]).astype(float)
    states = rare.astype(np.int8)
    scaler = fit_scaler(X, states, make_folds(n, 5, 0), average_precision_loss)
    assert scaler.scale[200:].mean() > 1.5 * scaler.scale[:200].mean()


# --- criteria ------------------------------------------------------------------------------------------------------


def test_the_criterion_is_average_precision_on_candidates():
    rng = np.random.default_rng(0)
    scores, marks = rng.normal(size=(50, 6)).astype(np.float32), (rng.random((50, 6)) < 0.4).astype(np.int8)
    valid = (marks.sum(1) > 0) & (marks.sum(1) < 6)
    loss = average_precision_loss(torch.as_tensor(scores), torch.as_tensor(marks))
    assert 1 - loss[torch.as_tensor(valid)].mean().item() == pytest.approx(average_precision(marks, scores), abs=1e-6)
    assert (loss[torch.as_tensor(~valid)] == 0).all()


def test_unknown_entries_do_not_count_in_criteria():
    scores = torch.tensor([[5.0, 3.0, 2.0, 1.0]])
    marks = torch.tensor([[-1, 1, 0, 1]])
    known = average_precision_loss(scores[:, 1:], marks[:, 1:])
    torch.testing.assert_close(average_precision_loss(scores, marks), known)
    assert one_error_loss(scores, marks).item() == 0
    assert one_error_loss(scores, torch.tensor([[-1, 0, 1, 1]])).item() == 1


def test_criteria_and_losses_by_name():
    assert get_criterion("bce")(torch.zeros(1, 2), torch.tensor([[1, 0]])).item() == pytest.approx(2 * np.log(2))
    assert get_criterion(one_error_loss) is one_error_loss
    assert get_loss(one_error_loss) == (one_error_loss, 1.0)
    with pytest.raises(ValueError, match="criterion is 'accuracy'"):
        get_criterion("accuracy")
    with pytest.raises(ValueError, match="loss is 'hinge'"):
        get_loss("hinge")


# --- λ -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0])
def test_at_the_balanced_lambda_both_terms_pull_alike(order):
    from propml.losses import power_loss

    candidates = Candidates.from_matrix([[1, 1, 1, 0, 0, 0, 0, 0]])
    lam = balanced_lam(candidates, order)
    logits = torch.zeros(1, 8, dtype=torch.float64, requires_grad=True)
    power_loss(logits, candidates.to_torch(), lam=lam, order=order).sum().backward()
    assert -logits.grad[0, :3].sum().item() == pytest.approx(logits.grad[0, 3:].sum().item())


def test_lambda_falls_with_the_number_of_labels():
    few, many = (Candidates.from_matrix(np.eye(4, c, dtype=int)) for c in (6, 200))
    assert balanced_lam(many) < balanced_lam(few) / 30
    assert lam_grid(few) == sorted(lam_grid(few))
    unknown = Candidates.from_matrix([[1, -1, -1, 0, 0]])
    assert balanced_lam(unknown) == pytest.approx(1 / 2)
    assert np.isfinite(balanced_lam(Candidates.from_matrix(np.ones((3, 2), int))))


def test_the_path_finds_the_lambda_that_a_search_one_by_one_finds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    S = (X @ rng.normal(size=(6, 5)) > 0).astype(int)
    S[:, 0] = 1
    common = {"cv": 3, "hidden": (16,), "epochs": 6, "batch_size": 32, "random_state": 1}
    path = lambda_path(X, S, [0.01, 0.3, 3.0], **common)
    alone = [lambda_path(X, S, [lam], **common).values[0] for lam in path.lams]
    np.testing.assert_allclose(path.values, alone, atol=1e-5)
    assert path.best in path.lams
    assert path.simplest >= path.best
    figure, axis = path.plot()
    assert axis.get_xscale() == "log"
    assert figure is axis.figure
    assert lambda_path(sp.csr_array(X), S, **common).lams.shape == (9,)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [({"lams": [-1]}, "lams"), ({"lams": []}, "lams"), ({"cv": 1}, "cv is 1"), ({"loss": "hinge"}, "loss is 'hinge'")],
)
def test_a_bad_path_is_told(arguments, told):
    with pytest.raises(ValueError, match=told):
        lambda_path(np.ones((10, 2)), np.ones((10, 2), int), **arguments)
    with pytest.raises(ValueError, match="10 rows and the candidates 9"):
        lambda_path(np.ones((10, 2)), np.ones((9, 2), int))


# --- the linear model ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 8), (20, 40)])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_linear_model_is_ridge_regression(shape, weighted):
    rng = np.random.default_rng(0)
    X, states = rng.normal(1, 2, size=shape), (rng.random((shape[0], 3)) < 0.4).astype(np.int8)
    weight = rng.uniform(0.2, 1.8, shape[0]) if weighted else np.ones(shape[0])
    weight *= shape[0] / weight.sum()
    penalty = PENALTY * np.average(((X - np.average(X, axis=0, weights=weight)) ** 2).sum(axis=1), weights=weight)
    expected = Ridge(alpha=penalty).fit(X, states, weight)
    for features in (X, sp.csr_array(X)):
        coefficients, bias = fit_linear(features, states, 3 * weight if weighted else None)
        np.testing.assert_allclose(coefficients, expected.coef_.T, atol=1e-8)
        np.testing.assert_allclose(bias, expected.intercept_, atol=1e-8)


def test_unknown_entries_pull_neither_way():
    X = np.vstack([np.eye(3)] * 5)
    states = np.ones((15, 1), np.int8)
    states[::3] = 0
    states[1::3] = -1
    coefficients, bias = fit_linear(X, states)
    assert coefficients[0, 0] + bias[0] < coefficients[1, 0] + bias[0] < coefficients[2, 0] + bias[0]


@pytest.mark.parametrize("shape", [(25, 6), (15, 40)])
@pytest.mark.parametrize("weighted", [False, True])
def test_no_row_is_judged_by_itself(shape, weighted):
    """Leaving a row out is solving again without it, with the penalty, the centre and the means of all rows."""
    rng = np.random.default_rng(0)
    X, targets = rng.normal(1, 2, size=shape), (rng.random((shape[0], 3)) < 0.4).astype(float)
    weight = rng.uniform(0.2, 1.8, shape[0]) if weighted else np.ones(shape[0])
    weight *= shape[0] / weight.sum()
    centred = X - np.average(X, axis=0, weights=weight)
    mean = np.average(targets, axis=0, weights=weight)
    penalty = PENALTY * np.average((centred**2).sum(axis=1), weights=weight)
    for features in (X, sp.csr_array(X)):
        left_out = _System(features, weight if weighted else None).left_out(targets, np.ones_like(targets, bool))
        for row in range(shape[0]):
            others = np.arange(shape[0]) != row
            ridge = Ridge(alpha=penalty, fit_intercept=False).fit(
                centred[others], (targets - mean)[others], weight[others]
            )
            np.testing.assert_allclose(left_out[row], centred[row] @ ridge.coef_.T + mean, atol=1e-8)


def test_a_large_system_leaves_out_half_of_the_rows(monkeypatch):
    monkeypatch.setattr("propml.neural.linear.LARGEST_SYSTEM", 10)
    rng = np.random.default_rng(0)
    X, targets = (
        sp.random_array((60, 30), density=0.2, rng=rng, format="csr"),
        (rng.random((60, 3)) < 0.4).astype(float),
    )
    known = np.ones_like(targets, bool)
    even = np.arange(60) % 2 == 0
    coefficients, bias = _System(X[~even], None).solve(targets[~even], known[~even])
    np.testing.assert_allclose(
        _System(X, None).left_out(targets, known)[even], X[even] @ coefficients + bias, atol=1e-9
    )


def test_models_of_a_fold_know_nothing_of_its_held_out_candidates():
    rng = np.random.default_rng(0)
    X, states = rng.normal(size=(30, 4)).astype(np.float32), (rng.random((30, 5)) < 0.4).astype(np.int8)
    states[3, 2] = -1
    folds = make_folds(30, 3, 0)
    models, held, plausible = linear_models(X, states, folds)
    for number, fold in enumerate(folds):
        changed = states.copy()
        changed[fold.held] = 1 - np.abs(changed[fold.held])
        _, other, judged = linear_models(X, changed, folds)
        np.testing.assert_array_equal(other[fold.held], held[fold.held])
        np.testing.assert_array_equal(judged[number, fold.train], plausible[number, fold.train])
        own = plausible[number, fold.train]
        np.testing.assert_array_equal(np.sign(own), states[fold.train])
        some = (states[fold.train] > 0).any(axis=1)
        assert (own[some].max(axis=1) == 1).all()
    encoded = torch.from_numpy(np.hstack([X, rng.normal(size=(30, 8)).astype(np.float32)]))
    with torch.no_grad():
        alone = [
            Networks([[(w[k].numpy(), b[k, 0].numpy()) for w, b in zip(models.weights, models.biases, strict=True)]])(
                encoded
            )
            for k in range(3)
        ]
    np.testing.assert_allclose(models(encoded), torch.stack(alone).mean(0), atol=1e-6)


def test_a_linear_model_believes_plausible_candidates():
    """Labels 0 and 1 tell the row's half; label 2 is proposed everywhere and means nothing."""
    rng = np.random.default_rng(0)
    half = np.arange(200) % 2
    X = (2.0 * half - 1)[:, None] + 0.3 * rng.normal(size=(200, 3))
    states = np.stack([half, 1 - half, rng.random(200) < 0.3], axis=1).astype(np.int8)
    _, _, plausible = linear_models(X, states, make_folds(200, 2, 0))
    train = make_folds(200, 2, 0)[0].train
    both = states[train, 2] == 1
    assert plausible[0, train][both, 2].mean() < 0.5
    assert plausible[0, train][:, :2].max(axis=1).min() > 0.5


def test_above_the_limit_all_candidates_are_as_plausible(monkeypatch):
    monkeypatch.setattr("propml.neural.linear.MOST_ENTRIES", 100)
    X, states = np.random.default_rng(0).normal(size=(40, 3)), np.eye(2, dtype=np.int8)[np.arange(40) % 2]
    assert linear_models(X, states, make_folds(40, 2, 0))[2] is None


# --- noise rates -----------------------------------------------------------------------------------------------------


def test_a_rare_label_shows_its_noise_rate():
    # 5 % of the rows are positive and known by their score; the others are proposed at 30 %.
    rng = np.random.default_rng(0)
    positive = rng.random((4000, 1)) < 0.05
    candidate = np.where(positive, 0.99, 0.3)
    floor = noise_floor(np.log(candidate / (1 - candidate)))
    assert floor[0] == pytest.approx(0.3)


def test_rows_that_were_not_held_out_say_nothing_of_noise():
    logits = np.array([[0.0, -1.0], [np.nan, np.nan], [0.0, -1.0]])
    np.testing.assert_allclose(noise_floor(logits), 1 / (1 + np.exp([0.0, 1.0])))


def test_what_noise_adds_is_taken_away():
    true = torch.tensor([0.01, 0.2, 0.5, 0.9, 0.999], dtype=torch.float64)
    for rate in (0.0, 0.2, 0.6):
        candidate = true + (1 - true) * rate
        found = true_logits(torch.logit(candidate), torch.tensor(rate, dtype=torch.float64)).sigmoid()
        torch.testing.assert_close(found, true)


def test_below_the_floor_the_order_stays():
    logits = torch.linspace(-30, 30, 200, dtype=torch.float64)
    found = true_logits(logits, torch.tensor(0.4, dtype=torch.float64))
    assert (found.diff() > 0).all()
    assert found.isfinite().all()


# --- threshold -------------------------------------------------------------------------------------------------------


def test_the_f1_threshold_is_the_best_of_all_cuts():
    rng = np.random.default_rng(0)
    scores, plausible = rng.normal(size=(30, 4)), rng.random((30, 4))
    weight = rng.random(30)

    def f1(cut, row):
        predicted = scores > cut
        hits = (row[:, None] * plausible * predicted).sum()
        return 2 * hits / ((row[:, None] * predicted).sum() + (row[:, None] * plausible).sum())

    for given in (None, weight):
        row = np.ones(30) if given is None else given
        best = max(f1(cut, row) for cut in np.r_[scores.ravel() - 1e-9])
        assert f1(f1_threshold(scores, plausible, given), row) == pytest.approx(best)


def test_equal_scores_fall_on_one_side_of_the_f1_threshold():
    scores = np.array([[1.0, 1.0, 0.0]])
    assert f1_threshold(scores, np.array([[1.0, 0.0, 0.0]])) == pytest.approx(0.5)


def test_the_default_threshold_follows_the_number_of_labels():
    """With as many labels a row as ``HALF_WAY`` it lies half-way; rows count by their weight."""
    scores = np.zeros((2, 24))
    scores[0, :3], scores[1, :9] = 1.0, 1.0
    few, many = (balanced_threshold(scores[[row]], f1=0.5, middle=2.5) for row in (0, 1))
    assert (few, many) == (1.5, 1.0)  # shares of 3/6 and 9/12
    assert balanced_threshold(scores, 0.5, 2.5) == pytest.approx(2.5 - 2 * 6 / 9)
    assert balanced_threshold(scores, 0.5, 2.5, weight=np.array([2.0, 0.0])) == few
    assert balanced_threshold(-scores - 1, 0.5, 2.5) == 2.5  # no label is predicted


def test_the_threshold_lies_between_best_candidates_and_best_excluded_labels():
    scores = np.array([[3.0, 1.0, -1.0], [5.0, 0.0, 1.0]])
    assert middle_threshold(scores, np.array([[1, 1, 0], [1, 0, 0]])) == pytest.approx((4.0 + 0.0) / 2)
    assert middle_threshold(scores, np.array([[1, -1, 0], [-1, 0, 1]])) == pytest.approx((2.0 - 0.5) / 2)
    assert (scores > middle_threshold(scores, np.ones((2, 3)))).all()
    assert (scores < middle_threshold(scores, np.zeros((2, 3)))).all()


def test_the_slope_is_that_of_a_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 3))
    states = (rng.random((400, 3)) < 1 / (1 + np.exp(-2 * scores + 1))).astype(np.int8)
    expected = LogisticRegression(C=1e9).fit(scores.reshape(-1, 1), states.ravel())
    slope, offset = candidate_sigmoid(scores, states)
    assert slope == pytest.approx(expected.coef_[0, 0], rel=1e-3)
    assert offset == pytest.approx(expected.intercept_[0], rel=1e-3)
    assert candidate_sigmoid(scores, np.ones((400, 3))) == (1.0, 0.0)


# --- the ensemble ----------------------------------------------------------------------------------------------------


def test_an_ensemble_survives_being_taken_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4))

    def layer(inputs, outputs):
        return rng.normal(size=(inputs, outputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32)

    scaler = FeatureScaler(4).fit(X)
    bins = QuantileBins.of(scaler.transform(X), 3)
    members = [[layer(4 + bins.n_added, 3), layer(3, 2)] for _ in range(2)]
    states = (rng.random((20, 2)) < 0.5).astype(np.int8)
    forest, _ = fit_forest(scaler.transform(X), states, None, trees=Trees(5), seed=0)
    rate = np.array([0.1, 0.0], dtype=np.float32)
    standards = [Standard(1.0, 3.0), Standard(0.1, 2.0)]
    ensemble = Ensemble(scaler, bins, [Networks(members), forest], standards, [0.3, 0.7], 2.0, 0.4, rate, 0.5)
    again = ensemble_from_state(ensemble_state(ensemble))
    features = torch.as_tensor(X, dtype=torch.float32)
    torch.testing.assert_close(again(features), ensemble(features))
    scaled = ensemble.scaler(features)
    encoded = bins(scaled)
    logits = [
        torch.relu(encoded @ torch.as_tensor(first[0]) + torch.as_tensor(first[1])) @ torch.as_tensor(last[0])
        + torch.as_tensor(last[1])
        for first, last in members
    ]
    opinion = 0.3 * (torch.stack(logits).mean(0) - 1.0) / 3.0 + 0.7 * (forest(scaled) - 0.1) / 2.0
    candidate = torch.sigmoid(2.0 * opinion + 0.4)
    true = torch.maximum((candidate - torch.as_tensor(rate)) / (1 - torch.as_tensor(rate)), 1e-3 * candidate)
    expected = torch.log(true) - torch.log((1 - candidate) / (1 - torch.as_tensor(rate))) - 0.5
    torch.testing.assert_close(ensemble(features), expected, rtol=1e-4, atol=1e-4)


# --- ensemble weights ---------------------------------------------------------------------------------------------


def members_with(*held):
    return [Member(str(number), torch.nn.Identity(), Standard(), opinion) for number, opinion in enumerate(held)]


def test_the_member_that_ranks_held_out_candidates_best_gets_all_the_weight():
    rng = np.random.default_rng(0)
    states = (rng.random((300, 6)) < 0.4).astype(np.int8)
    right, random = states + 0.1 * rng.normal(size=(300, 6)), rng.normal(size=(300, 6))
    members = members_with(random.astype(np.float32), right.astype(np.float32))
    assert chosen_weights(members, states, average_precision_loss) == [0, 1]


def test_two_members_that_know_half_each_share_the_weight():
    rng = np.random.default_rng(0)
    states = (rng.random((2000, 6)) < 0.4).astype(np.int8)
    noise = rng.normal(size=(2, 2000, 6))
    members = members_with(*(states + noise).astype(np.float32))
    weights = chosen_weights(members, states, average_precision_loss)
    assert sum(weights) == pytest.approx(1)
    assert min(weights) > 0.3


def test_candidates_may_count_differently():
    loss = average_precision_loss(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 1]]), torch.tensor([1.0, 1, 3]))
    assert loss.item() == pytest.approx(1 - (1 + 3 * 2 / 3) / 4)
    scores, marks = torch.tensor([[3.0, 2.0, 1.0], [1.0, 2.0, 3.0]]), torch.tensor([[1, 0, 1], [1, 0, 1]])
    loss = average_precision_loss(
        scores.expand(2, -1, -1), marks.expand(2, -1, -1), torch.tensor([[1.0, 1, 3], [1, 1, 0]])
    )
    torch.testing.assert_close(loss, torch.tensor([[1 - (1 + 3 * 2 / 3) / 4, 1 - 2 / 3]]).expand(2, -1))


def test_of_two_members_the_one_that_finds_the_rare_label_is_heard():
    states = np.zeros((30, 3), dtype=np.int8)
    states[:, 0] = states[:10, 1] = 1
    common, rare = (np.tile(np.float32([3, 1, 2.4]), (30, 1)) for _ in range(2))
    rare[:10] = [1, 3.1, 2.4]
    assert chosen_weights(members_with(common, rare), states, average_precision_loss, rarity=0) == [1, 0]
    assert chosen_weights(members_with(common, rare), states, average_precision_loss) == [0, 1]


def test_every_label_counts_alike_where_plausibilities_are_known():
    states = np.zeros((40, 4), dtype=np.int8)
    states[:, 0] = states[:20, 1] = 1
    common, rare = (np.tile(np.float32([3, 0, 2, 1]), (40, 1)) for _ in range(2))
    # In rows of both labels one has them first and third, (1 + 2/3 c) / (1 + c), the other fourth and first,
    # (1/2 + c) / (1 + c), which is better from c = 3/2 on. Label 1 is in half of the rows: c is 2, or its root.
    common[:20], rare[:20] = [3, 1, 2, 0], [0, 90, 60, 30]
    members = members_with(common, rare)
    assert chosen_weights(members, states, average_precision_loss)[0] > 0.9
    assert chosen_weights(members, states, average_precision_loss, None, np.ones(states.shape)) == [0, 1]


def noisy_label():
    """Label 0 is proposed in half of the rows, whatever they are; each of the others is true in a tenth of them.

    One member finds the rows that propose label 0 and misses what is true, the other knows what is true and no more.
    """
    rows = np.arange(400)
    states = np.zeros((400, 11), dtype=np.int8)
    states[:, 0] = rows // 10 % 2
    states[rows, 1 + rows % 10] = 1
    noise, honest = np.zeros((400, 11), np.float32), np.full((400, 11), -3.0, np.float32)
    noise[:, 0], honest[:, 0] = 6 * states[:, 0] - 3, -4.0
    noise[rows, 1 + rows % 10], honest[rows, 1 + rows % 10] = -0.1, 3.0
    return states, noise, honest


def test_a_label_that_is_proposed_everywhere_is_less_plausible():
    states, _, honest = noisy_label()
    honest[:, 0] = 0.0
    honest[0] = np.nan
    plausible = plausibility_of(members_with(honest), states, None)
    assert np.isnan(plausible[0]).all()
    # The floor of label 0 is its P(candidate) c, and half of it goes: (c - c/2) / (1 - c/2) / c = 1 / (2 - c).
    slope, offset = candidate_sigmoid(honest[1:], states[1:])
    assert plausible[1:, 0] == pytest.approx(1 / (2 - 1 / (1 + np.exp(-offset))))
    assert slope > 0
    assert plausible[1:, 0].max() < 0.8
    assert (plausible[1:, 1:][states[1:, 1:] > 0] > 0.95).all()
    assert plausibility_of(members_with(np.full_like(honest, np.nan)), states, None) is None


def test_who_predicts_noise_is_heard_where_nobody_says_that_it_is_noise():
    states, noise, honest = noisy_label()
    plausible = np.broadcast_to(np.where(np.arange(11) == 0, 0.0, 1.0), states.shape)
    members = members_with(noise, honest)
    assert chosen_weights(members, states, average_precision_loss)[0] > 0
    assert chosen_weights(members, states, average_precision_loss, None, plausible) == [0, 1]


def test_rows_of_weight_0_and_rows_nobody_held_out_choose_nothing():
    rng = np.random.default_rng(0)
    states = (rng.random((300, 6)) < 0.4).astype(np.int8)
    misled = np.where(np.arange(300)[:, None] < 200, 1 - states, states).astype(np.float32)
    modest = (states + rng.normal(size=(300, 6))).astype(np.float32)
    counted = (np.arange(300) >= 200).astype(float)
    members = members_with(misled, modest)
    assert chosen_weights(members, states, average_precision_loss)[0] < 0.5
    assert chosen_weights(members, states, average_precision_loss, counted) == [1, 0]
    misled[:200] = np.nan
    assert chosen_weights(members, states, average_precision_loss) == [1, 0]
    members = members_with(np.full((300, 6), np.nan, np.float32), modest)
    assert chosen_weights(members, states, average_precision_loss) == [0.5, 0.5]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_large_sparse_system_is_solved_step_by_step(monkeypatch, weighted):
    rng = np.random.default_rng(0)
    X = sp.random_array((120, 90), density=0.1, rng=rng, format="csr")
    states = (rng.random((120, 5)) < 0.3).astype(np.int8)
    states[0, 0] = -1
    weight = rng.random(120) if weighted else None
    exact = fit_linear(X, states, weight)
    monkeypatch.setattr("propml.neural.linear.LARGEST_SYSTEM", 10)
    assert is_solvable(X, 5, 5)
    assert not is_solvable(X.toarray(), 5, 5)
    for part, other in zip(fit_linear(X, states, weight), exact, strict=True):
        np.testing.assert_allclose(part, other, atol=1e-3 * abs(other).max())
    monkeypatch.setattr("propml.neural.linear.MOST_PRODUCTS", 1)
    assert not is_solvable(X, 5, 5)
