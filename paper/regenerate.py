"""Write all that is made of the kept numbers again: ``python paper/regenerate.py``.

That is the generated parts of ``README.md`` and of three pages of ``docs/``, the diagrams, and the CSV files in their
one form. The numbers stand in ``results/results-long.csv`` and ``results/ground.csv``, ``audit*.csv``,
``ground_choice.csv``, ``head_choice.csv``, ``threshold_choice.csv``, and in the paper's published tables. A generated
part stands between two comments that name it.

    python paper/regenerate.py --add results/artificial    # takes new runs in: what `propml benchmark run` has written
    python paper/regenerate.py --check                     # writes nothing, and says what differs

A new run replaces what is kept of the same method in the same setting. It counts where it has all folds and seeds of
the experiment as it is today.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from math import isnan
from pathlib import Path
from statistics import fmean
from typing import Any

from audit_tables import audit_parts, further_parts
from claims import check_claims
from ground_choice import choice_table
from head_choice import head_table
from kept import GROUND, GROUND_METHODS, GROUND_METRICS, RESULTS, Numbers, files, load_numbers, of_runs, older, sections
from scipy.stats import binomtest
from threshold_choice import rule_table, threshold_table

from propml.benchmark.comparison import compare_means
from propml.benchmark.figures import critical_difference_stack, lambda_metrics, noise_curves, save
from propml.benchmark.figures.curves import lambda_sentences
from propml.benchmark.reporting.formats import escaped, markdown_table, markdown_tables
from propml.benchmark.reporting.tables import marks, order_settings
from propml.benchmark.statistics import Comparison
from propml.benchmark.wording import dataset_title, number, setting_name, signed
from propml.noise import noise_order
from propml.paper import Mean, load_published
from propml.paper.published import TABULAR_METRICS, listed, metric_of

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
# Which parts stand where.
PAGES = {
    HERE / "README.md": (
        "older",
        "real-world",
        "artificial",
        "vision",
        "ground",
        "choice",
        "thresholds",
        "threshold-rule",
        "lambda",
        "ranks",
        "claims",
    ),
    DOCS / "classifier.md": ("ground-summary",),
    DOCS / "vision.md": ("vision", "vision-paper", "vision-quick", "head-choice"),
    DOCS / "audit.md": ("audit", "audit-noise", "audit-deleted", "audit-votes", "audit-missing", "audit-review"),
}
TITLES = {"real-world": "Real candidates", "artificial": "Artificial candidates"}


def parts(numbers: Numbers) -> dict[str, str]:
    """The generated parts of all pages by their names."""
    shown = sections(numbers)
    ours = own_means(numbers)

    def dated(experiment: str, table: str) -> str:
        return f"{table}\n\n{older(numbers, [experiment])}".rstrip()

    return {
        "older": older(numbers, ("real-world", "artificial", "vision", GROUND, "lambda")),
        **{name: markdown_tables(next(t for t in shown[name].tables if t.compared)) for name in TITLES},
        "vision": dated("vision", vision_table(ours, "vision")),
        "vision-paper": dated("vision-paper", vision_table(ours, "vision-paper")),
        "vision-quick": dated("vision-quick", vision_table(ours, "vision-quick")),
        "ground": ground_tables(numbers),
        "ground-summary": dated(GROUND, ground_summary(numbers)),
        "lambda": lambda_table(ours),
        "ranks": _ranks_table(ours),
        "claims": _claims_table(),
        "choice": choice_table(HERE / "ground_choice.csv"),
        "head-choice": head_table(HERE / "head_choice.csv"),
        "thresholds": threshold_table(HERE / "threshold_choice.csv"),
        "threshold-rule": rule_table(HERE / "threshold_choice.csv"),
        **audit_parts(HERE / "audit.csv"),
        **further_parts(HERE),
    }


def own_means(numbers: Numbers) -> list[Mean]:
    return [mean for kept in numbers.values() for mean in kept.means.values()]


def not_run(experiment: str) -> str:
    command = f"propml benchmark run {experiment} --out RESULTS"
    return f"Not run with this version: `{command}`, then `python paper/regenerate.py --add RESULTS`."


def pages(numbers: Numbers) -> dict[Path, str]:
    """Every page as it should be."""
    generated = parts(numbers)
    return {
        page: regenerated(page.read_text(encoding="utf-8"), {name: generated[name] for name in names}, page.name)
        for page, names in PAGES.items()
    }


def regenerated(text: str, generated: Mapping[str, str], page: str) -> str:
    """A page with every generated part as it should be."""
    for name, part in generated.items():
        start, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise ValueError(f"{page} needs {start} and {end} once each, around what is generated")
        text = re.sub(f"{start}.*?{end}", lambda _, new=f"{start}\n\n{part}\n\n{end}": new, text, flags=re.DOTALL)
    return text


# -- images and λ ----------------------------------------------------------------------------------------------------


def vision_table(ours: Sequence[Mean], experiment: str) -> str:
    """mAP, a row per method and a column per flip rate; in brackets the paper's."""
    own = [row for row in ours if (row.experiment, row.metric) == (experiment, "mAP")]
    if not own:
        return not_run(experiment)
    paper = {(row.setting, row.method): row.mean for row in load_published("vision") if row.metric == "mAP"}
    entries: dict[str, dict[Any, str]] = {}
    settings = sorted({row.setting for row in own}, key=lambda setting: noise_order(setting.noise))
    for setting in settings:
        here = {row.method: row for row in own if row.setting == setting}
        best = marks({name: row.mean for name, row in here.items()}, higher_is_better=True)
        for name, row in here.items():
            text = f"**{row.mean:.1f}**" if best.get(name) == "best" else f"{row.mean:.1f}"
            text += "" if isnan(row.std) else f" ± {row.std:.1f}"
            beside = paper.get((setting, name)) if experiment == "vision" else None
            entries.setdefault(name, {})[setting] = text if beside is None else f"{text} ({number(beside)})"
    columns = ["mAP", *(f"q = {setting.noise.title}" for setting in settings if setting.noise)]
    rows = [[escaped(name), *(cells.get(each, "") for each in settings)] for name, cells in entries.items()]
    return markdown_table(columns, rows)


def lambda_rows(ours: Sequence[Mean]) -> list[Mean]:
    """The kept means by their λ, in which the method's name ends."""
    own = [row for row in ours if row.experiment == "lambda" and row.metric in TABULAR_METRICS]
    return [row._replace(method=row.method.partition("λ=")[2]) for row in own]


def lambda_table(ours: Sequence[Mean]) -> str:
    """Five metrics, a row per dataset and λ; then how far they move, in words, and the figure."""
    means = lambda_rows(ours)
    if not means:
        return not_run("lambda")
    values = {(row.setting, row.method, row.metric): row.mean for row in means}
    rows = [
        [dataset_title(setting.dataset), lam, *(number(values[setting, lam, name]) for name in TABULAR_METRICS)]
        for setting in order_settings(row.setting for row in means)
        for lam in sorted({row.method for row in means if row.setting == setting}, key=float)
    ]
    table = markdown_table(["", "λ", *(metric_of(name).title for name in TABULAR_METRICS)], rows)
    told = "\n".join(f"* {sentence}" for sentence in lambda_sentences(means))
    return f"{table}\n\n{told}\n\n[![Metrics against λ](results/lambda-metrics.svg)](results/lambda-metrics.svg)"


# -- the proving ground ----------------------------------------------------------------------------------------------


def ground_means(numbers: Numbers) -> dict[str, dict[str, dict[str, float]]]:
    """By metric, dataset and method: means over the noises with which all methods ran that ran on the dataset."""
    own = {place: kept for place, kept in numbers.items() if place.experiment == GROUND}
    found: dict[str, dict[str, dict[str, float]]] = {metric: {} for metric in GROUND_METRICS}
    for dataset in dict.fromkeys(setting.dataset for setting in order_settings(place.setting for place in own)):
        here = {(p.method, p.setting): kept.means for p, kept in own.items() if p.setting.dataset == dataset}
        methods = [name for name in GROUND_METHODS if any(method == name for method, _ in here)]
        shared = [at for at in {at for _, at in here} if all((name, at) in here for name in methods)]
        for metric in GROUND_METRICS if shared else ():
            found[metric][dataset] = {
                name: fmean(here[name, setting][metric].mean for setting in shared) for name in methods
            }
    return found


def ground_tables(numbers: Numbers) -> str:
    """A table per metric, a row per dataset; then the default against each of the others."""
    found = ground_means(numbers)
    if not found[GROUND_METRICS[0]]:
        return not_run(GROUND)
    tables = []
    for metric, by_dataset in found.items():
        rows = [
            [dataset_title(dataset), *(number(values[name]) if name in values else "" for name in GROUND_METHODS)]
            for dataset, values in by_dataset.items()
        ]
        tables.append(markdown_table([metric_of(metric).title.lower(), *GROUND_METHODS], rows))
    return "\n\n".join([*tables, ground_summary(numbers)])


def ground_summary(numbers: Numbers) -> str:
    """The default against each of the others, dataset by dataset, with the sign test."""
    found = ground_means(numbers)
    if not found[GROUND_METRICS[0]]:
        return not_run(GROUND)
    default, *others = GROUND_METHODS
    rows = []
    for other in others:
        both = [name for name, values in found["average_precision"].items() if {default, other} <= values.keys()]
        if both:
            gains, of1 = ([found[m][name][default] - found[m][name][other] for name in both] for m in GROUND_METRICS)
            won, lost = (sum(sign * gain > 0 for gain in gains) for sign in (1, -1))
            p = binomtest(won, won + lost).pvalue if won + lost else 1.0
            rows.append([other, signed(fmean(gains)), signed(fmean(of1)), str(won), str(lost), f"{p:.2g}"])
    columns = ["average precision", "OF1", "datasets won", "lost", "p of the sign test"]
    return markdown_table([f"{default} minus …", *columns], rows)


# -- mean ranks, figures, claims -------------------------------------------------------------------------------------


def rank_comparisons(means: Sequence[Mean]) -> dict[str, dict[str, Comparison]]:
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


def figures(numbers: Numbers) -> dict[str, Any]:
    """The diagrams by the names of their files: mean ranks and images against noise, the paper's and ours; λ."""
    ours = own_means(numbers)
    drawn = {
        f"{experiment}-ranks-{name}.svg": critical_difference_stack(
            {title: each for title, each in comparisons.items() if title.endswith(source)}
        )[0]
        for experiment, comparisons in rank_comparisons(ours).items()
        for name, source in (("paper", "the paper's numbers"), ("ours", "ours"))
    }
    vision = [row for row in ours if row.experiment == "vision"]
    drawn["vision-noise-paper.svg"] = noise_curves(load_published("vision"), "mAP")[0]
    if vision:
        drawn["vision-noise-ours.svg"] = noise_curves(vision, "mAP")[0]
    if rows := lambda_rows(ours):
        drawn["lambda-metrics.svg"] = lambda_metrics(rows)[0]
    return drawn


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


# -- the command -----------------------------------------------------------------------------------------------------


def write(numbers: Numbers, to: Path) -> Numbers:
    """The CSV files and the diagrams; returns the numbers as the files have them, with two digits."""
    for name, text in files(numbers).items():
        (to / name).write_text(text, encoding="utf-8")
    kept = load_numbers(to)
    for name, figure in figures(kept).items():
        save(figure, to / name)
    return kept


def differences(numbers: Numbers) -> list[str]:
    """What is not as the numbers say, by name."""
    old = [page.name for page, text in pages(numbers).items() if page.read_text(encoding="utf-8") != text]
    with tempfile.TemporaryDirectory() as folder:
        write(numbers, Path(folder))
        made, there = ({path.name: path.read_bytes() for path in at.iterdir()} for at in (Path(folder), RESULTS))
    return [*old, *(name for name in sorted({*made, *there}) if made.get(name) != there.get(name))]


def add(numbers: Numbers, folders: Sequence[Path], some_seeds: bool = False) -> None:
    """Take new runs in, and say what was left out."""
    taken = 0
    for folder in folders:
        new, partial = of_runs(folder, some_seeds)
        numbers |= new
        taken += len(new)
        print(f"{folder}: {len(new)} taken")
        if partial:
            names = [f"{each.experiment} {setting_name(*each.setting)} {each.method}" for each in partial]
            print(f"not taken, for want of folds or seeds of the experiment as it is today: {listed(names)}")
    if folders and not taken:
        sys.exit("nothing was taken in")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="RESULTS", help="folders of new runs")
    parser.add_argument("--some-seeds", action="store_true", help="with --add: also where seeds are missing")
    options = parser.parse_args(arguments)
    numbers = load_numbers(RESULTS)
    if options.check:
        old = differences(numbers)
        sys.exit(f"not what the numbers say: {', '.join(old)}; run this without --check" if old else 0)
    add(numbers, options.add, options.some_seeds)
    for page, text in pages(write(numbers, RESULTS)).items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
