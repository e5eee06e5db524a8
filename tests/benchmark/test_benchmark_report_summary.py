"""Facts about the sentences: they say what the numbers say."""

from noisy_published import fold_results, noisy_published

from propml.benchmark.published import Published, load_published
from propml.benchmark.report.ranks import rank_comparisons
from propml.benchmark.report.summary import agreements, notes, own_tables, summary, winners
from propml.benchmark.report.tables import metric_tables
from propml.benchmark.results import Result, Setting


def made(values, published=(), metric="average_precision", experiment="x", tuned=()):
    """Tables from {(dataset, noise, method): percent}, one fold each."""
    results = [
        row
        for (dataset, noise, method), value in values.items()
        for row in fold_results(experiment, dataset, noise, method, metric, [value])
    ]
    printed = [Published(experiment, *key, metric, mean, 1.0) for key, mean in dict(published).items()]
    return metric_tables(results, printed, {}, tuned)


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
    assert said(findings, "Measured") == (
        "2 methods on 2 datasets at 2 noise levels (50 % and 100 %): 6 means of 1 value (folds times seeds) each."
    )
    assert said(findings, "Average precision") == "A is best in 2 of 3 settings (Birds); B in 1."
    won = winners(tables[0])
    assert won.best[Setting("scene", 50)] == ("B",)
    assert won.second[Setting("scene", 50)] == ("A",)


def test_one_winner_everywhere_and_one_setting_only():
    everywhere = made({key: value for key, value in GRID.items() if key[0] == "birds"})
    assert said(summary(everywhere), "Average precision") == "A is best everywhere."
    one = made({key: value for key, value in GRID.items() if key[0] == "scene"})
    assert said(summary(one), "Average precision") == "B is best on Scene."


def test_one_method_is_best_of_nothing():
    findings = summary(made({("birds", 50, "A"): 1.0}))
    assert [topic for topic, _ in findings] == ["Measured"]
    assert "1 method on 1 dataset" in findings[0].text


def test_ties_count_for_both():
    won = winners(made({("birds", 50, "A"): 70.0, ("birds", 50, "B"): 70.004})[0])
    assert won.best[Setting("birds", 50)] == ("A", "B")
    tables = made({("birds", 50, "A"): 70.0, ("birds", 50, "B"): 70.004})
    assert said(summary(tables), "Average precision") == "A and B are best on Birds."
    tables = made({**GRID, ("scene", 50, "B"): 80.0})
    assert said(summary(tables), "Average precision") == "A is best everywhere; as good are B in 1."


def test_where_ours_is_better_close_and_worse():
    tables = made(
        {("birds", 50, "ProPML"): 70.0, ("birds", 100, "ProPML"): 65.5, ("scene", 50, "ProPML"): 80.0},
        {("birds", 50, "ProPML"): 66.88, ("birds", 100, "ProPML"): 65.0, ("scene", 50, "ProPML"): 88.7},
    )
    (line,) = agreements(tables)
    assert (line.n, line.better, line.close, line.worse) == (3, 1, 1, 1)
    assert line.mean_gain == round((3.12 + 0.5 - 8.7) / 3, 2)
    assert line.most_better == "+3.12 (Average precision, Birds 50 %)"
    assert line.most_worse == "−8.70 (Average precision, Scene 50 %)"
    findings = summary(tables)
    assert said(findings, "ProPML") == (
        "Average precision: better than the paper on Birds at 50 %; within a point on Birds at 100 %; worse on Scene."
    )
    beside = said(findings, "Beside the paper")
    assert "Of 3 numbers that the paper prints too, 1 lies within 1 point, 1 is better" in beside
    assert "worse side: ProPML −8.70 (Average precision, Scene 50 %)" in beside


def test_lower_losses_are_better():
    (line,) = agreements(made({("birds", 50, "A"): 20.0}, {("birds", 50, "A"): 24.0}, metric="coverage"))
    assert (line.better, line.worse, line.mean_gain) == (1, 0, 4.0)
    assert line.most_better == "−4.00 (Coverage, Birds 50 %)"


def test_failures_and_gaps_are_counted():
    findings = summary(
        made(GRID),
        n_failed=3,
        not_run=[(Setting("music-style", None), "CPLST"), (Setting("music-style", None), "PML-NI")],
    )
    assert said(findings, "Failed") == "3 cells failed; what they said stands below."
    assert said(findings, "Not run") == "2 published cells have no number of ours: Music-style."
    assert said(summary([], n_failed=1), "Measured") == "Nothing yet."


def test_best_where_follows_our_own_conventions():
    tables = metric_tables(
        [
            *fold_results("x", "birds", 50, "A", "one_error", [10.0]),
            *fold_results("x", "birds", 50, "B", "one_error", [20.0]),
            *fold_results("x", "birds", 50, "A", "one_error:paper", [30.0]),
            *fold_results("x", "birds", 50, "B", "one_error:paper", [20.0]),
        ],
        [Published("x", "birds", 50, "A", "one_error", 30.0, 1.0)],
        {},
    )
    assert [table.metric for table in own_tables(tables)] == ["one_error"]
    assert said(summary(tables), "One-error") == "A is best on Birds."


def test_notes_say_how_lam_was_chosen():
    measured = noisy_published()
    published = [Published("artificial", "birds", 50, "ProPML", "average_precision", 66.88, 2.0)]
    tables = metric_tables(measured.results, published, {}, {"ProPML (oracle)"})
    text = " ".join(notes(tables, {"ProPML (oracle)"}))
    assert "computed the same way" in text
    assert "ProPML (oracle) did the same and is the like-for-like comparison" in text
    assert "ProPML chose it on held-out candidate labels" in text
    honest = made({("birds", 50, "ProPML"): 60.0}, {("birds", 50, "ProPML"): 66.88})
    assert notes(honest) == [
        "The paper chose the λ of ProPML on test labels. Ours was chosen on held-out candidate labels, "
        "so that the published row has an advantage."
    ]
    oracle = made({("birds", 50, "ProPML"): 60.0}, {("birds", 50, "ProPML"): 66.88}, tuned={"ProPML"})
    assert "ProPML did the same" in " ".join(notes(oracle, {"ProPML"}))
    assert notes(made(GRID)) == []
    assert "10433" in " ".join(notes(made({("mirflickr", None, "A"): 60.0}, {("mirflickr", None, "A"): 66.88})))


def test_the_ranks_of_the_first_metric():
    published = [row for row in load_published("real-world") if row.metric == "average_precision"]
    results = [Result("x", p.dataset, p.noise, p.method, 0, 0, p.metric, p.mean / 100) for p in published]
    findings = summary(metric_tables(results, [], {}), rank_comparisons(results, []))
    # By average precision alone ProPML beats ML-kNN and PAR-VLS with five datasets.
    assert said(findings, "Mean ranks").startswith(
        "Average precision: ProPML has the best mean rank, 1.60 over 5 blocks;"
    )
