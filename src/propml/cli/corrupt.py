"""``propml corrupt``: clean labels → candidate labels, in a file, with a summary of what was really added."""

import inspect
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.table import Table

from propml.cli import file_options as opt

if TYPE_CHECKING:
    import numpy as np

    from propml.tables.files import UserTable
    from propml.targets import Candidates


of_svm = opt.panel("SVM confusions and labels of near rows (--method svm, --method neighbours)")
of_annotators = opt.panel("Simulated annotators (--method annotators)")
of_flips = opt.panel("Flips (--method flips, --method class-flips)")
of_counts = opt.panel("Random labels (--method count, --method fraction)")


@dataclass(frozen=True)
class Settings:
    """The arguments of the corruptions, each of which takes some; what is not given is as in their functions."""

    ratio: float | None = of_svm("False labels per true label; the paper has 0.5, 1 and 1.5.", show_default="1")
    rounding: Literal["paper", "exact", "stochastic"] | None = of_svm(
        "paper: ratio × true labels, rounded down in each row (with one label per row, 0.5 adds nothing); "
        "exact: the ratio is kept over the whole set; stochastic: rounded up or down at random.",
        show_default="paper; of neighbours stochastic",
    )
    rate: float | None = of_flips("Probability that a label that is not true becomes a candidate.")
    count: int | None = of_counts("count: number of labels per row, see --mode.")
    mode: Literal["fill", "add"] | None = of_counts("count: fill rows up to so many, or add them.", show_default="fill")
    fraction: float | None = of_counts("fraction: share of the labels that are not true, in each row.")
    n_annotators: int | None = of_annotators("Number of annotators, if all have the same rates.", "--annotators")
    sensitivity: list[float] | None = of_annotators("Probability of proposing a true label; once, or per annotator.")
    false_positive_rate: list[float] | None = of_annotators("The same of proposing a false label.")
    coverage: list[float] | None = of_annotators("Probability of looking at a row at all.", show_default="1")
    min_votes: int | None = of_annotators("Fewest votes that make a label a candidate.", show_default="1")


@opt.grouped
def corrupt(
    data: Annotated[
        str, typer.Argument(help="A dataset by name (scene, …), an .npz file with arrays X and truth, or your file.")
    ],
    settings: Settings,
    method: Literal["svm", "neighbours", "flips", "class-flips", "count", "fraction", "annotators"] = opt.plain(
        "svm: labels that an SVM confuses with the true ones. neighbours: labels of the nearest rows. "
        "flips: every other label with a probability. class-flips: the same, from 0 to twice the rate by label. "
        "count, fraction: random labels in a fixed number. annotators: simulated people who vote.",
        default="svm",
    ),
    seed: int = opt.plain("The same seed gives the same candidates.", default=0),
    out: Path | None = opt.plain(
        "Where to write: .npz (candidates, label_names, rows, settings) or .csv (row, candidates); your own "
        "file is written again in its format, with candidates for true labels."
    ),
    votes_out: Path | None = of_annotators("Write all votes as a .csv with item, annotator, label."),
    true_labels: str | None = opt.labels("Column of true labels in your file.", "--truth", metavar="COLUMN"),
    sep: str = opt.sep_option(),
    label_columns: list[str] | None = opt.label_columns_option(),
    ignore: list[str] | None = opt.ignore_option(),
    file_format: str | None = opt.format_option(),
    delimiter: str | None = opt.delimiter_option(),
    keep_unlabelled: bool = opt.plain("Keep rows without a true label; the paper drops them.", default=False),
    preview: bool = opt.plain("Only print what the paper's rounding reaches for 50, 100 and 150 %.", default=False),
    data_dir: Path | None = opt.plain("Folder of the datasets.", show_default="PROPML_DATA, then the user's cache"),
    jobs: int = of_svm("Labels to fit in parallel; -1: one per core.", default=-1),
    cache_dir: Path | None = of_svm("Folder for fitted probabilities.", show_default="the user's cache"),
    no_cache: bool = of_svm("Neither read nor write fitted probabilities.", default=False),
) -> None:
    """Turn clean labels into candidate labels by adding false ones.

    Examples:

    propml corrupt scene --ratio 0.5 --rounding exact --out candidates.csv

    propml corrupt my.npz --method flips --rate 0.1 --seed 3 --out candidates.npz

    propml corrupt photos.csv --truth checked --method flips --rate 0.1 --out noisy.csv

    propml corrupt digits-mosaic --method annotators --annotators 5 --sensitivity 0.8 --false-positive-rate 0.1
    """
    from propml.auditing.folder import check_not_read
    from propml.corruption import NEEDS_FEATURES, realised_levels
    from propml.corruption import corrupt as make_candidates
    from propml.corruption.files import check_output, write_candidates, write_votes
    from propml.devices import cache_dir as user_cache
    from propml.tables.files import write_cleaned

    given = {name: _one_or_many(value) for name, value in vars(settings).items()}
    reading: dict[str, Any] = {"candidates": true_labels, "label_columns": label_columns, "ignore": ignore or ()}
    reading |= {"file_format": file_format, "delimiter": opt.delimiter_of(delimiter)}
    is_own = Path(data).exists() and not data.lower().endswith(".npz")
    if not is_own and (unread := next((name for name, value in reading.items() if value), None)):
        raise ValueError(f"{_flag(unread)} is for a file of yours, and {data} is none; leave it out")

    own = {**reading, "sep": opt.separator(sep)}
    read = partial(_read_own, Path(data), own) if is_own else partial(_read, data, data_dir, keep_unlabelled)
    if preview:
        unused = {**given, "out": out, "votes_out": votes_out, "cache_dir": cache_dir}
        flags = [_flag(name) for name, value in unused.items() if value is not None]
        if flags := flags + ([] if method == "svm" else [f"--method {method}"]):
            raise ValueError(f"--preview only prints, and does nothing with {', '.join(flags)}; leave that out")
        columns = ("asked ratio", "false per true", "candidates per row", "rows untouched")
        table = Table(*columns, title=f"{data}, rounded down")
        for asked, level in realised_levels(read(False).truth).items():
            table.add_row(f"{asked:.0%}", f"{level.ratio:.3f}", f"{level.mean_size:.2f}", f"{level.untouched:.1%}")
        Console(soft_wrap=True).print(table, markup=False)
        return
    chosen = _settings_of(method, given)
    if out is not None and not is_own:
        check_output(out)
    if votes_out is not None:
        if method != "annotators":
            raise ValueError(f"--votes-out belongs to --method annotators, and the method is {method}; leave it out")
        if votes_out.suffix != ".csv" or not votes_out.parent.is_dir():
            raise ValueError(f"votes cannot be written to {votes_out}; give a file in .csv in an existing folder")
        if out is not None and votes_out.resolve() == out.resolve():
            raise ValueError(f"--votes-out is {votes_out}, which is also --out; choose another --votes-out")
    check_not_read([path for path in (out, votes_out) if path is not None], [data])
    needs_features = method in NEEDS_FEATURES
    clean = read(needs_features)
    if needs_features and clean.X is None:
        raise ValueError(f"--method {method} looks at the features, and {data} holds none; choose another method")
    how: dict[str, Any] = {"labels": clean.label_names, "random_state": seed, **chosen}
    if method == "svm":
        folder = None if no_cache else cache_dir or user_cache() / "corruption"
        how |= {"n_jobs": jobs, "cache_dir": folder, "verbose": True}
    candidates = make_candidates(method, clean.X, clean.truth, **how)
    if out is not None and clean.table is not None:
        write_cleaned(clean.table, candidates, out)
    elif out is not None:
        write_candidates(out, candidates, clean.rows, {"data": data, "method": method, "seed": seed, **chosen})
    if votes_out is not None:
        write_votes(votes_out, candidates, clean.rows)
    _print_summary(data, clean, candidates, out)


class _Clean(NamedTuple):
    """Clean data, and where its rows stood in the file."""

    X: Any
    truth: "np.ndarray"
    label_names: tuple[Any, ...] | None
    rows: "np.ndarray"
    dropped: int = 0
    table: "UserTable | None" = None


def _read_own(path: Path, reading: dict[str, Any], with_features: bool) -> _Clean:
    """A user's file, whose true labels are read as candidates are."""
    from propml.messages import called_as_options
    from propml.tables import learn_features, read_table

    with called_as_options({**opt.OTHER_NAMES, "candidates": "--truth"}):
        table = read_table(path, **reading)
        X = learn_features(table).X if with_features else None
    opt.echo_notes(table.notes)
    truth = (table.candidates.states > 0).toarray().astype("uint8")
    return _Clean(X, truth, table.candidates.labels, table.rows, table.source.n_rows - len(truth), table)


def _read(data: str, data_dir: Path | None, keep_unlabelled: bool, with_features: bool) -> _Clean:
    """A dataset by name, or arrays."""
    import numpy as np

    from propml.corruption.files import read_clean
    from propml.datasets import load

    if data.lower().endswith(".npz"):
        X, truth, names = read_clean(data)
    else:
        loaded = load(data, data_dir=data_dir)
        if loaded.truth is None:
            raise ValueError(f"{data} has no true labels, so there is nothing to corrupt")
        X, truth, names = getattr(loaded, "X", None), loaded.truth, loaded.label_names
    if X is not None and X.shape[:1] != truth.shape[:1]:
        raise ValueError(f"X of {data} has shape {X.shape} and its truth {truth.shape}; give one row for each row of X")
    rows = np.arange(len(truth)) if keep_unlabelled else np.flatnonzero(truth.any(axis=1))
    if not rows.size:
        raise ValueError("no row has a true label, so there is nothing to corrupt")
    X = X[rows] if with_features and X is not None else None
    return _Clean(X, truth[rows], names, rows, dropped=len(truth) - len(rows))


def _settings_of(method: str, given: dict[str, Any]) -> dict[str, Any]:
    """What a corruption is called with: what was given, and the defaults of its function."""
    from propml.corruption import CORRUPTIONS

    takes = {name: inspect.signature(function).parameters for name, function in CORRUPTIONS.items()}
    chosen = {}
    for name, value in given.items():
        if name in takes[method]:
            default = takes[method][name].default
            chosen[name] = value if value is not None else 1.0 if name == "ratio" else default
            if chosen[name] is inspect.Parameter.empty:
                raise ValueError(f"--method {method} needs {_flag(name)}; see propml corrupt --help")
        elif value is not None:
            owner = next(owner for owner, parameters in takes.items() if name in parameters)
            raise ValueError(f"{_flag(name)} belongs to --method {owner}, and the method is {method}; leave it out")
    return chosen


def _flag(name: str) -> str:
    others = {"n_annotators": "--annotators", "candidates": "--truth", **opt.OTHER_NAMES}
    return others.get(name, f"--{name.replace('_', '-')}")


def _one_or_many(value: Any) -> Any:
    """A list that was given once is the same for all annotators; an empty one was not given."""
    if not isinstance(value, list):
        return value
    return value[0] if len(value) == 1 else value or None


def _print_summary(data: str, clean: _Clean, candidates: "Candidates", out: Path | None) -> None:
    from propml.corruption import realised_ratio

    level, bare = realised_ratio(clean.truth, candidates), int((candidates.sizes() == 0).sum())
    told = {
        "rows × labels": f"{candidates.shape[0]} × {candidates.shape[1]}",
        "rows dropped (no true label)": str(clean.dropped) if clean.dropped else "",
        "false labels per true label": f"{level.ratio:.3f}",
        "candidates per row": f"{level.mean_size:.2f}",
        "rows left as they were": f"{level.untouched:.1%}",
        "true labels lost": f"{level.missed:.1%}" if level.missed else "",
        "rows without a candidate": str(bare) if bare else "",
        "written to": "" if out is None else str(out),
    }
    table = Table(title=f"candidates of {data}", show_header=False, title_justify="left")
    for what, value in told.items():
        if value:
            table.add_row(what, value)
    Console(soft_wrap=True).print(table, markup=False)
