"""Facts about ``propml benchmark report``."""

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from propml.benchmark.cell import MethodEntry, TabularCell
from propml.benchmark.provenance import run_provenance
from propml.benchmark.results import FoldResult
from propml.benchmark.store import ResultStore
from propml.cli.benchmark import report
from propml.noise import Noise

app = typer.Typer()
app.command()(report)


def fold(number):
    scores = np.zeros((2, 3), dtype=np.float32)
    values = {"average_precision": 0.6 + number / 100}
    return FoldResult(number, np.arange(2), scores, scores.astype(np.uint8), values, 1.0, 0.5, {})


@pytest.fixture
def results(tmp_path):
    """A folder with two cells of one experiment and one of another."""
    store = ResultStore(tmp_path / "my results")
    for experiment, method in (("artificial", "ProPML"), ("artificial", "PML-NI"), ("toy", "PML-NI")):
        entry, noise = MethodEntry(method, "ridge"), Noise("svm", 0.5)
        cell = TabularCell(experiment, "birds", noise, entry, 0, folds=2, metrics=("average_precision",))
        store.add(cell.result([fold(0), fold(1)], peak_bytes=2**20), run_provenance(["propml"]))
    return store.folder


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_all_formats_beside_the_results(results):
    found = run(results)
    assert found.exit_code == 0, found.output
    names = ["report.html", "report.md", "tables.tex", "results-long.csv"]
    assert found.output.splitlines() == [f"wrote {results / 'report' / name}" for name in names]
    text = (results / "report" / "report.md").read_text(encoding="utf-8")
    assert "60.50 (**66.88**, −6.38)" in text.replace("**60.50**", "60.50")
    assert "`propml benchmark report 'my results'`" in text
    assert str(results.parent) not in text


def test_choices(results, tmp_path):
    found = run(
        results, "--experiment", "toy", "--paper", "artificial", "--formats", "md, csv", "--out", tmp_path / "there"
    )
    assert found.exit_code == 0, found.output
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["report.md", "results-long.csv"]
    text = (tmp_path / "there" / "report.md").read_text(encoding="utf-8")
    assert "60.50 (***63.74***, −3.24)" in text
    assert "not run (**66.88**)" in text
    assert "--experiment toy --paper artificial" in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--formats", "doc"), "there is no format 'doc'; choose from html, md, tex, csv, svg, png, pdf"),
        (("--formats", ","), "no format is given"),
        (("--experiment", "vision"), "there are no results of 'vision': the folder holds results of artificial, toy"),
        (("--paper", "imaginary"), "the paper has no experiment 'imaginary'"),
    ],
)
def test_mistakes_are_sentences(results, options, message):
    found = run(results, *options)
    assert found.exit_code == 1
    assert message in str(found.exception)


def test_a_folder_without_results(tmp_path):
    assert "there is no results folder" in str(run(tmp_path / "nowhere").exception)
    assert "no results yet" in str(run(tmp_path).exception)
