"""The ranking metrics against hand-worked examples, plain loops and scikit-learn."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from metrics_by_loops import ROW_METRICS, by_loops, matlab_one_error, matlab_ranking_loss
from sklearn.metrics import coverage_error, label_ranking_average_precision_score, label_ranking_loss

from propml.metrics import average_precision, coverage, evaluate, n_tied_rows, one_error, ranking_loss
from propml.metrics.ranking import tie_orders
from propml.targets import Candidates

FUNCTIONS = {
    "average_precision": average_precision,
    "coverage": coverage,
    "ranking_loss": ranking_loss,
    "one_error": one_error,
}
TIES = ("mean", "first", "last", "best", "worst")

# One row, four labels: labels 1 and 3 are true; labels 0 and 1 tie at the top, labels 2 and 3 at the bottom.
TIED_TRUTH = [[0, 1, 0, 1]]
TIED_SCORES = [[0.8, 0.8, 0.3, 0.3]]
BY_HAND = {
    # rank order, truth in it: first 0 1 0 1; last (1, 0, 3, 2) 1 0 1 0; best 1 0 1 0; worst 0 1 0 1
    "average_precision": {"first": (1 / 2 + 2 / 4) / 2, "last": (1 + 2 / 3) / 2, "mean": (1 / 2 + 5 / 6) / 2},
    "coverage": {"first": 3 / 4, "last": 2 / 4, "mean": 5 / 8},
    "ranking_loss": {"first": 3 / 4, "last": 1 / 4, "mean": 1 / 2},
    "one_error": {"first": 1.0, "last": 0.0, "mean": 0.5},
}


def random_case(seed, n=60, n_labels=7, *, levels=None):
    """Truth with rows of every size from empty to full, and scores, with ties when ``levels`` is given."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((n, n_labels)) < rng.random((n, 1))).astype(int)
    truth[0], truth[1] = 0, 1
    scores = rng.random((n, n_labels)) if levels is None else rng.integers(0, levels, (n, n_labels)).astype(float)
    return truth, scores


@pytest.mark.parametrize("metric", FUNCTIONS)
def test_ties_by_hand(metric):
    by_rule = BY_HAND[metric] | {"best": BY_HAND[metric]["last"], "worst": BY_HAND[metric]["first"]}
    for ties, expected in by_rule.items():
        assert FUNCTIONS[metric](TIED_TRUTH, TIED_SCORES, ties=ties) == pytest.approx(expected), ties


def test_paper_ties_by_hand():
    # a true label 0 ties with the false label 1 at the top: MATLAB puts label 1 first in the sort, calls the pair
    # wrong, and yet calls the top label right
    truth, scores = [[1, 0, 0]], [[5.0, 5.0, 1.0]]
    assert average_precision(truth, scores, ties="paper") == 1 / 2
    assert coverage(truth, scores, ties="paper") == pytest.approx(1 / 3)
    assert ranking_loss(truth, scores, ties="paper") == 1 / 2
    assert one_error(truth, scores, ties="paper") == 0


def test_a_true_label_tied_in_the_middle_of_a_run_by_hand():
    # five equal scores, label 1 true: rank 2 from the front, rank 4 from the back, 1 at best, 5 at worst
    truth, scores = [[0, 1, 0, 0, 0]], np.full((1, 5), 0.5)
    for ties, rank in {"first": 2, "last": 4, "best": 1, "worst": 5, "mean": 3}.items():
        assert coverage(truth, scores, ties=ties, normalize=False) == pytest.approx(rank - 1)
    assert ranking_loss(truth, scores) == pytest.approx((1 / 4 + 3 / 4) / 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64])
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("metric", FUNCTIONS)
def test_equals_plain_loops(metric, ties, dtype):
    for seed, levels in enumerate((2, 4, 50)):
        truth, scores = random_case(seed, levels=levels)
        expected = by_loops(metric, truth.tolist(), scores.tolist(), ties)
        assert FUNCTIONS[metric](truth, scores.astype(dtype), rows="valid", ties=ties) == pytest.approx(expected)


@pytest.mark.parametrize("metric", FUNCTIONS)
def test_blocks_do_not_change_the_value(metric, monkeypatch):
    truth, scores = random_case(3, n=200, levels=5)
    whole = FUNCTIONS[metric](truth, scores)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 20)  # two rows at a time
    assert FUNCTIONS[metric](truth, scores) == pytest.approx(whole, abs=1e-15)


def test_memory_is_bounded_by_the_block(monkeypatch):
    truth, scores = random_case(4, n=20_000, n_labels=100, levels=50)
    truth, scores = truth.astype(bool), scores.astype(np.float32)
    monkeypatch.setattr("propml.folds.BLOCK_ENTRIES", 2**15)
    tracemalloc.start()
    average_precision(truth, scores)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # the sort keys of all rows at once would be 16 MB; what stays is a few numbers per row
    assert peak < 6e6


@given(data=st.data(), shape=st.tuples(st.integers(1, 6), st.integers(2, 6)))
def test_any_floats_in_any_type_rank_as_python_sorts_them(data, shape):
    width = data.draw(st.sampled_from([16, 32, 64]))
    few = st.sampled_from([0.0, -0.0, 1.0, float("inf"), -float("inf")])
    scores = data.draw(hnp.arrays(f"f{width // 8}", shape, elements=few | st.floats(allow_nan=False, width=width)))
    truth = data.draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
    truth[0, :2] = [0, 1]
    with np.errstate(over="ignore"):
        rounded = scores.astype(np.float32)
    for metric, function in FUNCTIONS.items():
        for ties in TIES:
            expected = by_loops(metric, truth.tolist(), rounded.tolist(), ties)
            assert function(truth, scores, rows="valid", ties=ties) == pytest.approx(expected), (metric, ties)


def test_scores_that_only_float64_can_tell_apart_tie():
    truth, scores = [[0, 1, 0]], [[1.0, 1.0 + 2**-40, 1.0 - 2**-40]]
    assert n_tied_rows(truth, scores) == 1
    assert average_precision(truth, scores) == pytest.approx(1 / 2)  # in the middle, from either end
    assert average_precision([[1, 0]], [[1e300, 1e200]]) == pytest.approx(3 / 4)  # both are infinite in float32


def test_differences_of_rounding_errors_change_no_metric():
    """Two labels with the same score and 1e-15 of noise: what another order of summation does to equal columns."""
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 12)).round(2) + 0.003
    scores[:, 7] = scores[:, 3]
    truth = (rng.random(scores.shape) < 0.3).astype(int)
    noisy = scores + rng.choice([-1e-15, 0.0, 1e-15], scores.shape)
    assert (noisy[:, 7] != noisy[:, 3]).mean() > 0.2
    before, after = evaluate(truth, scores), evaluate(truth, noisy)
    assert dict(before) == dict(after)
    assert before.n_tied_rows == after.n_tied_rows > 100


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_signed_zeros_tie_and_infinities_rank(dtype):
    assert n_tied_rows([[1, 0]], np.array([[-0.0, 0.0]], dtype=dtype)) == 1
    extreme = np.array([[np.inf, 3, 0, -3, -np.inf]], dtype=dtype)
    assert coverage([[0, 0, 0, 0, 1]], extreme, normalize=False, ties="best") == 4
    assert one_error([[1, 0, 0, 0, 0]], extreme, ties="worst") == 0


def test_only_ties_between_true_and_false_labels_count():
    truth = [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    scores = [[2.0, 2.0, 1.0, 1.0], [2.0, 1.0, 1.0, 0.0], [3.0, 2.0, 1.0, 3.0], [1.0, 1.0, 1.0, 1.0]]
    assert n_tied_rows(truth, scores) == 2


@given(
    scores=hnp.arrays(np.float64, (4, 5), elements=st.integers(-3, 3)),
    truth=hnp.arrays(np.int8, (4, 5), elements=st.integers(0, 1)),
)
def test_best_and_worst_enclose_every_order(scores, truth):
    truth[0, :2] = [0, 1]
    for metric, function in FUNCTIONS.items():
        value = {ties: function(truth, scores, rows="valid", ties=ties) for ties in TIES}
        low, high = sorted([value["best"], value["worst"]])
        assert (value["best"] >= value["worst"] - 1e-12) == (metric == "average_precision") or low == high
        for ties in TIES:
            assert low - 1e-12 <= value[ties] <= high + 1e-12
        assert value["mean"] == pytest.approx((value["first"] + value["last"]) / 2)


@given(
    scores=hnp.arrays(np.float32, (5, 4), elements=st.floats(-5, 5, width=16)),
    truth=hnp.arrays(np.int8, (5, 4), elements=st.integers(0, 1)),
)
def test_a_rising_function_and_reversed_labels_change_nothing(scores, truth):
    truth[0, :2] = [0, 1]
    for function in FUNCTIONS.values():
        value = function(truth, scores, rows="valid")
        assert function(truth, 8 * scores, rows="valid") == value
        assert function(truth[:, ::-1], scores[:, ::-1], rows="valid") == pytest.approx(value)
        assert function(truth, scores, rows="valid", ties="first") == pytest.approx(
            function(truth[:, ::-1], scores[:, ::-1], rows="valid", ties="last")
        )


# -- scikit-learn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_relations_to_scikit_learn_without_ties(seed):
    truth, scores = random_case(seed, n=80, n_labels=9)
    n, n_labels = truth.shape
    empty, full = (truth.sum(axis=1) == 0).sum(), (truth.sum(axis=1) == n_labels).sum()
    valid = n - empty - full
    assert coverage(truth, scores, rows="all") == pytest.approx((coverage_error(truth, scores) - 1) / n_labels)
    assert label_ranking_loss(truth, scores) == pytest.approx(valid / n * ranking_loss(truth, scores))
    lrap = label_ranking_average_precision_score(truth, scores)
    assert lrap == pytest.approx((valid * average_precision(truth, scores) + empty + full) / n)
    assert lrap == pytest.approx(average_precision(truth, scores, rows="all"))


@pytest.mark.parametrize("seed", range(5))
def test_relations_to_scikit_learn_with_ties(seed):
    truth, scores = random_case(seed, n=80, n_labels=9, levels=3)
    assert coverage(truth, scores, rows="all", ties="worst", normalize=False) + 1 == pytest.approx(
        coverage_error(truth, scores)
    )
    assert coverage_error(truth, scores) >= 1 + 9 * coverage(truth, scores, rows="all", ties="paper")
    assert ranking_loss(truth, scores, rows="all", ties="worst") == pytest.approx(label_ranking_loss(truth, scores))
    assert ranking_loss(truth, scores, rows="all", ties="paper") == pytest.approx(label_ranking_loss(truth, scores))


def test_scikit_learn_gives_more_for_tied_true_labels_and_less_for_a_true_one_tied_with_a_false_one():
    scores = [[2.0, 1.0, 1.0]]
    assert label_ranking_average_precision_score([[0, 1, 1]], scores) == 2 / 3  # both at rank 3 of 3: 2/3 each
    assert average_precision([[0, 1, 1]], scores) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert label_ranking_average_precision_score([[0, 1, 0]], scores) == 1 / 3
    assert average_precision([[0, 1, 0]], scores) == pytest.approx((1 / 2 + 1 / 3) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_paper_rules_are_the_matlab_definitions(seed):
    truth, scores = random_case(seed, levels=4)
    assert ranking_loss(truth, scores, ties="paper") == pytest.approx(matlab_ranking_loss(truth, scores))
    assert one_error(truth, scores, ties="paper") == pytest.approx(matlab_one_error(truth, scores))
    # MATLAB: ascending stable sort, position counted from the end
    place = np.argsort(np.argsort(scores, axis=1, kind="stable"), axis=1)
    last = np.where(truth == 1, scores.shape[1] - place, 0).max(axis=1)
    assert coverage(truth, scores, rows="all", ties="paper") == pytest.approx((last.mean() - 1) / scores.shape[1])


# -- rows --------------------------------------------------------------------------------------------------------------

THREE_ROWS = [[1, 0], [0, 0], [1, 1]]  # valid, empty, full
THREE_SCORES = [[0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]


@pytest.mark.parametrize(
    ("metric", "valid", "empty", "full"),
    [
        ("average_precision", 1 / 2, 1.0, 1.0),
        ("coverage", 1 / 2, -1 / 2, 1 / 2),
        ("ranking_loss", 1.0, 0.0, 0.0),
        ("one_error", 1.0, 1.0, 0.0),
    ],
)
def test_which_rows_count(metric, valid, empty, full):
    function = FUNCTIONS[metric]
    assert function(THREE_ROWS, THREE_SCORES, rows="valid") == pytest.approx(valid)
    assert function(THREE_ROWS, THREE_SCORES, rows="labelled") == pytest.approx((valid + full) / 2)
    assert function(THREE_ROWS, THREE_SCORES, rows="all") == pytest.approx((valid + empty + full) / 3)
    default = "labelled" if metric == "coverage" else "valid"
    assert function(THREE_ROWS, THREE_SCORES) == function(THREE_ROWS, THREE_SCORES, rows=default)


@pytest.mark.parametrize("metric", FUNCTIONS)
def test_rows_that_cannot_be_measured_are_a_clear_error(metric):
    with pytest.raises(ValueError, match='rows="labelled" is undefined: none of the 2 rows has a true label'):
        FUNCTIONS[metric](np.zeros((2, 3)), np.ones((2, 3)), rows="labelled")
    with pytest.raises(ValueError, match="none of the 1 rows has both a true and a false label"):
        FUNCTIONS[metric]([[1]], [[0.5]], rows="valid")
    with pytest.raises(ValueError, match="rows is 'some'"):
        FUNCTIONS[metric]([[1, 0]], [[0.5, 0.1]], rows="some")
    with pytest.raises(ValueError, match='ties is \'random\'; choose "mean", "paper", "first"'):
        FUNCTIONS[metric]([[1, 0]], [[0.5, 0.1]], ties="random")


def test_one_label():
    assert average_precision([[1], [0]], [[0.1], [0.2]], rows="labelled") == 1
    assert coverage([[1], [0]], [[0.1], [0.2]]) == 0


def test_empty_rows_only_have_documented_values_under_all():
    nothing, scores = np.zeros((2, 4)), np.ones((2, 4))
    assert [function(nothing, scores, rows="all") for function in FUNCTIONS.values()] == [1, -1 / 4, 0, 1]


def test_tie_rules_exist_for_every_metric():
    for metric in ROW_METRICS:
        assert tie_orders(metric, "mean") == ("first", "last")
        assert tie_orders(metric, "paper")[0] in ("last", "worst", "best")


# -- forms of input ----------------------------------------------------------------------------------------------------


def test_every_form_of_truth_and_scores_gives_the_same_value():
    truth, scores = random_case(8)
    expected = average_precision(truth, scores)
    forms = [truth.astype(bool), truth.astype(float), truth.tolist(), torch.tensor(truth), sp.csr_matrix(truth)]
    forms += [sp.coo_array(truth), sp.csc_array(truth), Candidates.from_matrix(truth, empty="ignore")]
    for form in forms:
        assert average_precision(form, scores) == expected, type(form)
    for form in (scores.tolist(), torch.tensor(scores, requires_grad=True), np.asfortranarray(scores)):
        assert average_precision(truth, form) == expected, type(form)
    halves = torch.tensor(scores).bfloat16()
    assert average_precision(truth, halves) == average_precision(truth, halves.float().numpy())
    assert average_precision(truth, scores.astype(">f8")) == expected
