"""Facts about the fleet: a network learns the same alone and among many, whole and in parts, sparse and dense."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from propml.folds import Fold
from propml.losses import power_loss, propml_loss, rank_loss
from propml.methods.propml import ProPMLClassifier
from propml.neural.criteria import average_precision_loss
from propml.neural.encoding import QuantileBins
from propml.neural.fleet import _split, available_bytes, bytes_of_member, train_fleet
from propml.neural.network import Recipe, StackedMLP, StackShape
from propml.neural.rows import MASK_ROWS, DenseRows, PaddedRows, SparseRows, keep_mask, make_rows
from propml.neural.training import StackTrainer

CPU = torch.device("cpu")
RECIPE = Recipe((16, 12), epochs=4, batch_size=16, input_dropout=0.2, ema=0.9)
SETTINGS = [{"lam": 0.05, "order": 1.0}, {"lam": 0.3, "order": 0.5}, {"lam": 1.0, "order": 0.0}]


def problem(n=60, d=7, c=5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(np.float32)
    S = (X @ rng.normal(size=(d, c)) + rng.normal(size=(n, c)) > 0.5).astype(np.int8)
    S[np.arange(n), rng.integers(c, size=n)] = 1
    parts = np.array_split(rng.permutation(n), 3)
    folds = [Fold(np.concatenate([p for g, p in enumerate(parts) if g != f]), parts[f], 10 + f) for f in range(3)]
    return X, torch.as_tensor(S), folds


def same(a, b):
    for (w, b1), (v, b2) in zip(a, b, strict=True):
        np.testing.assert_allclose(w, v, atol=2e-5)
        np.testing.assert_allclose(b1, b2, atol=2e-5)


def test_a_network_learns_the_same_alone_and_in_a_fleet():
    X, candidates, folds = problem()
    fleet = train_fleet(make_rows(X, CPU), candidates, folds, RECIPE, SETTINGS, seeds=(3, 4))
    assert fleet.best.shape == (3, 2, 3)
    for fold, seed, setting in [(0, 0, 0), (2, 1, 1), (1, 0, 2)]:
        alone = train_fleet(
            make_rows(X, CPU), candidates, [folds[fold]], RECIPE, [SETTINGS[setting]], seeds=((3, 4)[seed],)
        )
        same(fleet.layers(fold, seed, setting), alone.layers(0, 0, 0))
        assert alone.best[0, 0, 0] == pytest.approx(fleet.best[fold, seed, setting], abs=1e-5)
        np.testing.assert_allclose(alone.loss[:, 0, 0, 0], fleet.loss[:, fold, seed, setting], atol=1e-4)


def test_parts_that_fit_into_memory_give_the_same_fleet():
    X, candidates, folds = problem()
    rows = make_rows(X, CPU)
    whole = train_fleet(rows, candidates, folds, RECIPE, SETTINGS)
    each = bytes_of_member(RECIPE, 7, 5, 60)
    for memory in (each, 2 * each, 3 * each, 7 * each):
        parts = train_fleet(rows, candidates, folds, RECIPE, SETTINGS, memory=memory)
        np.testing.assert_allclose(parts.best, whole.best, atol=1e-5)
        same(parts.layers(2, 0, 1), whole.layers(2, 0, 1))
        for a, b in zip(parts.held_logits(rows, folds, [0, 2]), whole.held_logits(rows, folds, [0, 2]), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("patience", [None, 1])
def test_every_fold_may_learn_from_targets_of_its_own(patience):
    X, candidates, folds = problem()
    targets = torch.where(candidates > 0, torch.rand(3, *candidates.shape).clamp(min=0.01), candidates.float()).half()
    arguments = {"loss": rank_loss, "patience": patience}
    rows, settings, recipe = make_rows(X, CPU), [{"lam": 1.0}], replace(RECIPE, epochs=8)
    each = bytes_of_member(recipe, 7, 5, 60)
    for memory in (None, each, 2 * each):
        fleet = train_fleet(rows, candidates, folds, recipe, settings, targets=targets, memory=memory, **arguments)
        for number, fold in enumerate(folds):
            alone = train_fleet(rows, candidates, [fold], recipe, settings, targets=targets[number], **arguments)
            same(fleet.layers(number, 0, 0), alone.layers(0, 0, 0))


def test_rows_are_encoded_once_or_batch_by_batch(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    bins, index, weight = QuantileBins.of(X, 4), torch.arange(10).view(1, 10), torch.randn(1, 15, 2)
    once = DenseRows(torch.from_numpy(X), bins)
    monkeypatch.setattr("propml.neural.rows.ENCODED_ONCE", 10)
    batch = DenseRows(torch.from_numpy(X), bins)
    assert (once.X.shape, batch.X.shape) == ((40, 15), (40, 3))
    torch.testing.assert_close(once.product(index, weight), batch.product(index, weight), rtol=0, atol=0)


def test_parts_cover_everything_once():
    for folds, settings, fits in [(5, 4, 1), (5, 4, 3), (5, 4, 4), (5, 4, 9), (5, 4, 100), (1, 7, 2)]:
        pairs = [(f, s) for fs, ss in _split(folds, settings, fits) for f in fs for s in ss]
        assert sorted(pairs) == [(f, s) for f in range(folds) for s in range(settings)]
        assert all(len(fs) * len(ss) <= fits for fs, ss in _split(folds, settings, fits))


def test_available_memory_is_positive():
    assert available_bytes(CPU) > 2**20


@pytest.mark.parametrize("hidden", [(), (6,), (6, 4)])
def test_the_stack_computes_what_each_network_would(hidden):
    shape = StackShape(folds=2, seeds=2, settings=3, features=5, labels=3, columns=8)
    generators = [torch.Generator().manual_seed(i) for i in range(4)]
    stack = StackedMLP(shape, Recipe(hidden), generators)
    assert not stack.first[:, 5:].any()
    with torch.no_grad():
        for parameter in stack.parameters():
            parameter.normal_()
    X = torch.randn(2, 9, 5)
    logits = stack(torch.bmm(torch.nn.functional.pad(X, (0, 3)), stack.first))
    for k in range(shape.members):
        hidden_state, layers = X[k // shape.per_fold], stack.member(k)
        for i, (weight, bias) in enumerate(layers):
            hidden_state = hidden_state @ weight + bias
            if i < len(layers) - 1:
                hidden_state = torch.relu(hidden_state)
        torch.testing.assert_close(logits[k], hidden_state)


@pytest.mark.parametrize("dropout", [0.3, 0.5])
def test_dropout_in_place_is_dropout_with_its_gradient(dropout):
    shape = StackShape(folds=2, seeds=2, settings=3, features=5, labels=3, columns=5)
    generators = [torch.Generator().manual_seed(i) for i in range(4)]
    stack = StackedMLP(shape, Recipe((6, 4), dropout=dropout), generators)
    X = torch.randn(2, 9, 5)
    masks = [keep_mask((4, 9, width), dropout, torch.Generator().manual_seed(width)) for width in (6, 4)]
    assert {0.0} < set(masks[0].unique().tolist())
    stack(torch.bmm(X, stack.first), masks).square().sum().backward()
    found = [parameter.grad.clone() for parameter in stack.parameters()]
    stack.zero_grad()
    total = torch.zeros(())
    for k in range(shape.members):
        state = X[k // shape.per_fold]
        layers = stack.member(k)
        for i, (weight, bias) in enumerate(layers):
            state = state @ weight + bias
            if i < len(layers) - 1:
                state = torch.relu(state) * masks[i][k // shape.settings]
        total = total + state.square().sum()
    total.backward()
    for parameter, gradient in zip(stack.parameters(), found, strict=True):
        torch.testing.assert_close(gradient, parameter.grad, rtol=1e-4, atol=1e-5)


def test_settings_of_one_seed_start_alike_and_seeds_differ():
    X, candidates, folds = problem()
    trainer = StackTrainer(make_rows(X, CPU), candidates, folds, RECIPE, SETTINGS, (0, 1), power_loss)
    first = [trainer.stack.member(k)[0][0] for k in range(6)]
    torch.testing.assert_close(first[0], first[2])
    assert not torch.allclose(first[0], first[3])


def test_one_step_is_adam_on_the_batch_mean_of_the_loss():
    X, candidates, _ = problem(n=24)
    everything = [Fold(np.arange(24), np.arange(0))]
    recipe = Recipe((8,), dropout=0.0, ema=0.0, batch_size=24, epochs=1, learning_rate=0.01)
    trainer = StackTrainer(make_rows(X, CPU), candidates, everything, recipe, [{"lam": 0.3}], (0,), propml_loss)
    layers = [(w.detach().clone(), b.detach().clone()) for w, b in trainer.stack.member(0)]
    network = torch.nn.Sequential(torch.nn.Linear(7, 8), torch.nn.ReLU(), torch.nn.Linear(8, 5))
    with torch.no_grad():
        for module, (weight, bias) in zip((network[0], network[2]), layers, strict=True):
            module.weight.copy_(weight.T)
            module.bias.copy_(bias)
    optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
    loss = propml_loss(network(torch.as_tensor(X)), candidates, lam=0.3).mean()
    loss.backward()
    optimiser.step()
    assert trainer.epoch().item() == pytest.approx(loss.item(), rel=1e-5)
    for module, (weight, bias) in zip((network[0], network[2]), trainer.stack.member(0), strict=True):
        torch.testing.assert_close(module.weight.T, weight)
        torch.testing.assert_close(module.bias, bias)


def test_the_running_mean_of_weights():
    X, candidates, _ = problem(n=24)
    everything = [Fold(np.arange(24), np.arange(0))]
    recipe = Recipe((), ema=0.5, dropout=0.0, batch_size=2, epochs=1)  # 12 steps: the mean moves after 8 and 12
    trainer = StackTrainer(make_rows(X, CPU), candidates, everything, recipe, [{"lam": 1.0}], (0,), propml_loss)
    seen = []
    step = trainer._step
    trainer._step = lambda: (step(), seen.append(trainer.stack.first.detach().clone()))
    trainer.epoch()
    early, late = 1 - 0.5**8, 1 - 0.5**4
    expected = ((1 - late) * early * seen[7] + late * seen[11]) / (1 - 0.5**12)
    torch.testing.assert_close(trainer.refresh_averaged().first.detach(), expected)


def test_the_best_epoch_is_kept_and_waiting_ends():
    X, candidates, folds = problem(n=120)
    recipe = Recipe((64,), epochs=60, batch_size=16, learning_rate=0.05, dropout=0.0)
    rows = make_rows(X, CPU)
    fleet = train_fleet(rows, candidates, folds, recipe, SETTINGS, patience=5)
    assert len(fleet.criterion) < 60
    assert (np.nanmin(fleet.criterion, axis=0) == fleet.best).all()
    held = fleet.held_logits(rows, folds, [0, 1, 2])
    for f, fold in enumerate(folds):
        values = average_precision_loss(torch.as_tensor(held[f][0]), candidates[fold.held].expand(3, -1, -1)).mean(
            dim=1
        )
        np.testing.assert_allclose(values, fleet.best[f, 0], atol=1e-5)


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_folds_that_have_stopped_leave_the_stack_and_the_others_learn_on_unchanged(ema, monkeypatch):
    X, candidates, folds = problem()
    rows = make_rows(X, CPU)
    recipe = Recipe((16, 12), epochs=60, batch_size=16, input_dropout=0.2, ema=ema, learning_rate=5e-3)
    left = []
    go_on_with = StackTrainer.go_on_with
    monkeypatch.setattr(
        StackTrainer, "go_on_with", lambda self, folds: (left.append(list(folds)), go_on_with(self, folds))
    )
    fleet = train_fleet(rows, candidates, folds, recipe, SETTINGS[:2], seeds=(3, 4), patience=6)
    assert left  # at least one fold stopped before the last one
    for fold, seed, setting in [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0), (2, 0, 0), (2, 1, 1)]:
        alone = train_fleet(
            rows, candidates, [folds[fold]], recipe, [SETTINGS[setting]], seeds=((3, 4)[seed],), patience=6
        )
        same(fleet.layers(fold, seed, setting), alone.layers(0, 0, 0))
        assert alone.best_epoch[0, 0, 0] == fleet.best_epoch[fold, seed, setting]
    assert len(fleet.held_logits(rows, folds, [0])[0][0, 0]) == len(folds[0].held)


def test_looking_less_often_at_held_out_rows():
    X, candidates, folds = problem()
    fleet = train_fleet(make_rows(X, CPU), candidates, folds, RECIPE, SETTINGS, judge_every=3)
    assert np.isfinite(fleet.criterion[:, 0, 0, 0]).tolist() == [False, False, True, True]


def test_rows_of_weight_zero_teach_nothing():
    X, candidates, _ = problem()
    weight = torch.ones(60)
    weight[40:] = 0
    everything = [Fold(np.arange(60), np.arange(0))]
    other = X.copy()
    other[40:] = 99.0
    recipe = Recipe((8,), epochs=3, batch_size=10, dropout=0.0)
    a, b = (
        train_fleet(make_rows(x, CPU), candidates, everything, recipe, SETTINGS, example_weight=weight)
        for x in (X, other)
    )
    same(a.layers(0, 0, 0), b.layers(0, 0, 0))


def test_going_on_from_given_layers():
    X, candidates, folds = problem()
    rows = make_rows(X, CPU)
    first = train_fleet(rows, candidates, folds, RECIPE, SETTINGS)
    still = Recipe((16, 12), epochs=1, batch_size=16, learning_rate=1e-12, ema=0.0)
    again = train_fleet(rows, candidates, folds, still, SETTINGS, start=first.layers)
    same(again.layers(1, 0, 2), first.layers(1, 0, 2))


# --- the first layer's product -------------------------------------------------------------------------------------


@pytest.fixture
def sparse():
    matrix = sp.random_array((30, 11), density=0.3, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    matrix[[3]] *= 0  # an empty row
    matrix.eliminate_zeros()
    return matrix


def filled_up(weight, rows):
    """With as many rows as batches have columns."""
    return torch.nn.functional.pad(weight, (0, 0, 0, rows.n_columns - rows.n_features))


@pytest.mark.parametrize("kind", [SparseRows, lambda X: PaddedRows(X, CPU)])
def test_sparse_rows_multiply_like_dense_ones(kind, sparse):
    rows, dense = kind(sparse), DenseRows(torch.as_tensor(sparse.toarray()))
    index = torch.tensor([[0, 3, 7], [29, 7, 7]])
    products = []
    for each in (rows, dense):
        weight = torch.linspace(-1, 1, 2 * 11 * 4).view(2, 11, 4).requires_grad_()
        value = each.product(index, filled_up(weight, each))
        value.square().sum().backward()
        products.append((value.detach(), weight.grad))
    torch.testing.assert_close(products[0], products[1])


@pytest.mark.parametrize("kind", [SparseRows, lambda X: PaddedRows(X, CPU)])
def test_no_rows_are_multiplied_to_no_rows(kind, sparse):
    weight = torch.ones(2, 11, 4, requires_grad=True)
    rows = kind(sparse)
    value = rows.product(torch.empty((2, 0), dtype=torch.int64), filled_up(weight, rows))
    assert value.shape == (2, 0, 4)
    value.sum().backward()
    assert not weight.grad.any()


def test_columns_that_fill_a_batch_up_are_nobodys():
    """Networks on the rows that a GPU is given, here on the CPU: 7 features in 8 columns."""
    X, candidates, folds = problem()
    X = X * (X > 0)
    recipe = replace(RECIPE, weight_decay=0.1, input_dropout=0.0)
    kinds = PaddedRows(sp.csr_array(X.astype(np.float32)), CPU), DenseRows(torch.as_tensor(X, dtype=torch.float32))
    padded, dense = (train_fleet(rows, candidates, folds, recipe, SETTINGS) for rows in kinds)
    for own, other in zip(padded.layers(1, 0, 1), dense.layers(1, 0, 1), strict=True):
        np.testing.assert_allclose(own[0], other[0], atol=1e-4)
    held = [fleet.held_logits(rows, folds, [0])[0] for fleet, rows in zip((padded, dense), kinds, strict=True)]
    np.testing.assert_allclose(*held, atol=1e-3)


@pytest.mark.parametrize("n_rows", [2, 5, 9])
def test_a_few_sparse_rows_are_learned_like_dense_ones(n_rows, sparse):
    """Too few to hold any out."""
    X, candidates = sparse[:n_rows], np.eye(n_rows, 3, dtype=int) + np.eye(1, 3, 1, dtype=int) > 0
    model = ProPMLClassifier(hidden=(8,), epochs=3, random_state=0)
    scores = [model.fit(each, candidates.astype(int)).predict_proba(each) for each in (X, X.toarray())]
    assert scores[0].shape == (n_rows, 3)
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-4)


@pytest.mark.parametrize(
    "kind", [SparseRows, lambda X: PaddedRows(X, CPU), lambda X: DenseRows(torch.as_tensor(X.toarray()))]
)
def test_input_dropout_silences_and_scales(kind, sparse):
    rows = kind(sparse)
    kept = torch.stack([keep_mask(rows.mask_shape, 0.5, torch.Generator().manual_seed(i)) for i in range(2)])
    index = torch.arange(30).expand(2, -1)
    identity = filled_up(torch.eye(11).expand(2, -1, -1), rows)
    plain, dropped = rows.product(index, identity), rows.product(index, identity, kept)
    stays = dropped != 0
    torch.testing.assert_close(dropped[stays], 2 * plain[stays])
    share = stays.sum() / (plain != 0).sum()
    assert 0.35 < share < 0.65
    assert not torch.equal(stays[0], stays[1])


def test_masks_of_many_rows_need_little_memory():
    rows = DenseRows(torch.zeros(3 * MASK_ROWS, 2))
    assert rows.mask_shape == (MASK_ROWS, 2)


def test_keep_mask_has_the_asked_rate_and_mean_one():
    mask = keep_mask((200, 200), 0.3, torch.Generator().manual_seed(0))
    assert (mask == 0).float().mean().item() == pytest.approx(0.3, abs=0.01)
    assert mask.mean().item() == pytest.approx(1.0, abs=0.02)
    old = torch.full((200, 200), 7.0)
    keep_mask((200, 200), 0.3, torch.Generator().manual_seed(0), out=old)
    assert torch.equal(old, mask)


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"hidden": (0,)}, "hidden"), ({"dropout": 1.0}, "dropout"), ({"epochs": 0}, "epochs"), ({"ema": -0.1}, "ema")],
)
def test_impossible_recipes_are_told(settings, told):
    with pytest.raises(ValueError, match=told):
        Recipe(**settings)
