"""The benchmark: compare methods over datasets, kinds of noise and seeds, beside the numbers of the paper.

In goes an experiment, a TOML file or the name of one of the paper's. Its cells (dataset, noise, method, seed) are
computed by :func:`run` and kept in a results folder as soon as they are done; :func:`load_results` reads what is there,
:func:`compare_means` tells which differences are more than chance, and out comes what :func:`report` writes: a page,
Markdown, LaTeX and CSV.

>>> import propml.benchmark
>>> propml.benchmark.load_experiment("quick").title
'Every method on the digits mosaic'
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from propml.benchmark.comparison import compare_means
    from propml.benchmark.experiment import load_experiment
    from propml.benchmark.reporting import write_report as report
    from propml.benchmark.results import load_results
    from propml.benchmark.runner import run_experiment as run

__all__ = ["compare_means", "load_experiment", "load_results", "report", "run"]

# Imported when first asked for: torch takes seconds, and whoever reads results needs none of it.
_LAZY = {
    "compare_means": "propml.benchmark.comparison.compare_means",
    "load_experiment": "propml.benchmark.experiment.load_experiment",
    "load_results": "propml.benchmark.results.load_results",
    "report": "propml.benchmark.reporting.write_report",
    "run": "propml.benchmark.runner.run_experiment",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'propml.benchmark' has no attribute {name!r}")
    module, _, function = _LAZY[name].rpartition(".")
    return getattr(importlib.import_module(module), function)
