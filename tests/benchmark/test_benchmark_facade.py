"""The room's few public names: they do what the modules behind them do, and importing them costs nothing."""

import inspect
import subprocess
import sys

import pytest

import propml
from propml import benchmark
from propml.benchmark.reporting import write_report
from propml.benchmark.runner import run_experiment


def test_run_load_and_report(tmp_path):
    quick = benchmark.load_experiment("quick").narrowed(methods=["Ridge", "ML-kNN"], noise=[0.5])
    summary = benchmark.run(quick, tmp_path / "results", verbose=False)
    assert len(summary.done) == 2
    results = propml.benchmark.load_results(tmp_path / "results")
    rows = results.means("average_precision")
    assert [(row.method, row.noise.title, row.n) for row in rows] == [("ML-kNN", "50 %", 3), ("Ridge", "50 %", 3)]
    (file,) = benchmark.report(results, tmp_path, formats=["md"])
    assert all(f"{row.mean:.2f}" in file.read_text(encoding="utf-8") for row in rows)
    assert benchmark.compare_means(rows, "average_precision").names == ("ML-kNN", "Ridge")


def test_the_names_show_their_arguments():
    assert set(benchmark.__all__) == {"compare_means", "load_experiment", "load_results", "report", "run"}
    assert inspect.signature(benchmark.run) == inspect.signature(run_experiment)
    assert inspect.signature(benchmark.report) == inspect.signature(write_report)
    with pytest.raises(AttributeError, match="no attribute 'rum'"):
        _ = benchmark.rum


def test_the_room_is_light_and_so_is_reading_results():
    heavy = ("torch", "pandas", "sklearn", "matplotlib")
    code = (
        f"import sys, propml.benchmark; print([m for m in {heavy} if m in sys.modules]); "
        f"propml.benchmark.load_results; print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
