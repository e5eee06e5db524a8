"""Facts about the second stage: who judges whom, what becomes a soft target, and that nothing leaks."""

import numpy as np
import pytest
import torch

from propml import ProPMLClassifier
from propml.corruption import svm_confusions
from propml.datasets import digits_mosaic
from propml.losses import bce_loss, refined_loss
from propml.metrics import average_precision
from propml.neural.fitting import make_folds
from propml.neural.fleet import train_fleet
from propml.neural.recipe import Recipe
from propml.neural.refinement import fold_targets, pair_folds, plausibility
from propml.neural.rows import make_rows


def test_pairs_leave_out_the_rows_of_both_folds():
    folds = make_folds(30, 5, 0)
    pairs = pair_folds(folds)
    assert len(pairs) == 10
    for (f, g), pair in pairs.items():
        assert set(pair.held) == set(folds[f].held) | set(folds[g].held)
        assert set(pair.train) == set(range(30)) - set(pair.held)


def test_a_fold_learns_from_judges_that_saw_neither_its_held_out_rows_nor_the_judged_row():
    folds = make_folds(12, 3, 0)
    states = np.ones((12, 2), np.int8)
    # Each pair's opinion carries its own mark: the second candidate is the less plausible the larger the mark.
    opinions = {
        pair: np.column_stack([np.zeros(len(fold.held)), np.full(len(fold.held), -1.0 - pair[0] - 10 * pair[1])])
        for pair, fold in pair_folds(folds).items()
    }
    targets = fold_targets(opinions, states, folds)
    assert targets.shape == (3, 12, 2)
    for f in range(3):
        for g in range(3):
            pair = (min(f, g), max(f, g))
            judged = targets[f, folds[g].held]
            if f == g:
                assert (judged == 1).all()  # never used: these rows are held out
            else:
                here = np.isin(pair_folds(folds)[pair].held, folds[g].held)
                expected = plausibility(opinions[pair][here], states[folds[g].held])
                np.testing.assert_allclose(judged, expected, atol=1e-3)


def test_plausibility_is_half_way_to_the_ratio_of_probabilities():
    rng = np.random.default_rng(0)
    opinion = rng.normal(size=(4000, 4))
    states = (rng.random(opinion.shape) < 1 / (1 + np.exp(-3 * opinion))).astype(np.int8)
    states[0] = [1, 1, 0, -1]
    opinion[0] = [1.0, -0.5, 2.0, 2.0]
    q = plausibility(opinion, states)
    r = 1 / (1 + np.exp(-3 * np.array([1.0, -0.5])))
    np.testing.assert_allclose(q[0], [1, (1 + r[1] / r[0]) / 2, 0, -1], atol=0.02)
    assert ((q > 0.5) == (states > 0)).all()
    assert (q.max(axis=1)[(states > 0).any(axis=1)] == 1).all()


def test_the_refined_loss_is_bce_where_all_candidates_are_plausible():
    z = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    states = torch.tensor(np.random.default_rng(0).integers(-1, 2, size=(6, 5)))
    torch.testing.assert_close(refined_loss(z, states.double(), lam=0.3), bce_loss(z, states, lam=0.3))


def test_the_refined_loss_is_least_at_the_weighted_target():
    q, lam = torch.tensor([[0.8, 0.5, 0.0]], dtype=torch.float64), 0.2
    best = (q / (q + lam * (1 - q))).clamp(1e-9, 1 - 1e-9)
    z = torch.logit(best).requires_grad_()
    (gradient,) = torch.autograd.grad(refined_loss(z, q, lam=lam).sum(), z)
    torch.testing.assert_close(gradient, torch.zeros_like(q), atol=1e-8, rtol=0)


def test_folds_may_have_targets_of_their_own():
    rng = np.random.default_rng(0)
    X, folds = rng.normal(size=(40, 3)), make_folds(40, 2, 0)
    states = torch.as_tensor((rng.random((40, 2)) < 0.5).astype(np.int8))
    other = states.clone()
    other[:, 0] = 1 - other[:, 0]
    recipe = Recipe((4,), epochs=3, dropout=0.0)

    def weights(targets, candidates=states):
        fleet = train_fleet(
            make_rows(X, torch.device("cpu")), candidates, folds, recipe, [{"lam": 1.0}], loss=bce_loss, targets=targets
        )
        return [fleet.layers(f, 0, 0)[0][0] for f in range(2)]

    mixed = weights(torch.stack([states, other]))
    np.testing.assert_allclose(mixed[0], weights(None)[0], rtol=1e-5)
    assert not np.allclose(mixed[1], weights(None)[1])


@pytest.fixture(scope="module")
def mosaic():
    train, test = digits_mosaic(600, split="train"), digits_mosaic(300, 1, split="test")
    return train.X, svm_confusions(train.X, train.truth, 1.5), test.X, test.truth


def test_refinement_is_on_by_default_where_rows_are_many_for_each_feature(mosaic):
    X, candidates, X_test, truth = mosaic
    X, X_test = X[:, ::6], X_test[:, ::6]  # 43 features, 600 rows
    quick = {"hidden": (64,), "epochs": 25, "cv": 3, "random_state": 0}
    plain = {"network", "network, rank"}
    refined = ProPMLClassifier(**quick).fit(X, candidates)
    assert set(refined.lam_) == {"network, refined"}
    assert average_precision(truth, refined.decision_function(X_test)) > 0.55  # random scores: 0.45
    few = ProPMLClassifier(**quick).fit(X[:300], candidates[:300])
    assert set(few.lam_) == plain
    two = ProPMLClassifier(**{**quick, "cv": 2, "epochs": 2}).fit(X, candidates)
    assert set(two.lam_) == plain  # two folds make no pair that leaves rows to learn from
    with pytest.raises(ValueError, match="refine=True needs three folds, and ten rows, at least; cv is 2"):
        ProPMLClassifier(**{**quick, "cv": 2}, refine=True).fit(X, candidates)


def test_held_out_logits_do_not_know_their_own_candidates(mosaic):
    # Change the candidates of the rows that fold 0 holds out: its networks must say the same of them as before.
    X, candidates, _, _ = mosaic
    X, states = X[:90], candidates[:90].to_matrix()
    folds = [(np.setdiff1d(np.arange(90), np.arange(f, 90, 3)), np.arange(f, 90, 3)) for f in range(3)]
    held = folds[0][1]
    changed = states.copy()
    changed[held] = 1 - changed[held]
    settings = {"hidden": (8,), "epochs": 3, "lam": 0.1, "linear": False, "refine": True, "early_stopping": False,
                "criterion": lambda z, c: torch.zeros(z.shape[:-1])}  # fmt: skip
    model = ProPMLClassifier("power", order=0.5, random_state=0, cv=folds, **settings)
    before, after = (model.fit_held(X, each) for each in (states, changed))
    # Slope and threshold of the whole are fitted to all candidates: they move and stretch everything alike.
    np.testing.assert_allclose(standardised(before[held]), standardised(after[held]), atol=1e-4)
    others = np.setdiff1d(np.arange(90), held)
    assert np.abs(standardised(before[others]) - standardised(after[others])).max() > 0.01


def standardised(values):
    return (values - values.mean()) / values.std()
