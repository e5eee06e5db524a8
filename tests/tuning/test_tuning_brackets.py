"""Hyperband's arithmetic against its paper."""

from propml.tuning.rungs import best_places, bracket_at, brackets_of, levels


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
