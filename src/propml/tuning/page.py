"""The page of a search: one HTML file that needs no network, with Optuna's pictures of the study."""

from __future__ import annotations

import base64
import csv
import io
from collections import Counter
from collections.abc import Iterator
from html import escape
from string import Template
from typing import TYPE_CHECKING, Any

from propml import __version__
from propml.extras import require
from propml.tuning.result import SearchResult
from propml.tuning.spaces import searched
from propml.tuning.studies import quiet

if TYPE_CHECKING:
    import optuna

__all__ = ["compared_trials", "pictures", "render_page"]

# Below so many trials nothing can be said of the importance of arguments.
FEWEST = 8
PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Search: $title</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
pre { background: #f4f4f4; padding: 1rem; overflow-x: auto; }
img { max-width: 100%; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-variant-numeric: tabular-nums; }
td { padding-right: 1rem; white-space: nowrap; }
tr:first-child { font-weight: bold; }
</style>
</head>
<body>
<h1>Search: $title</h1>
<p>$summary</p>
<h2>The best configuration</h2>
<pre>$toml</pre>
<p>$judged_by</p>
$pictures
<h2>All trials</h2>
<table>
$rows
</table>
<p>Made by propml $version: <code>$command</code></p>
<p>$facts</p>
</body>
</html>
""")


def render_page(result: SearchResult, command: str = "") -> str:
    """The page; everything that comes from data is escaped."""
    words = {"complete": "had the whole budget", "pruned": "were stopped early", "failed": "failed"}
    counts = Counter(each.state for each in result.trials)
    parts = ", ".join(f"{counts[state]} {words[state]}" for state in words if counts[state])
    by_truth = "the TRUE labels of held-out rows, which a search in earnest does not have"
    by_candidates = "the candidate labels of held-out rows; no true label was looked at"
    rows = [map(escape, row) for row in csv.reader(io.StringIO(result.to_csv()))]
    return PAGE.substitute(
        title=escape(result.title),
        summary=f"Trial {result.best.number} is the best, with {result.value:.4f} after epoch {result.best.epochs}. "
        f"Of {len(result.trials)} trials {parts}.",
        toml=escape(result.to_toml()),
        judged_by=f"Judged by {by_truth if result.facts.get('objective') == 'oracle' else by_candidates}.",
        pictures="\n".join(_figure(*picture) for picture in pictures(result)),
        rows="\n".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in rows),
        version=__version__,
        command=escape(command),
        facts=escape(", ".join(f"{name}: {value}" for name, value in result.facts.items())),
    )


def pictures(result: SearchResult) -> Iterator[tuple[str, str, bytes]]:
    """Title, caption and SVG of every picture that has something to show."""
    plots = require("optuna.visualization.matplotlib", "tune")
    if any(each.state == "complete" for each in result.trials):
        caption = "Trials that had the whole budget; the line is the best so far."
        yield "History", caption, _drawn(plots.plot_optimization_history, result.study)
    if any(len(each.curve) > 1 for each in result.trials):
        caption = "Every trial at the epochs at which it was compared with others; a line that ends early was stopped."
        yield "Epoch by epoch", caption, _drawn(plots.plot_intermediate_values, result.study)
    epoch, study = compared_trials(result)
    values = [trial.value for trial in study.trials]
    if len(values) < FEWEST or not searched(result.space):
        return
    over = f"the {len(values)} trials that were compared after epoch {epoch}"
    if len(set(values)) > 1:
        caption = f"How much the value depends on each argument, over {over}."
        yield "Importance", caption, _drawn(plots.plot_param_importances, study)
    caption = f"One line for each of {over}, through its arguments; the better, the darker."
    yield "Parallel coordinates", caption, _drawn(plots.plot_parallel_coordinate, study)


def compared_trials(result: SearchResult) -> tuple[int, optuna.Study]:
    """The last epoch that at least half of the trials reached, and a study of what they were worth there.

    Optuna looks at complete trials only, and most of Hyperband's stop early.
    """
    optuna = require("optuna", "tune")
    counts = Counter(epoch for each in result.trials for epoch in each.curve)
    half = sum(bool(each.curve) for each in result.trials) / 2
    epoch = max((epoch for epoch, count in counts.items() if count >= half), default=0)
    with quiet():
        study = optuna.create_study(direction="maximize")
    trials = result.study.get_trials(deepcopy=False)
    for trial in (trials[each.number] for each in result.trials if epoch in each.curve):
        value = trial.intermediate_values[epoch]
        study.add_trial(optuna.create_trial(params=trial.params, distributions=trial.distributions, value=value))
    return epoch, study


def _drawn(plot: Any, study: optuna.Study) -> bytes:
    """What a plot of Optuna draws, as SVG; the caller's settings of matplotlib stay as they are."""
    matplotlib, pyplot = require("matplotlib", "tune"), require("matplotlib.pyplot", "tune")
    svg, backend = io.BytesIO(), matplotlib.get_backend()
    pyplot.switch_backend("agg")
    try:
        with quiet(), matplotlib.rc_context({"figure.figsize": (10, 5), "svg.hashsalt": "propml"}):
            axes = plot(study)
            if axes.get_legend() is not None:  # one entry for every trial
                axes.get_legend().remove()
            axes.figure.savefig(svg, format="svg", bbox_inches="tight", metadata={"Date": None})
            pyplot.close(axes.figure)
    finally:
        pyplot.switch_backend(backend)
    return svg.getvalue()


def _figure(title: str, caption: str, svg: bytes) -> str:
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    return f'<h2>{title}</h2>\n<img alt="{title}" src="{source}">\n<p>{caption}</p>'
