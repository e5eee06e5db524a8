"""How options are described, and those with which ``propml audit``, ``fit`` and others read a user's own files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape
from rich.table import Table

LABELS, COLUMNS, FORMAT, MODEL, ROWS = "Labels", "Columns", "File format", "Model", "Many rows"
SEP = ";"
DATA = "CSV, TSV, JSON, JSONL, Excel, Parquet, Feather, ARFF, npz, svmlight, .mat, or an export of a labelling tool"


def option(panel: str | None, text: str, *flags: str, **more: Any) -> Any:
    """An option with its help, and the panel of the help that it stands in."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **more)


def panel(name: str | None) -> Callable[..., Any]:
    """What describes options in this panel of the help, as defaults of parameters and fields, see :func:`grouped`."""

    def described(text: str, *flags: str, default: Any = None, **more: Any) -> Any:
        return field(default=default, metadata={"flags": flags, "option": partial(option, name, text, **more)})

    return described


plain = panel(None)
labels, columns, formats, model, rows = map(panel, (LABELS, COLUMNS, FORMAT, MODEL, ROWS))

# Options that several commands have.
Sep = Annotated[str, option(LABELS, "Separator between the labels of a cell; none: one label per cell.")]
LabelColumns = Annotated[
    list[str] | None, option(LABELS, "Columns of 0 and 1 instead of --candidates; patterns work: 'y_*'.", metavar="A,B")
]
Xml = Annotated[
    Path | None,
    option(LABELS, "For ARFF: the XML file that names the labels.", metavar="FILE", show_default="beside it"),
]
Ignore = Annotated[list[str] | None, option(COLUMNS, "Columns not to learn from.", metavar="A,B")]
Id = Annotated[
    str | None, option(COLUMNS, "Column of identifiers.", "--id", metavar="COLUMN", show_default="row numbers")
]
AllowOutside = Annotated[
    bool, typer.Option("--allow-outside", help="Also read images outside the folder of the table.")
]
Categorical = Annotated[
    list[str] | None, option(COLUMNS, "Columns whose numbers are codes, not quantities.", metavar="A,B")
]
Format = Annotated[
    str | None,
    option(
        FORMAT,
        "csv, jsonl, label-studio, … (docs/formats.md).",
        "--format",
        metavar="NAME",
        show_default="from the file",
    ),
]
Delimiter = Annotated[
    str | None,
    option(FORMAT, "Separator between the cells of a text table.", metavar="CHAR", show_default="comma; .tsv: tab"),
]
Seed = Annotated[int, option(MODEL, "Random seed: the same seed gives the same result.", min=0)]
Quick = Annotated[bool, option(MODEL, "One small network: a first look in seconds.", "--quick")]
Device = Annotated[str, option(MODEL, "Where networks train: cpu, cuda, cuda:1; auto: a GPU if there is one.")]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `propml fit` wrote.")]

# Options that are not called as the argument of ``read_table`` is, for messages.
OTHER_NAMES = {"id_column": "--id", "file_format": "--format"}
# What --quick makes of the classifier.
QUICK: dict[str, Any] = {"hidden": (64,), "effort": "fast"}


@dataclass(frozen=True)
class Manner:
    """How a file of new rows is written, for a saved model."""

    file_format: Format = None
    delimiter: Delimiter = None
    encoding: str | None = formats("Encoding of a text table, such as cp1252.", show_default="utf-8")
    decimal: str | None = formats(
        "Decimal sign of numbers that contain commas: , or . (the other one groups thousands).", metavar="CHAR"
    )
    missing: list[str] | None = formats(
        "Further words that mean a missing value, besides NA, n/a, null, none, -, ?.", metavar="A,B"
    )

    def options(self) -> dict[str, Any]:
        """Arguments of ``read_table``; None where nothing was said."""
        missing = None if self.missing is None else words_of(self.missing)
        return {**vars(self), "delimiter": delimiter_of(self.delimiter), "missing": missing}


@dataclass(frozen=True)
class Reading(Manner):
    """How a file is read, in every command that trains; the names are those of ``read_table``'s arguments."""

    candidates: str | None = labels(
        "Column of labels with --sep between them: beach;sunset; or of lists. In JSON a path: meta.tags.",
        metavar="COLUMN",
    )
    sep: Sep = SEP
    label_columns: LabelColumns = None
    votes: Path | None = labels(
        "Votes instead of --candidates: a table of item, annotator and label (needs --id), or a label matrix.",
        metavar="FILE",
    )
    votes_columns: str = labels(
        "Names of the item, annotator and label columns of --votes.", default="item,annotator,label", metavar="A,B,C"
    )
    min_votes: int = labels("With --votes: fewest votes that make a label a candidate.", default=1, min=1)
    min_confidence: float = labels("Ignore votes whose confidence is below this.", default=0.0, min=0, max=1)
    merge_labels: bool = labels("Merge labels that differ only in case or blanks (Cat, cat).", default=False)
    xml: Xml = None
    features: list[str] | None = columns(
        "Columns to learn from; patterns work.", metavar="A,B", show_default="all others"
    )
    ignore: Ignore = None
    id_column: Id = None
    text: str | None = columns("Column of text to turn into features.", metavar="COLUMN")
    embed: str | None = columns(
        "Embed the text: wordllama, minilm, a sentence-transformers or model2vec name or folder, or a "
        "column of numbers. auto: what ranks held-out candidates best.",
        metavar="ENCODER",
        show_default="TF-IDF of its words",
    )


READING = tuple(each.name for each in fields(Reading))


@dataclass(frozen=True)
class Running:
    """Where the work is done."""

    device: Device = "auto"
    stream: bool = rows(
        "DATA is a folder of Parquet files, or the URL of one, that need not fit into memory (docs/streaming.md).",
        default=False,
    )
    ray_address: str | None = rows(
        "Stream on the machines of this Ray cluster; local: on all cores of this one.", metavar="HOST:PORT"
    )

    def streams(self, data: str) -> bool:
        """Whether rows are to be streamed: on request, on Ray, and from a URL."""
        if not (self.stream or self.ray_address or "://" in data):
            return False
        if self.device not in ("auto", "cpu"):
            raise ValueError(f"a stream is worked on by CPUs, and --device is {self.device}; leave it out")
        return True


def grouped(command: Callable[..., None], **further: list[inspect.Parameter]) -> Callable[..., None]:
    """A command of which each parameter that is a dataclass stands for the options that are its fields.

    ``further`` has the options that its parameter ``**settings`` stands for.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}
    shown = {name: options_of(group) for name, group in groups.items()} | further
    flat = [each for one in own for each in shown.get(one.name, [_option(one.name, one.annotation, one.default)])]

    @wraps(command)
    def run(**options: Any) -> None:
        made = {
            name: group(**{each.name: options.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        command(**options, **made)

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in flat}
    return run


def options_of(group: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters, its own before those that it inherits."""
    hints = get_type_hints(group, include_extras=True)
    ordered = sorted(fields(group), key=lambda each: each.name not in group.__annotations__)
    return [_option(each.name, hints[each.name], each) for each in ordered]


def _option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """A parameter as typer wants it: what a :func:`panel` describes goes into its annotation."""
    if isinstance(default, Field):
        if about := default.metadata:
            switch = ["--" + name.replace("_", "-")] if hint is bool else []  # without a --no-…
            hint = Annotated[hint, about["option"](*(about["flags"] or switch))]
        default = default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def reading_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a command was told about its file, out of all its options: arguments of ``read_table``."""
    given = {name: options[name] for name in READING}
    return given | {
        "sep": separator(given["sep"]),
        "votes_columns": names_of(given["votes_columns"]),
        "ignore": given["ignore"] or (),
        "delimiter": delimiter_of(given["delimiter"]),
        "missing": words_of(given["missing"]),
    }


def separator(sep: str) -> str:
    """The separator that was asked for; a backslash and t are a tab, as one can type it."""
    return "" if sep.lower() == "none" else sep.replace("\\t", "\t")


def delimiter_of(text: str | None) -> str | None:
    """The delimiter that was asked for."""
    return None if text is None else text.replace("\\t", "\t")


def words_of(given: list[str] | None) -> list[str]:
    """Words, each given by itself or several separated by commas."""
    return [word for words in given or () for word in names_of(words)]


def names_of(columns: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in columns.split(",")]


def checked_device(device: str) -> str:
    """The device, if it is one and at hand."""
    from propml.devices import choose_device

    choose_device(device)
    return device


def printable(text: Any) -> str:
    """Text from a file as it may stand on a terminal: no markup, nothing that moves the cursor."""
    return escape("".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(text)))


def plain_table(*columns: str, numbers: Sequence[str] = (), space: int = 2) -> Table:
    """A table without lines, with these columns and then those of numbers."""
    table = Table(box=None, header_style="bold", padding=(0, space, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def echo_notes(notes: list[str]) -> None:
    """Sentences on what was left out or strange, on standard error."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)
