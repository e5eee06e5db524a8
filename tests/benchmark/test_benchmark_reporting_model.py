"""Facts about what a report holds: experiments, costs, chosen λ, gaps, and where results may come from."""

import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from fake_cells import cell, experiment, outcome
from noisy_published import at, fold_results, noisy_published
from typer.testing import CliRunner

from propml.benchmark.provenance import run_provenance
from propml.benchmark.reporting import build_report
from propml.benchmark.reporting.tables import cost_table, lam_table
from propml.benchmark.results import CellResult, Failure, FoldResult, Results, load_results
from propml.benchmark.store import ResultStore
from propml.cli.benchmark import app
from propml.noise import Setting


@pytest.fixture
def store(tmp_path):
    """A folder with eight cells and a failure."""
    store = ResultStore(tmp_path / "results")
    for each in experiment().cells():
        store.add(outcome(each), run_provenance(["propml"]))
    store.add(cell("Broken").result(failure=Failure("ValueError", "it broke")), run_provenance(["propml"]))
    return store


def column(table, head):
    (place,) = [place for place, column in enumerate(table.columns) if column.head == head]
    return [row[place] for row in table.rows]


def test_a_report_from_a_store_and_from_its_folder(store):
    for source in (store.folder, str(store.folder), load_results(store.folder)):
        (section,) = build_report(source).sections
        assert section.name == "toy"
        assert [table.metric for table in section.tables] == ["average_precision", "one_error"]
        assert {row.setting for row in section.tables[0].rows} == {
            Setting(dataset, at(noise)) for dataset in ("birds", "scene") for noise in (50.0, 100.0)
        }
        assert [cell.failure.reason for cell in section.results.failed] == ["ValueError: it broke"]
        assert column(section.costs, "Cells") == [4, 4]
        assert column(section.lams, "Median")[0] == 0.1
    result = store.cells()[0]
    mean = 100 * sum(fold.values["average_precision"] for fold in result.folds) / 2
    first = section.tables[0].rows[0].cells[section.tables[0].methods.index(result.method)]
    assert first.ours.mean == pytest.approx(mean)
    assert len(build_report(store.folder).runs) == 9  # the fixture makes one of each cell and one of the failure


def test_bare_results_are_enough():
    report = build_report(Results(fold_results("toy", "birds", 50, "Ridge", "one_error", [10, 20, 30])))
    (section,) = report.sections
    assert section.tables[0].rows[0].cells[0].ours.mean == pytest.approx(20)
    assert not any((section.lams, section.results.failed, section.not_run, section.published, report.runs))
    assert report.lead == ("1 cell measured (dataset × noise × method × seed), none failed. Everything is in percent.")


def test_title_and_note_of_a_users_own_experiment_are_those_of_its_last_run():
    rows = fold_results("mine", "birds", 50, "Ridge", "one_error", [10])
    runs = [
        run_provenance(["propml"], experiment="mine", title="First", note=""),
        run_provenance(["propml"], experiment="mine", title="Second", note="Mind the step."),
        run_provenance(["propml"], experiment="yours", title="Third", note="No."),
    ]
    (section,) = build_report(Results(rows, runs)).sections
    assert (section.title, section.note) == ("Second", "Mind the step.")
    (bare,) = build_report(Results(rows, [run_provenance(["propml"])])).sections
    assert (bare.title, bare.note) == ("mine", "")


def test_published_cells_that_were_not_run_are_listed():
    results = Results(fold_results("real-world", "yeastcc", None, "ProPML (oracle)", "coverage", [28.0]))
    (section,) = build_report(results).sections
    assert section.title == "Real-world candidate labels"
    assert len(section.not_run) == 5 * 6 - 1
    assert (Setting("yeastcc", None), "ProPML") not in section.not_run
    (told,) = [text for topic, text in section.summary if topic == "Not run"]
    assert told.startswith("29 published cells have no number of ours: MIRFlickr, ")


def test_the_paper_may_be_chosen_or_left_out():
    mine = Results(fold_results("my-birds", "birds", 50, "PML-NI", "average_precision", [64.0]))
    assert not build_report(mine).sections[0].published
    (beside,) = build_report(mine, paper="artificial").sections
    assert beside.tables[0].rows[1].setting.dataset == "bibtex"
    table = beside.tables[0]
    gains = {cell.method: table.gain(cell) for row in table.rows for cell in row.cells if cell.difference is not None}
    assert gains == {"PML-NI": 0.26}
    theirs = Results(fold_results("artificial", "birds", 50, "PML-NI", "average_precision", [64.0]))
    assert build_report(theirs).sections[0].published
    assert not build_report(theirs, paper="none").sections[0].published
    with pytest.raises(ValueError, match="has no experiment 'imaginary'"):
        build_report(theirs, paper="imaginary")


def test_experiments_are_sections_and_can_be_chosen():
    measured = Results(
        [
            *fold_results("a", "birds", 50, "Ridge", "one_error", [10]),
            *fold_results("b", "scene", 50, "Ridge", "one_error", [10]),
        ]
    )
    report = build_report(measured)
    assert [section.name for section in report.sections] == ["a", "b"]
    assert report.title == "Benchmark report"
    assert [section.name for section in build_report(measured, experiments=["b"]).sections] == ["b"]
    assert build_report(measured, experiments=["b"]).title == "b"
    with pytest.raises(ValueError, match="there are no results of 'c': the folder holds results of a, b"):
        build_report(measured, experiments=["c"])


def test_an_empty_or_missing_folder_is_a_sentence(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no results folder"):
        build_report(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="no results yet"):
        build_report(tmp_path)


def test_methods_stand_in_the_order_of_the_experiments_file():
    rows = [
        row
        for method in ("PML-fp", "Ridge", "PML-LRS", "BCE", "Unheard of")
        for row in fold_results("quick", "digits-mosaic", 50, method, "one_error", [10])
    ]
    (section,) = build_report(Results(rows)).sections
    assert section.tables[0].methods == ("BCE", "Ridge", "PML-LRS", "PML-fp", "Unheard of")


def test_costs():
    def row(dataset, noise, method, seconds, peak, device="cpu", seed=0):
        folds = tuple(FoldResult(fold, seconds_fit=seconds / 2, seconds_predict=0.25) for fold in (0, 1))
        return CellResult("x", dataset, at(noise), method, seed, folds=folds, peak_bytes=peak, device=device)

    rows = [
        row("scene", 50, "A", 4.0, 100),
        row("birds", 50, "A", 1.0, 300),
        row("birds", 100, "A", 3.0, 200),
        row("birds", 50, "A", 1.0, 900, "H200", seed=1),
        row("birds", 50, "B", 9.0, 50),
    ]
    table = cost_table(rows, ["B", "A"])
    assert [column.head for column in table.columns] == [
        *("Method", "Device", "Cells", "Fit", "Predict", "Peak", "Birds", "Scene")
    ]
    assert table.rows == [
        ("B", "cpu", 1, 9.0, 0.5, 50, 9.0, None),
        ("A", "H200", 1, 1.0, 0.5, 900, 1.0, None),
        ("A", "cpu", 3, 8.0, 1.5, 300, 2.0, 4.0),
    ]


def test_chosen_lams():
    def row(method, noise, *chosen):
        folds = tuple(FoldResult(fold, chosen=each) for fold, each in enumerate(chosen))
        return CellResult("x", "birds", at(noise), method, 0, folds=folds)

    rows = [row("ProPML", 50, *({"lam": {"network": lam, "linear": None}} for lam in (0.1, 0.3, 0.2)))]
    rows += [row("Other", 100, {"lam": 0.5}, {"threshold": 0.5})]
    table = lam_table(rows, beside_paper=True)
    assert [column.head for column in table.columns[3:]] == ["Median", "Least", "Most", "Values", "Paper"]
    # The supplement's λ for Birds at 50 and 100 % stand last.
    assert table.rows == [
        ["birds", at(50), "ProPML", 0.2, 0.1, 0.3, 3, 0.09],
        ["birds", at(100), "Other", 0.5, 0.5, 0.5, 1, 0.021],
    ]
    assert lam_table(rows, beside_paper=False).columns[-1].head == "Values"
    mixed = lam_table([row("Mix", 50, {"lam": {"network": 0.1, "linear": None, "forest": 1}})], beside_paper=False)
    assert [line[2] for line in mixed.rows] == ["Mix", "Mix forest"]


def test_a_fixed_lam_is_not_a_chosen_one():
    fold = FoldResult(0, values={"one_error": 0.1}, chosen={"lam": {"network": 1.0}})
    for lam in ("auto", 1.0):
        cell = CellResult("x", "birds", at(50), "BCE", 0, settings={"params": {"lam": lam}}, folds=(fold,))
        assert bool(build_report(Results([cell])).sections[0].lams) == (lam == "auto")


def test_settings_tell_who_was_tuned_on_test_labels():
    (cell,) = fold_results("x", "birds", 50, "Mine", "one_error", [10])
    tuned = replace(cell, settings={"params": {"lam": "auto"}, "selection": "oracle"})
    (section,) = build_report(Results([tuned])).sections
    assert section.tuned == {"Mine"}
    assert "Mine: what was tuned" in section.notes[0]


def test_nothing_heavy_is_imported_before_it_is_needed():
    heavy = ("matplotlib", "jinja2", "pandas")
    script = f"import sys, propml.benchmark.reporting; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_commands_select_the_cell_and_nothing_else():
    """Every command of a table is one that the command line takes, and it means exactly one cell."""
    (section,) = build_report(noisy_published()).sections
    table = section.tables[0]
    for row in table.rows[:4]:
        for method in table.methods:
            words = shlex.split(section.command(row.setting, method))
            assert words[:3] == ["propml", "benchmark", "run"]
            found = CliRunner().invoke(app, ["status", *words[3:]])
            assert found.exit_code == 0, found.output
            assert [line.split()[-3:] for line in found.output.splitlines()[1:]] == [["0", "1", "0"]] * 2


def test_commands_of_a_users_own_experiment_and_of_methods_that_only_the_paper_has():
    (mine,) = build_report(Results(fold_results("mine", "birds", 50, "Ridge", "one_error", [1.0]))).sections
    assert mine.command(Setting("birds", at(50)), "Ridge").startswith("propml benchmark run mine.toml --datasets birds")
    rows = fold_results("vision", "voc2007", 0.1, "ProPML", "mAP", [80.0])
    (vision,) = build_report(Results(rows)).sections
    assert "PML-LRS" in vision.tables[0].methods
    assert vision.command(Setting("voc2007", at(0.1)), "PML-LRS") == ""
    assert "--noise 0.1 --methods ProPML" in vision.command(Setting("voc2007", at(0.1)), "ProPML")
