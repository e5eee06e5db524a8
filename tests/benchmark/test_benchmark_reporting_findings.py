"""Facts about the sentences: they say what the numbers say."""

import pytest
from noisy_published import at, fold_results, noisy_published, printed

from propml.benchmark.reporting import build_report
from propml.benchmark.reporting.findings import (
    cautions,
    comparable_methods,
    own_tables,
    rank_comparisons,
    recommendation,
    summary,
)
from propml.benchmark.reporting.tables import metric_tables
from propml.benchmark.results import Results, means
from propml.noise import Setting
from propml.paper import load_published


def made(values, published=(), metric="average_precision", experiment="x", tuned=()):
    """Tables from {(dataset, noise, method): percent}, one fold each."""
    results = [
        row
        for (dataset, noise, method), value in values.items()
        for row in fold_results(experiment, dataset, noise, method, metric, [value])
    ]
    paper = [printed(experiment, *key, metric, mean) for key, mean in dict(published).items()]
    return metric_tables(means(results), paper, {}, tuned)


def as_ours(published):
    """Published numbers as if they had been measured."""
    return [row._replace(n=1) for row in published]


def said(findings, topic):
    return " ".join(text for name, text in findings if name == topic)


GRID = {
    ("birds", 50, "A"): 70.0,
    ("birds", 50, "B"): 60.0,
    ("birds", 100, "A"): 65.0,
    ("birds", 100, "B"): 55.0,
    ("scene", 50, "A"): 80.0,
    ("scene", 50, "B"): 85.0,
}


def test_what_is_best_where():
    tables = made(GRID)
    findings = summary(tables)
    assert said(findings, "Average precision") == "A is best in 2 of 3 settings (Birds); B in 1."
    assert tables[0].best[Setting("scene", at(50))] == ("B",)


def test_one_winner_everywhere_and_one_setting_only():
    everywhere = made({key: value for key, value in GRID.items() if key[0] == "birds"})
    assert said(summary(everywhere), "Average precision") == "A is best in 2 of 2 settings (Birds)."
    one = made({key: value for key, value in GRID.items() if key[0] == "scene"})
    assert said(summary(one), "Average precision") == "B is best in 1 of 1 setting (Scene)."


def test_one_method_is_best_of_nothing():
    assert summary(made({("birds", 50, "A"): 1.0})) == []


def test_ties_count_for_both():
    tables = made({("birds", 50, "A"): 70.0, ("birds", 50, "B"): 70.004})
    assert tables[0].best[Setting("birds", at(50))] == ("A", "B")
    assert said(summary(tables), "Average precision") == "A is best in 1 of 1 setting (Birds); B in 1."
    tables = made({**GRID, ("scene", 50, "B"): 80.0})
    assert said(summary(tables), "Average precision") == "A is best in 3 of 3 settings (Birds and Scene); B in 1."


def test_a_loss_that_is_lower_than_the_papers_is_a_gain():
    (table,) = made({("birds", 50, "A"): 20.0}, {("birds", 50, "A"): 24.0}, metric="coverage")
    (cell,) = table.rows[0].cells
    assert (cell.difference, table.gain(cell)) == (-4.0, 4.0)


def test_failures_and_gaps_are_counted():
    findings = summary(
        made(GRID),
        n_failed=3,
        not_run=[(Setting("music-style", None), "CPLST"), (Setting("music-style", None), "PML-NI")],
    )
    assert said(findings, "Failed") == "3 cells failed; what they said stands below."
    assert said(findings, "Not run") == "2 published cells have no number of ours: Music-style."


def test_best_where_follows_our_own_conventions():
    results = [
        *fold_results("x", "birds", 50, "A", "one_error", [10.0]),
        *fold_results("x", "birds", 50, "B", "one_error", [20.0]),
        *fold_results("x", "birds", 50, "A", "one_error:paper", [30.0]),
        *fold_results("x", "birds", 50, "B", "one_error:paper", [20.0]),
    ]
    tables = metric_tables(means(results), [printed("x", "birds", 50, "A", "one_error", 30.0)], {})
    assert [table.metric for table in own_tables(tables)] == ["one_error"]
    assert said(summary(tables), "One-error") == "A is best in 1 of 1 setting (Birds)."


def test_the_notes_of_a_report_are_about_its_tables():
    (section,) = build_report(noisy_published()).sections
    text = " ".join(section.notes)
    assert "computed the same way" in text
    assert "ProPML (oracle) did the same and is the like-for-like comparison" in text
    assert "ProPML chose it on held-out candidate labels" in text
    (alone,) = build_report(Results(fold_results("x", "mirflickr", None, "ProPML", "one_error", [1.0]))).sections
    assert alone.notes == []


# -- the recommendation: no surer than the numbers --------------------------------------------------------------------


def recommended(values, metric="average_precision", tuned=()):
    """The recommendation by {(dataset, noise, method): percent}."""
    cells = [cell for key, value in values.items() for cell in fold_results("x", *key, metric, [value])]
    return recommendation(means(cells), tuned)


def test_the_best_mean_rank_is_recommended_without_a_test_that_cannot_succeed():
    assert recommended(GRID) == (
        "Use A or B: they share the best mean rank, 1.50 over 2 datasets; no difference between them and another "
        "method is significant: 2 datasets are too few to tell."
    )
    assert recommended({**GRID, ("scene", 50, "B"): 79.8}) == (
        "Use A: it has the best mean rank, 1.00 over 2 datasets; no difference between it and another method is "
        "significant: 2 datasets are too few to tell."
    )


def test_settings_of_one_dataset_count_once():
    # Three settings for A, one for B, and yet one dataset each.
    values = {("birds", noise, "A"): 70.0 for noise in (50, 100, 150)} | {("scene", 50, "A"): 60.0}
    values |= {(dataset, noise, "B"): 65.0 for dataset, noise, _ in values}
    assert recommended(values).startswith("Use A or B: they share the best mean rank")


def test_what_is_significant_over_datasets_is_said_and_what_is_not():
    said = recommendation(as_ours(load_published("real-world")))
    assert said.startswith("Use ProPML: it has the best mean rank, 1.60 over 5 datasets; ")
    assert "; significantly better than ML-kNN; not than PML-NI, CPLST, PAR-MAP and PAR-VLS (Nemenyi test" in said


def test_one_dataset_says_nothing_about_others_and_lower_losses_are_better():
    said = recommended({("birds", 50, "A"): 20.0, ("birds", 50, "B"): 24.0}, metric="one_error")
    assert said == (
        "Use A: it has the best mean rank, 1.00 over 1 dataset; no difference between it and another method is "
        "significant: 1 dataset is too few to tell."
    )


def test_who_saw_test_labels_is_never_recommended():
    said = recommended({**GRID, **{(d, n, "C"): 99.0 for d, n, _ in GRID}}, tuned={"C"})
    assert said.startswith("Use A or B")
    assert said.endswith("Not considered, for too few results or because test labels tuned them: C.")
    assert recommended({("birds", 50, "A"): 1.0}) == ""


# -- ranks: the paper's own, ours, and where there is too little to compare -------------------------------------------


def test_the_papers_real_world_diagram():
    published = load_published("real-world")
    paper, ours, *single = rank_comparisons(as_ours(published), published)
    found = paper.parts[""]
    ranks = dict(zip(found.names, found.mean_ranks, strict=True))
    assert ranks == pytest.approx(
        {"ProPML": 1.64, "PML-NI": 2.44, "CPLST": 3.52, "PAR-MAP": 3.80, "PAR-VLS": 4.24, "ML-kNN": 5.36}
    )
    assert paper.sentences == (
        "ProPML has the best mean rank, 1.64 over 25 blocks; significantly better than CPLST, PAR-MAP, PAR-VLS and "
        "ML-kNN; not than PML-NI (Nemenyi test, α = 0.05, critical difference 1.508).",
    )
    assert any("not independent" in sentence for sentence in paper.warnings)
    assert ours.parts[""].mean_ranks == pytest.approx(found.mean_ranks)
    titles = ["Average precision", "Coverage", "Hamming loss", "Ranking loss", "One-error"]
    assert [made.title for made in single] == titles


def test_noise_levels_are_stacked_and_a_common_warning_is_said_once():
    published = load_published("artificial")
    paper, *_ = rank_comparisons(as_ours(published), published)
    assert list(paper.parts) == [at(50), at(100), at(150)]
    part = paper.parts[at(100)]
    assert part.mean_ranks[part.names.index("ProPML")] == pytest.approx(2.10)
    assert sum("not independent" in sentence for sentence in paper.warnings) == 1
    assert any(sentence.startswith("50 %, 100 % and 150 %: ") for sentence in paper.warnings)


def test_methods_that_saw_test_labels_take_no_part():
    made = rank_comparisons(noisy_published().means(), [], {"ProPML (oracle)"})
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
    (made,) = rank_comparisons(means(rows), [])
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
    methods, sentences = comparable_methods(means(rows), ["one_error"])
    assert methods == ["A", "B"]
    assert sentences == ["C takes no part: it has results in 1 of 4 places."]
    (made,) = rank_comparisons(means(rows), [])
    assert made.parts[""].n_blocks == 4
    assert sentences[0] in made.warnings


def test_too_little_to_compare_is_a_sentence():
    one = fold_results("x", "birds", 50, "A", "one_error", [1.0])
    (made,) = rank_comparisons(means(one), [])
    assert not made.parts
    assert made.sentences == ("No diagram: A given; it takes two methods to compare",)
    assert rank_comparisons([], []) == []
    apart = [*one, *fold_results("x", "scene", 50, "B", "one_error", [2.0])]
    (made,) = rank_comparisons(means(apart), [])
    assert not made.parts
    assert made.sentences[0].startswith("No diagram: ")


def test_a_caution_that_holds_for_several_diagrams_is_said_once():
    published = load_published("real-world")
    (section,) = build_report(noisy_published("real-world", datasets=("yeastcc", "mirflickr"))).sections
    texts = [text for _, text in cautions(section.ranks)]
    assert len(texts) == len(set(texts))
    found = cautions(rank_comparisons(as_ours(published), published))
    (together,) = [topic for topic, text in found if "not independent" in text]
    assert together == "The paper's numbers, all metrics together and Ours, all metrics together"
