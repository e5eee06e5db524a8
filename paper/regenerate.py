"""Write the generated parts of ``README.md`` and the diagrams of mean ranks again: ``python paper/regenerate.py``.

The numbers come from ``results/results-long.csv``, which ``propml benchmark report RESULTS --formats csv`` writes, and
from the paper's published tables. A generated part stands between two comments that name it; with ``--check`` nothing
is written, and what differs is named.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import Any

from claims import check_claims

from propml.benchmark.comparison import compare_means
from propml.benchmark.figures import critical_difference_stack, save
from propml.benchmark.reporting.markdown import escaped, markdown_table, metric_tables, table_entry
from propml.benchmark.reporting.tables import MetricTable
from propml.benchmark.reporting.tables import metric_tables as tables_of
from propml.benchmark.statistics import Comparison
from propml.noise import Noise, noise_order
from propml.paper import Mean, load_published
from propml.paper.metric_names import TABULAR_METRICS
from propml.paper.notes import ORACLE_SUFFIX

HERE = Path(__file__).parent
NUMBERS = HERE / "results" / "results-long.csv"
TITLES = {"real-world": "Real candidates", "artificial": "Artificial candidates"}


def load_means(path: Path = NUMBERS) -> list[Mean]:
    """Our means, as the report's CSV has them."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Mean(
                row["experiment"],
                row["dataset"],
                Noise.read(float(row["noise"])) if row["noise"] else None,
                row["method"],
                row["metric"],
                float(row["ours_mean"]),
                float(row["ours_std"] or "nan"),
                int(row["ours_n"]),
            )
            for row in csv.DictReader(file)
            if row["ours_mean"]
        ]


def parts(means: list[Mean]) -> dict[str, str]:
    """The generated parts of the README by their names."""
    return {
        "real-world": metric_tables(beside_paper(means, "real-world", "average_precision")),
        "artificial": metric_tables(beside_paper(means, "artificial", "average_precision")),
        "vision": _vision_table(beside_paper(means, "vision", "mAP")),
        "ranks": _ranks_table(means),
        "claims": _claims_table(),
    }


def beside_paper(means: list[Mean], experiment: str, metric: str) -> MetricTable:
    """The table of one metric that stands beside the paper's."""
    own = [row for row in means if row.experiment == experiment]
    tuned = {row.method for row in own if row.method.endswith(ORACLE_SUFFIX)}
    tables = tables_of(own, load_published(experiment), {}, tuned)
    return next(table for table in tables if table.compared and table.metric.startswith(metric))


def regenerated(text: str, generated: dict[str, str]) -> str:
    """The README with every generated part as it should be."""
    for name, part in generated.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise ValueError(f"README.md needs {start} and {end} once each, around what is generated")
        text = re.sub(f"{start}.*?{end}", lambda _, new=f"{start}\n\n{part}\n\n{end}": new, text, flags=re.DOTALL)
    return text


def rank_comparisons(means: list[Mean]) -> dict[str, dict[str, Comparison]]:
    """Mean ranks over all metrics, the paper's and ours, of the paper's methods: by experiment, then by title."""
    found: dict[str, dict[str, Comparison]] = {}
    for experiment, title in TITLES.items():
        published = load_published(experiment)
        methods = list(dict.fromkeys(row.method for row in published))
        for source, rows in (("the paper's numbers", published), ("ours", means)):
            there = [row for row in rows if row.experiment == experiment and row.method in methods]
            for noise in sorted({row.noise for row in there}, key=noise_order):
                name = ", ".join([f"q = {noise.title}" if noise else title, source])
                level = [row for row in there if row.noise == noise]
                found.setdefault(experiment, {})[name] = compare_means(level, TABULAR_METRICS, methods=methods)
    return found


def figures(means: list[Mean]) -> dict[str, Any]:
    """The diagrams by the names of their files: the paper's, and ours, for each experiment."""
    return {
        f"{experiment}-ranks-{name}.svg": critical_difference_stack(
            {title: each for title, each in comparisons.items() if title.endswith(source)}
        )[0]
        for experiment, comparisons in rank_comparisons(means).items()
        for name, source in (("paper", "the paper's numbers"), ("ours", "ours"))
    }


def _vision_table(table: MetricTable) -> str:
    """A row per method that we ran, a column per noise level of VOC2007."""
    rows = [row for row in table.rows if row.setting.dataset == "voc2007"]
    rows = [row for row in rows if any(cell.ours for cell in row.cells)]
    places = [place for place in range(len(table.methods)) if any(row.cells[place].ours for row in rows)]
    columns = ["VOC2007", *(f"q = {row.setting.noise.title}" for row in rows if row.setting.noise)]
    lines = [[escaped(table.methods[place]), *(table_entry(row.cells[place]) for row in rows)] for place in places]
    return markdown_table(columns, lines)


def _ranks_table(means: list[Mean]) -> str:
    comparisons = [item for each in rank_comparisons(means).values() for item in each.items()]
    names = comparisons[0][1].names
    rows = [
        [
            title,
            str(found.n_blocks),
            f"{found.critical_difference:.3f}",
            *(f"{found.mean_ranks[found.names.index(name)]:.2f}" for name in names),
            ", ".join(name for name in names if name not in (*found.better_than("ProPML"), "ProPML")) or "none",
        ]
        for title, found in comparisons
    ]
    return markdown_table(["mean ranks", "rows", "CD", *names, "not significantly worse than ProPML"], rows)


def _claims_table() -> str:
    words = {True: "yes", False: "no", None: "open"}
    rows = [[escaped(claim.said), escaped(claim.found), words[claim.holds]] for claim in check_claims()]
    return markdown_table(["the paper says", "its published numbers say", "holds"], rows, left=range(3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    check = parser.parse_args().check
    means, readme = load_means(), HERE / "README.md"
    before = readme.read_text(encoding="utf-8")
    generated = parts(means)
    if check:
        old = [name for name, part in generated.items() if regenerated(before, {name: part}) != before]
        sys.exit(f"README.md differs from the numbers: {', '.join(old)}; run this without --check" if old else 0)
    readme.write_text(regenerated(before, generated), encoding="utf-8")
    for name, figure in figures(means).items():
        save(figure, HERE / "results" / name)


if __name__ == "__main__":
    main()
