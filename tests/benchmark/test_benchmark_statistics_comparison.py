"""Comparisons of whole tables: what counts as different, in which groups, and with which warnings."""

import numpy as np
import pytest

from propml.benchmark.statistics import compare


def table(n: int, *levels: float) -> np.ndarray:
    """Methods at fixed distances in blocks of different height, with a little noise."""
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 1)) * 5 + np.array(levels) + rng.normal(scale=0.3, size=(n, len(levels)))


def test_a_clear_winner():
    found = compare(table(30, 0, 5, 0.01), ["low", "high", "low too"], higher_is_better=True)
    assert set(found.better_than("high")) == {"low", "low too"}
    assert found.better_than("low") == ()
    assert {frozenset(group) for group in found.cliques} == {frozenset({0, 2})}
    assert found.order()[0] == 1
    assert found.warnings == ()
    assert (found.test, found.alpha, found.control) == ("nemenyi", 0.05, None)


def test_lower_is_better():
    found = compare(table(30, 0, 5, 9), ["a", "b", "c"], higher_is_better=False)
    assert found.mean_ranks.tolist() == [1, 2, 3]
    assert found.better_than("a") == ("b", "c")
    assert found.cliques == ()


def test_without_a_difference_overall_no_pair_counts():
    values = np.array([[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 4, dtype=float)
    for test in ("nemenyi", "wilcoxon-holm"):
        found = compare(values, ["a", "b", "c"], higher_is_better=True, test=test, alpha=0.999)
        assert found.friedman.p_value == 1
        assert not found.different.any()
        assert found.cliques == ((0, 1, 2),)
        assert "Friedman's test finds no difference between the 3 methods (p = 1)" in found.warnings[-1]


def test_a_significant_pair_needs_a_significant_omnibus_test():
    # five clear wins and two narrow losses: Wilcoxon's test sees how narrow, Friedman's only counts
    values = np.column_stack([[5.0, 4, 6, 7, 8, -0.1, -0.2], np.zeros(7)])
    found = compare(values, ["a", "b"], higher_is_better=True, test="wilcoxon-holm", alpha=0.1)
    assert found.p_values[0, 1] == pytest.approx(2 * 5 / 2**7)  # the losses' ranks are 1 and 2: {}, 1, 2, 3, 1 + 2
    assert found.friedman.p_value > 0.1
    assert not found.different.any()
    assert found.cliques == ((0, 1),)


def test_wilcoxon_has_no_critical_difference_and_may_leave_out_the_middle():
    # "steady" beats "b" by a little nearly always; "wild" beats and loses by much, so nothing is known of it
    n = 16
    wild = np.tile([5.0, -5.1], n // 2) + np.arange(n) / 100
    values = np.column_stack([np.ones(n), np.zeros(n), wild])
    found = compare(values, ["steady", "b", "wild"], higher_is_better=True, test="wilcoxon-holm", alpha=0.05)
    assert found.critical_difference is None
    assert found.different[0, 1]
    assert not found.different[2].any()
    assert {frozenset(group) for group in found.cliques} == {frozenset({0, 2}), frozenset({1, 2})}


def test_bonferroni_dunn_tests_the_control_only():
    found = compare(
        table(25, 0, 1, 2, 2.05, 1.95, 4), list("abcdef"), higher_is_better=True, test="bonferroni-dunn", control="c"
    )
    tested = ~np.isnan(found.p_values)
    expected = np.eye(6, dtype=bool)
    expected[2] = expected[:, 2] = True
    np.testing.assert_array_equal(tested, expected)
    assert found.control == "c"
    assert found.better_than("c") == ("b", "a")
    assert found.better_than("a") == ()  # never tested against the others
    # every group holds the control at one end, and reaches no further than the critical difference
    assert found.cliques
    for group in found.cliques:
        assert 2 in (group[0], group[-1])
        assert np.ptp(found.mean_ranks[list(group)]) < found.critical_difference


def test_bonferroni_dunn_without_any_difference():
    values = np.array([[1, 2, 3], [2, 3, 1], [3, 1, 2]] * 4, dtype=float)
    found = compare(values, ["a", "b", "c"], higher_is_better=True, test="bonferroni-dunn", control="b")
    assert found.cliques == ((0, 1, 2),)


def test_warnings_of_the_caller_come_first():
    found = compare(table(2, 0, 1, 2), ["a", "b", "c"], higher_is_better=True, warnings=["Blocks are correlated."])
    assert found.warnings[0] == "Blocks are correlated."
    assert len(found.warnings) > 1


def test_in_words():
    text = str(compare(table(30, 0, 5, 5.01), ["low", "high", "high too"], higher_is_better=True, warnings=["Small."]))
    lines = text.splitlines()
    assert lines[0].split()[-3:-1] == ["mean", "rank"]
    assert lines[2].startswith("low ")
    assert "30 blocks; nemenyi at 0.05, critical difference 0.605" in lines[3]
    assert lines[4] in ("not significantly different: high, high too", "not significantly different: high too, high")
    assert lines[5] == "Careful: Small."
    wilcoxon = compare(table(30, 0, 5), ["low", "high"], higher_is_better=True, test="wilcoxon-holm")
    assert "critical difference" not in str(wilcoxon)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"test": "tukey"}, "test is 'tukey'; choose from nemenyi, wilcoxon-holm, bonferroni-dunn"),
        ({"test": "bonferroni-dunn"}, "control is None for bonferroni-dunn; only bonferroni-dunn needs one"),
        ({"control": "a"}, "control is 'a' for nemenyi"),
        ({"test": "bonferroni-dunn", "control": "z"}, "control 'z' is not among the methods compared: a, b, c"),
        ({"alpha": 1.5}, "alpha is 1.5"),
        ({"names": ["a", "b"]}, "2 names for 3 methods; give one name per column"),
        ({"names": ["a", "b", "a"]}, "the name 'a' stands for more than one method"),
    ],
)
def test_clear_errors(arguments, message):
    names = arguments.pop("names", ["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        compare(table(9, 0, 1, 2), names, higher_is_better=True, **arguments)


def test_better_than_an_unknown_method():
    with pytest.raises(ValueError, match="method 'x' is not among the methods compared: a, b"):
        compare(table(9, 0, 1), ["a", "b"], higher_is_better=True).better_than("x")
