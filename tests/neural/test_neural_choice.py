"""Facts about what is chosen on candidates: scaling, λ, the linear partner, shares, threshold."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Ridge

from propml.losses.named import get_loss
from propml.metrics import average_precision
from propml.neural.balance import balanced_lam, lam_grid
from propml.neural.criteria import average_precision_loss, get_criterion, one_error_loss
from propml.neural.ensemble import Ensemble, Linear, Networks, Standard
from propml.neural.experts import Expert, choose_shares
from propml.neural.features import FeatureScaler
from propml.neural.fitting import fit_scaler, make_folds
from propml.neural.linear import PENALTY, fit_linear
from propml.neural.path import lambda_path
from propml.neural.saving import ensemble_from_state, ensemble_state
from propml.neural.thresholds import candidate_sigmoid, middle_threshold
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


# --- the linear partner ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(60, 8), (20, 40)])
@pytest.mark.parametrize("weighted", [False, True])
def test_linear_partner_is_ridge_regression(shape, weighted):
    rng = np.random.default_rng(0)
    n, _ = shape
    X, states = rng.normal(1, 2, size=shape), (rng.random((n, 3)) < 0.4).astype(np.int8)
    weight = rng.random(n) + 0.1 if weighted else None
    w = np.ones(n) if weight is None else weight * n / weight.sum()
    centre = w @ X / n
    penalty = PENALTY * (w @ ((X - centre) ** 2).sum(axis=1) / n)
    expected = Ridge(alpha=penalty).fit(X, states, sample_weight=w)
    for features in (X, sp.csr_array(X)):
        coefficients, bias = fit_linear(features, states, weight, refine=False)
        np.testing.assert_allclose(coefficients, expected.coef_.T, atol=1e-8)
        np.testing.assert_allclose(bias, expected.intercept_, atol=1e-8)


@pytest.mark.parametrize("shape", [(40, 6), (15, 30)])
def test_refinement_uses_predictions_of_models_that_left_the_row_out(shape):
    rng = np.random.default_rng(1)
    n, _ = shape
    X, states = rng.normal(size=shape), (rng.random((n, 4)) < 0.5).astype(np.int8)
    states[:, 0] = 1
    X = X - X.mean(axis=0)
    # Leave one out by hand, with centre, mean and penalty of all rows, as the closed form has them.
    penalty = PENALTY * (X**2).sum(axis=1).mean()
    mean = states.mean(axis=0)
    left_out = np.empty(states.shape)
    for i in range(n):
        keep = np.arange(n) != i
        gram = X[keep].T @ X[keep] + penalty * np.eye(X.shape[1])
        left_out[i] = X[i] @ np.linalg.solve(gram, X[keep].T @ (states[keep] - mean)) + mean
    plausible = np.where(states > 0, np.maximum(left_out, 1e-3), 0)
    soft = plausible / plausible.max(axis=1, keepdims=True)
    expected = Ridge(alpha=penalty).fit(X, soft)
    coefficients, _ = fit_linear(X, states)
    np.testing.assert_allclose(coefficients, expected.coef_.T, atol=1e-6)


def test_unknown_entries_pull_neither_way():
    X = np.vstack([np.eye(3)] * 5)
    states = np.ones((15, 1), np.int8)
    states[::3] = 0
    states[1::3] = -1
    coefficients, bias = fit_linear(X, states, refine=False)
    assert coefficients[0, 0] + bias[0] < coefficients[1, 0] + bias[0] < coefficients[2, 0] + bias[0]


# --- shares and threshold --------------------------------------------------------------------------------------------


def expert(held):
    return Expert("x", torch.nn.Identity(), held.astype(np.float32))


def test_an_expert_that_knows_is_heard_more_than_one_that_guesses():
    rng = np.random.default_rng(0)
    states = (rng.random((200, 5)) < 0.4).astype(np.int8)
    knows, guesses = states + 0.3 * rng.normal(size=states.shape), rng.normal(size=states.shape)
    shares = choose_shares([expert(guesses), expert(knows)], None, states, average_precision_loss)
    assert shares[1] > 0.8
    assert sum(shares) == pytest.approx(1)


def opinions(*errors, n=400):
    """Opinions with so much noise each, all of it their own, and the candidates that they are about."""
    rng = np.random.default_rng(1)
    states = (rng.random((n, 6)) < 0.4).astype(np.int8)
    return states, [expert(states + error * rng.normal(size=states.shape)) for error in errors]


def test_networks_that_are_no_better_than_the_linear_model_are_not_heard():
    states, (network, other, linear) = opinions(0.5, 0.6, 0.5)
    assert choose_shares([network, other], linear, states, average_precision_loss) == [0.0, 0.0, 1.0]
    together = choose_shares([network, other], linear, states, average_precision_loss, may_stay_linear=False)
    assert min(together) > 0  # though an average would predict candidates better: their errors differ


def test_one_network_that_wins_alone_brings_the_others_in():
    states, (network, other, linear) = opinions(0.3, 0.5, 0.5)
    shares = choose_shares([network, other], linear, states, average_precision_loss)
    assert shares[0] > 0.4
    assert sum(shares) == pytest.approx(1)


def test_rows_that_do_not_count_do_not_speak_for_networks():
    states, (network, linear) = opinions(0.3, 0.5)
    network.held[:200] = opinions(2.0)[1][0].held[:200]  # good on the second half only
    first, second = np.repeat([1.0, 0.0], 200), np.repeat([0.0, 1.0], 200)
    assert choose_shares([network], linear, states, average_precision_loss, first) == [0.0, 1.0]
    assert choose_shares([network], linear, states, average_precision_loss, second)[0] > 0.5


def test_without_held_out_rows_everyone_is_heard_alike():
    nothing = np.full((4, 2), np.nan)
    shares = choose_shares([expert(nothing), expert(nothing)], None, np.ones((4, 2), np.int8), average_precision_loss)
    assert shares == [0.5, 0.5]


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

    members = [[layer(4, 3), layer(3, 2)] for _ in range(2)]
    linear = Linear(rng.normal(size=(4, 2)), np.zeros(2), Standard(0.1, 2.0))
    networks = Networks(members, Standard(1.0, 3.0))
    ensemble = Ensemble(FeatureScaler(4).fit(X), [networks, linear], [0.3, 0.7], 2.0, 0.5)
    again = ensemble_from_state(ensemble_state(ensemble))
    features = torch.as_tensor(X, dtype=torch.float32)
    torch.testing.assert_close(again(features), ensemble(features))
    scaled = ensemble.scaler(features)
    logits = [
        torch.relu(scaled @ torch.as_tensor(first[0]) + torch.as_tensor(first[1])) @ torch.as_tensor(last[0])
        + torch.as_tensor(last[1])
        for first, last in members
    ]
    opinion = (torch.stack(logits).mean(0) - 1.0) / 3.0
    expected = 2.0 * (0.3 * opinion + 0.7 * linear(scaled) - 0.5)
    torch.testing.assert_close(ensemble(features), expected)


def test_folds_cover_every_row_once():
    folds = make_folds(11, 4, 0)
    assert sorted(np.concatenate([fold.held for fold in folds])) == list(range(11))
    assert all(len(np.intersect1d(fold.train, fold.held)) == 0 for fold in folds)
    assert len(make_folds(3, 5, 0)) == 3
    given = make_folds(4, [(np.array([0, 1]), np.array([2, 3]))], 0)
    assert given[0].held.tolist() == [2, 3]
