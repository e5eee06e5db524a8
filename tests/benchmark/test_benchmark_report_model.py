"""Facts about what a report holds: experiments, costs, chosen λ, gaps, and where results may come from."""

import shlex
import subprocess
import sys

import pytest
from fake_cells import cell, experiment, outcome
from noisy_published import fold_results, noisy_published
from typer.testing import CliRunner

from propml.benchmark.provenance import run_provenance
from propml.benchmark.report import build_report
from propml.benchmark.report.costs import method_costs
from propml.benchmark.report.lams import chosen_lams, lam_points
from propml.benchmark.report.measured import Measured, gather
from propml.benchmark.results import Setting
from propml.benchmark.store import Chosen, ResultStore, Timing
from propml.cli.benchmark import app


@pytest.fixture
def store(tmp_path):
    """A folder with eight cells and a failure."""
    store = ResultStore(tmp_path / "results")
    for each in experiment().cells():
        store.add(outcome(each), run_provenance(["propml"]))
    store.add_failure(cell("Broken"), "it broke", run_provenance(["propml"]), error="ValueError")
    return store


def test_a_report_from_a_store_and_from_its_folder(store):
    for source in (store, store.folder, str(store.folder), gather(store)):
        (section,) = build_report(source).sections
        assert section.name == "toy"
        assert [table.metric for table in section.tables] == ["average_precision", "one_error"]
        assert {row.setting for row in section.tables[0].rows} == {
            Setting(dataset, noise) for dataset in ("birds", "scene") for noise in (50.0, 100.0)
        }
        assert [failure.reason for failure in section.failures] == ["ValueError: it broke"]
        assert [cost.n_cells for cost in section.costs] == [4, 4]
        assert section.lams[0].middle == 0.1
    summary = store.results()[0]
    mean = 100 * sum(r.value for r in store.results() if r[1:5] == summary[1:5] and r.metric == summary.metric) / 2
    first = section.tables[0].rows[0].cells[section.tables[0].methods.index(summary.method)]
    assert first.ours.mean == pytest.approx(mean)
    assert len(build_report(store).runs) == 9  # the fixture makes one of each cell and one of the failure


def test_bare_results_are_enough():
    report = build_report(fold_results("toy", "birds", 50, "Ridge", "one_error", [10, 20, 30]))
    (section,) = report.sections
    assert section.tables[0].rows[0].cells[0].ours.mean == pytest.approx(20)
    assert (section.costs, section.failures, section.not_run, section.published, report.runs) == ((), (), (), (), ())
    assert report.lead == ("1 cell measured (dataset × noise × method × seed), none failed. Everything is in percent.")


def test_title_and_note_of_a_users_own_experiment_are_those_of_its_last_run():
    rows = fold_results("mine", "birds", 50, "Ridge", "one_error", [10])
    runs = [
        run_provenance(["propml"], experiment="mine", title="First", note=""),
        run_provenance(["propml"], experiment="mine", title="Second", note="Mind the step."),
        run_provenance(["propml"], experiment="yours", title="Third", note="No."),
    ]
    (section,) = build_report(Measured(rows, provenance=runs)).sections
    assert (section.title, section.note) == ("Second", "Mind the step.")
    (bare,) = build_report(Measured(rows, provenance=[run_provenance(["propml"])])).sections
    assert (bare.title, bare.note) == ("mine", "")


def test_published_cells_that_were_not_run_are_listed():
    (section,) = build_report(
        fold_results("real-world", "yeastcc", None, "ProPML (oracle)", "coverage", [28.0])
    ).sections
    assert section.title == "Real-world candidate labels"
    assert len(section.not_run) == 5 * 6 - 1
    assert (Setting("yeastcc", None), "ProPML") not in section.not_run
    groups = section.not_run_by_methods()
    assert [setting.dataset for setting in groups["CPLST", "ML-kNN", "PAR-MAP", "PAR-VLS", "PML-NI"]] == ["yeastcc"]
    assert len(groups) == 2


def test_the_paper_may_be_chosen_or_left_out():
    rows = fold_results("my-birds", "birds", 50, "PML-NI", "average_precision", [64.0])
    assert not build_report(rows).sections[0].published
    (beside,) = build_report(rows, paper="artificial").sections
    assert beside.tables[0].rows[1].setting.dataset == "bibtex"
    (line,) = beside.agreements
    assert (line.method, line.mean_gain) == ("PML-NI", 0.26)
    rows = [row._replace(experiment="artificial") for row in rows]
    assert build_report(rows).sections[0].agreements
    assert not build_report(rows, paper="none").sections[0].agreements
    with pytest.raises(ValueError, match="has no experiment 'imaginary'"):
        build_report(rows, paper="imaginary")


def test_experiments_are_sections_and_can_be_chosen():
    measured = gather(
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
    (section,) = build_report(rows).sections
    assert section.tables[0].methods == ("BCE", "Ridge", "PML-LRS", "PML-fp", "Unheard of")


def test_costs():
    rows = [
        Timing("x", "scene", 50, "A", 0, 4.0, 0.5, 100, "cpu"),
        Timing("x", "birds", 50, "A", 0, 1.0, 0.5, 300, "cpu"),
        Timing("x", "birds", 100, "A", 0, 3.0, 0.5, 200, "cpu"),
        Timing("x", "birds", 50, "A", 1, 1.0, 0.5, 900, "H200"),
        Timing("x", "birds", 50, "B", 0, 9.0, 0.5, 50, "cpu"),
    ]
    second, gpu, first = method_costs(rows, ["B", "A"])[0], *method_costs(rows, ["B", "A"])[1:]
    assert (second.method, gpu.device, first.device) == ("B", "H200", "cpu")
    assert (first.n_cells, first.seconds_fit, first.seconds_predict, first.peak_bytes) == (3, 8.0, 1.5, 300)
    assert first.by_dataset == {"birds": 2.0, "scene": 4.0}
    assert list(first.by_dataset) == ["birds", "scene"]


def test_chosen_lams():
    def row(fold, chosen, method="ProPML", noise=50):
        return Chosen("x", "birds", noise, method, 0, fold, chosen)

    rows = [row(fold, {"lam": {"network": lam, "linear": None}}) for fold, lam in enumerate((0.1, 0.3, 0.2))]
    rows += [row(0, {"lam": 0.5}, "Other", 100), row(1, {"threshold": 0.5}, "Other", 100)]
    first, other = chosen_lams(rows, beside_paper=True)
    assert (first.part, first.middle, first.least, first.most, first.n) == ("network", 0.2, 0.1, 0.3, 3)
    assert first.published == 0.09  # the supplement's λ for Birds at 50 %
    assert (other.method, other.part, other.n, other.published) == ("Other", "", 1, 0.021)
    assert chosen_lams(rows, beside_paper=False)[0].published is None


def test_a_fixed_lam_is_not_a_chosen_one():
    row = Chosen("x", "birds", 50, "BCE", 0, 0, {"lam": {"network": 1.0}})
    results = fold_results("x", "birds", 50, "BCE", "one_error", [10])
    settings = {"x": [{"name": "BCE", "params": {"lam": 1.0}, "selection": "candidates"}]}
    assert build_report(Measured(results, chosen=[row])).sections[0].lams
    assert not build_report(Measured(results, chosen=[row], settings=settings)).sections[0].lams


def test_the_path_of_an_oracle_makes_points():
    measured = noisy_published(datasets=("birds",))
    points = lam_points(measured.chosen)
    assert {point.lam for point in points} == {0.01, 0.03, 0.1, 0.3, 1.0}
    assert {point.fold for point in points} == {0, 1, 2}


def test_settings_tell_who_was_tuned_on_test_labels():
    results = fold_results("x", "birds", 50, "Mine", "one_error", [10])
    settings = {"x": [{"name": "Mine", "params": {"lam": "auto"}, "selection": "oracle"}]}
    assert gather(Measured(results, settings=settings)).tuned() == {"Mine"}
    assert "Mine: what was tuned" in build_report(Measured(results, settings=settings)).sections[0].notes[0]


def test_nothing_heavy_is_imported_before_it_is_needed():
    heavy = ("matplotlib", "jinja2", "pandas")
    script = f"import sys, propml.benchmark.report; print([m for m in {heavy} if m in sys.modules])"
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
    (mine,) = build_report(fold_results("mine", "birds", 50, "Ridge", "one_error", [1.0])).sections
    assert mine.command(Setting("birds", 50), "Ridge").startswith("propml benchmark run mine.toml --datasets birds")
    rows = fold_results("vision", "voc2007", 0.1, "ProPML", "mAP", [80.0])
    (vision,) = build_report(rows).sections
    assert "PML-LRS" in vision.tables[0].methods
    assert vision.command(Setting("voc2007", 0.1), "PML-LRS") == ""
    assert "--noise 0.1 --methods ProPML" in vision.command(Setting("voc2007", 0.1), "ProPML")
