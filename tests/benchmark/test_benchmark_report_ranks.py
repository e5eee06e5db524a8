"""Facts about the comparisons of ranks: the paper's own, ours, and where there is too little to compare."""

import pytest
from noisy_published import fold_results, noisy_published

from propml.benchmark.published import load_published
from propml.benchmark.report.ranks import comparable_methods, rank_comparisons
from propml.benchmark.results import Result


def as_results(rows, experiment="mine"):
    return [Result(experiment, p.dataset, p.noise, p.method, 0, 0, p.metric, p.mean / 100) for p in rows]


def test_the_papers_real_world_diagram():
    published = load_published("real-world")
    paper, ours, *single = rank_comparisons(as_results(published), published)
    found = paper.parts[""]
    ranks = dict(zip(found.names, found.mean_ranks, strict=True))
    assert ranks == pytest.approx(
        {"ProPML": 1.64, "PML-NI": 2.44, "CPLST": 3.52, "PAR-MAP": 3.80, "PAR-VLS": 4.24, "ML-kNN": 5.36}
    )
    assert paper.sentences == (
        "ProPML has the best mean rank, 1.64 over 25 blocks; it is significantly better than CPLST, PAR-MAP, PAR-VLS "
        "and ML-kNN; not than PML-NI (Nemenyi test, α = 0.05, critical difference 1.508).",
    )
    assert any("not independent" in sentence for sentence in paper.warnings)
    assert ours.parts[""].mean_ranks == pytest.approx(found.mean_ranks)
    titles = ["Average precision", "Coverage", "Hamming loss", "Ranking loss", "One-error"]
    assert [made.title for made in single] == titles


def test_noise_levels_are_stacked_and_a_common_warning_is_said_once():
    published = load_published("artificial")
    paper, *_ = rank_comparisons(as_results(published), published)
    assert list(paper.parts) == [50, 100, 150]
    assert paper.parts[100].mean_ranks[list(paper.parts[100].names).index("ProPML")] == pytest.approx(2.10)
    assert sum("not independent" in sentence for sentence in paper.warnings) == 1
    assert any(sentence.startswith("50 %, 100 % and 150 %: ") for sentence in paper.warnings)


def test_methods_that_saw_test_labels_take_no_part():
    results = noisy_published().results
    made = rank_comparisons(results, [], {"ProPML (oracle)"})
    assert all("ProPML (oracle)" not in part.names for one in made for part in one.parts.values())
    assert all("ProPML" in part.names for one in made for part in one.parts.values())


def test_ours_by_our_own_conventions():
    rows = [
        row
        for dataset in ("birds", "scene", "enron")
        for method, own, paper in (("A", 10.0, 30.0), ("B", 20.0, 20.0))
        for row in (
            *fold_results("x", dataset, 50, method, "one_error", [own]),
            *fold_results("x", dataset, 50, method, "one_error:paper", [paper]),
        )
    ]
    (made,) = rank_comparisons(rows, [])
    assert dict(zip(made.parts[""].names, made.parts[""].mean_ranks, strict=True)) == {"A": 1.0, "B": 2.0}
    assert "no difference between it and another method is significant" in made.sentences[0]


def test_a_method_with_few_results_does_not_cost_the_others_theirs():
    rows = [
        row
        for dataset in ("birds", "scene", "enron", "medical")
        for method in ("A", "B", "C")
        if method != "C" or dataset == "birds"
        for row in fold_results("x", dataset, 50, method, "one_error", [ord(method)])
    ]
    methods, sentences = comparable_methods(rows, ["one_error"])
    assert methods == ["A", "B"]
    assert sentences == ["C takes no part: it has results in 1 of 4 places."]
    (made,) = rank_comparisons(rows, [])
    assert made.parts[""].friedman.n_blocks == 4
    assert sentences[0] in made.warnings


def test_too_little_to_compare_is_a_sentence():
    one = fold_results("x", "birds", 50, "A", "one_error", [1.0])
    (made,) = rank_comparisons(one, [])
    assert not made.parts
    assert made.sentences == ("No diagram: it takes two methods to compare.",)
    assert rank_comparisons([], []) == []
    apart = [*one, *fold_results("x", "scene", 50, "B", "one_error", [2.0])]
    (made,) = rank_comparisons(apart, [])
    assert not made.parts
    assert made.sentences[0].startswith("No diagram: ")
