"""Rungs: Hyperband, and trials that learn the same alone and among others; one that fails does so by itself."""

import weakref

import numpy as np
import pytest
import torch

from propml.datasets import digits_mosaic
from propml.losses import power_loss
from propml.neural.network import Recipe
from propml.neural.training import StackTrainer
from propml.tuning import rungs
from propml.tuning.rungs import (
    DeviceTable,
    MemberRatesTrainer,
    Rung,
    Stack,
    best_places,
    bracket_at,
    brackets_of,
    levels,
    structure,
)
from propml.tuning.tasks import TableData

EPOCHS = 9


@pytest.fixture(scope="module")
def networks():
    made = digits_mosaic(120)
    return DeviceTable(TableData(made.X, made.candidates), "cpu")


def trials(n, seed=0, **fixed):
    rng = np.random.default_rng(seed)
    return [
        {
            "loss": "power",
            "hidden": (16,),
            "dropout": 0.5,
            "lam": float(10 ** rng.uniform(-2, 0)),
            "order": float(rng.random()),
            "learning_rate": float(10 ** rng.uniform(-3, -2)),
            "weight_decay": float(10 ** rng.uniform(-4, 0)),
            **fixed,
        }
        for _ in range(n)
    ]


@pytest.mark.parametrize("hidden", [(16,), (12, 8), ()])
def test_a_trial_learns_the_same_alone_and_among_others_who_leave(networks, hidden):
    some = trials(6, hidden=hidden)
    rung = Rung(networks, some, EPOCHS)
    first = rung.train_to(2)
    rung.keep([1, 4])
    then = rung.train_to(6)
    rung.keep([4])
    last = rung.train_to(EPOCHS)
    assert len(rung.stacks) == 1
    for place, expected in ((1, [first[1], then[1]]), (4, [first[4], then[4], last[4]])):
        alone = Rung(networks, [some[place]], EPOCHS)
        told = [float(alone.train_to(epoch)[0]) for epoch in (2, 6, EPOCHS)]
        assert told[: len(expected)] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(last[[0, 1, 2, 3, 5]]).all()


def test_rates_and_decays_of_their_own_are_those_of_separate_optimisers(networks):
    """Against the fleet's own trainer, which has one learning rate and one decay for all: one training for each."""
    rates, decays = [1e-3, 1e-2, 3e-3], [0.0, 0.5, 0.1]
    settings = [{"lam": 0.1, "order": 1.0}] * 3
    common = (networks.rows, networks.candidates, networks.data.folds)
    recipe = Recipe((16,), dropout=0.3)
    together = MemberRatesTrainer(rates, decays, *common, recipe, settings, (1,), power_loss)
    for _ in range(3):
        together.epoch()
    for place, (rate, decay) in enumerate(zip(rates, decays, strict=True)):
        own = Recipe((16,), dropout=0.3, learning_rate=rate, weight_decay=decay)
        alone = StackTrainer(*common, own, settings[:1], (1,), power_loss)
        for _ in range(3):
            alone.epoch()
        for fold in range(3):
            pairs = zip(together.stack.member(3 * fold + place), alone.stack.member(fold), strict=True)
            for (weight, bias), (expected, expected_bias) in pairs:
                torch.testing.assert_close(weight, expected, atol=2e-5, rtol=1e-4)
                torch.testing.assert_close(bias, expected_bias, atol=2e-5, rtol=1e-4)


def test_the_value_is_the_best_mean_over_folds_so_far(networks):
    stack = Stack(networks, trials(2), EPOCHS)
    curve = []
    for epoch in range(1, EPOCHS + 1):
        stack.train_to(epoch)
        averaged = stack.trainer.refresh_averaged()
        per_fold = []
        for f, fold in enumerate(networks.data.folds):
            every = torch.as_tensor(fold.held).expand(3, -1)
            logits = averaged(networks.rows.product(every, averaged.first)).detach().numpy()
            answers = networks.data.answers[fold.held]
            per_fold.append([mean_precision(answers, logits[2 * f + k]) for k in range(2)])
        curve.append(np.mean(per_fold, axis=0))
    np.testing.assert_allclose(stack.best, np.max(curve, axis=0), atol=1e-5)


def mean_precision(answers, scores):
    """Average precision row by row, by its definition; rows without an excluded label count as 1."""
    values = []
    for y, s in zip(answers, scores, strict=True):
        order = np.argsort(-s, kind="stable")
        hits = y[order] > 0
        precision = np.cumsum(hits) / np.arange(1, len(y) + 1)
        values.append(1.0 if hits.all() or not hits.any() else precision[hits].mean())
    return np.mean(values)


def test_trials_that_cannot_share_a_stack_have_their_own(networks):
    mixed = [*trials(2), *trials(2, hidden=(8,)), *trials(1, dropout=0.1)]
    assert len({structure(each) for each in mixed}) == 3
    rung = Rung(networks, mixed, 3)
    values = rung.train_to(3)
    assert np.isfinite(values).all()
    assert sorted(len(stack) for stack in rung.stacks.values()) == [1, 2, 2]


def test_a_loss_that_is_no_number_fails_its_own_trial_only(networks):
    some = trials(4)
    some[2]["learning_rate"] = 1e30
    rung = Rung(networks, some, 5)
    values = rung.train_to(5)
    assert np.isnan(values[2])
    assert rung.why == {2: "its training loss is no number by epoch 5"}
    sound = Rung(networks, [*some[:2], some[3]], 5).train_to(5)
    assert values[[0, 1, 3]] == pytest.approx(sound, abs=1e-12)


def test_a_setting_that_makes_no_sense_fails_with_its_sentence(networks):
    rung = Rung(networks, [*trials(2), *trials(1, dropout=1.5)], 2)
    values = rung.train_to(2)
    assert np.isnan(values).tolist() == [False, False, True]
    assert rung.why == {2: "dropout is 1.5; it lies in [0, 1)"}


def test_out_of_memory_halves_the_stack_until_it_fits(networks, monkeypatch):
    some, sizes = trials(5), []
    expected = Rung(networks, some, 2).train_to(2)
    failed = weakref.WeakSet()

    class Small(Stack):
        def __init__(self, *arguments):
            assert not failed, "the stack that did not fit still takes its memory"
            super().__init__(*arguments)

        def train_to(self, epoch, stop=lambda: False):
            sizes.append(len(self))
            if len(self) > 2:
                failed.add(self)
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
            super().train_to(epoch, stop)

    monkeypatch.setattr(rungs, "Stack", Small)
    rung = Rung(networks, some, 2)
    assert rung.train_to(2) == pytest.approx(expected, abs=1e-12)
    assert sizes == [5, 2, 3, 1, 2]
    assert rung.why == {}


def test_a_trial_for_which_there_is_no_memory_at_all_fails(networks, monkeypatch):
    class Large(Stack):
        def train_to(self, epoch, stop=lambda: False):
            if any(each["hidden"] == (99,) for each in self.configurations):
                raise MemoryError
            super().train_to(epoch, stop)

    monkeypatch.setattr(rungs, "Stack", Large)
    rung = Rung(networks, [*trials(1), *trials(1, hidden=(99,))], 2)
    assert np.isfinite(rung.train_to(2)).tolist() == [True, False]
    assert rung.why[1].startswith("out of memory: leave out the largest networks")


def test_stacks_are_parted_by_the_memory_there_is(networks, monkeypatch):
    some = trials(5)
    expected = Rung(networks, some, 3).train_to(3)
    monkeypatch.setattr(DeviceTable, "fitting", lambda self, recipe: 2)
    rung = Rung(networks, some, 3)
    rung.train_to(1)
    assert rung.train_to(3) == pytest.approx(expected, abs=1e-12)
    assert [len(stack) for stack in rung.stacks.values()] == [2, 2, 1]


def test_it_stops_between_two_epochs(networks):
    rung = Rung(networks, trials(3), EPOCHS)
    rung.train_to(EPOCHS, stop=iter([False, False, True]).__next__)
    assert rung.epoch == 2


def test_who_stops_before_anybody_looked_has_not_failed(networks, monkeypatch):
    monkeypatch.setattr(rungs, "LOOKS", 1)
    rung = Rung(networks, trials(3), EPOCHS)
    values = rung.train_to(EPOCHS, stop=iter([False, False, True]).__next__)
    assert np.isnan(values).all()
    assert rung.why == {}


# -- Hyperband's arithmetic, against its paper ----------------------------------------------------------------------


def test_sizes_are_those_of_the_hyperband_paper():
    """JMLR 18(185), algorithm 1 with R = 27, η = 3: n = ⌈(s_max + 1) / (s + 1) · η^s⌉ trials of R · η^−s epochs."""
    assert [(size, rungs[0]) for size, rungs in brackets_of(27)] == [(27, 1), (12, 3), (6, 9), (4, 27)]


def test_all_brackets_end_with_the_whole_budget():
    for epochs in range(1, 300):
        assert levels(epochs)[-1] == epochs
        assert list(levels(epochs)) == sorted(set(levels(epochs)))
        assert levels(epochs)[0] >= 1
        assert all(rungs[-1] == epochs for _, rungs in brackets_of(epochs))


def test_positions_walk_through_the_brackets_and_begin_again():
    sizes = [size for size, _ in brackets_of(27)]
    position, seen = 0, []
    for _ in range(2 * len(sizes)):
        size, _ = bracket_at(27, position)
        seen.append(size)
        position += size
    assert seen == 2 * sizes
    assert bracket_at(27, 5) == (22, (1, 3, 9, 27))  # a search that was stopped finishes the bracket


def test_the_best_third_goes_on():
    assert best_places([5, 1, 9, 4, 8, 7, 2, 3, 6]) == [2, 4, 5]
    assert len(best_places(list(range(10)))) == 4
    assert best_places([float("nan")] * 4) == []


def test_few_trials_are_compared_with_those_before_them():
    assert best_places([0.9], [0.1, 0.2, 0.3]) == [0]
    assert best_places([0.2], [0.9, 0.8, 0.7]) == []
    assert best_places([0.2]) == [0]  # nobody was there before
    assert best_places([0.2, 0.95], [0.9, 0.8, 0.7]) == [1]
