"""The page of a search: one HTML file without network, in the look of the benchmark's report."""

from __future__ import annotations

from importlib import resources

from propml import __version__
from propml.extras import require
from propml.tuning.charts import coordinates_chart, history_chart, importance_chart, label_of
from propml.tuning.importance import importances
from propml.tuning.result import SearchResult
from propml.tuning.spaces import searched

__all__ = ["render_page"]


def render_page(result: SearchResult, command: str = "") -> str:
    """The page; everything that comes from data is escaped."""
    jinja2 = require("jinja2", "tune")
    Markup = require("markupsafe", "tune").Markup
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    names = [name for name in searched(result.space) if any(name in each.params for each in result.trials)]
    shares = importances(result.trials, result.space)
    return environment.from_string(_file("search.html")).render(
        result=result,
        version=__version__,
        command=command,
        names=names,
        label_of=label_of,
        lead=_lead(result),
        judged_by=_judged_by(result),
        toml=result.to_toml(),
        history=Markup(history_chart(result.trials)),
        shares=shares,
        importance=Markup(importance_chart(shares)) if shares else "",
        coordinates=Markup(coordinates_chart(result.trials, result.space, names)) if names else "",
        failures=result.failures(),
        css=Markup(_house("report.css") + _file("search.css")),
        house_js=Markup(_house("report.js")),
        js=Markup(_file("search.js")),
    )


def _lead(result: SearchResult) -> str:
    counts = {state: sum(each.state == state for each in result.trials) for state in ("complete", "pruned", "failed")}
    words = {"complete": "had the whole budget", "pruned": "were stopped early", "failed": "failed"}
    told = ", ".join(f"{count} {words[state]}" for state, count in counts.items() if count)
    return f"Best value {result.value:.4f} in {len(result.trials)} trials: {told}."


def _judged_by(result: SearchResult) -> str:
    criterion = str(result.facts.get("criterion", "")).replace("_", " ")
    if result.facts.get("objective") == "oracle":
        return f"Judged by the TRUE labels of held-out rows ({criterion}), which a search in earnest does not have."
    return f"Judged by the candidate labels of held-out rows ({criterion}); no true label was looked at."


def _file(name: str) -> str:
    return (resources.files("propml.tuning") / "page_files" / name).read_text(encoding="utf-8")


def _house(name: str) -> str:
    return (resources.files("propml.benchmark.reporting") / "page" / name).read_text(encoding="utf-8")
