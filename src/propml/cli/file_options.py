"""The options with which ``propml audit``, ``fit``, ``predict``, ``evaluate`` and ``tune`` read a user's own files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

LABELS, COLUMNS, FORMAT, MODEL, ROWS = "Labels", "Columns", "File format", "Model", "Many rows"
SEP = ";"

Candidates = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=LABELS,
        metavar="COLUMN",
        help="Column of labels with --sep between them: beach;sunset; or of lists. In JSON a path: meta.tags.",
    ),
]
Sep = Annotated[
    str, typer.Option(rich_help_panel=LABELS, help="Separator between the labels of a cell; none: one label per cell.")
]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=LABELS, metavar="A,B", help="Columns of 0 and 1 instead; patterns work: 'y_*'."),
]
Votes = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=LABELS,
        metavar="FILE",
        help="Who proposed what instead: a table of item, annotator and label (needs --id), or a label matrix.",
    ),
]
VotesColumns = Annotated[
    str, typer.Option(rich_help_panel=LABELS, metavar="A,B,C", help="Names of these three columns in that table.")
]
MinVotes = Annotated[
    int, typer.Option(rich_help_panel=LABELS, min=1, help="With --votes: how many votes make a label a candidate.")
]
MinConfidence = Annotated[
    float,
    typer.Option(rich_help_panel=LABELS, min=0, max=1, help="Ignore votes whose confidence is below this."),
]
MergeLabels = Annotated[
    bool,
    typer.Option(
        "--merge-labels", rich_help_panel=LABELS, help="Merge labels that differ only in case or blanks (Cat, cat)."
    ),
]
Xml = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=LABELS, metavar="FILE", help="ARFF: the file that names the labels.", show_default="beside it"
    ),
]
Features = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=COLUMNS, metavar="A,B", help="Columns to learn from; patterns work.", show_default="all others"
    ),
]
Ignore = Annotated[
    list[str] | None, typer.Option(rich_help_panel=COLUMNS, metavar="A,B", help="Columns not to learn from.")
]
Id = Annotated[
    str | None,
    typer.Option("--id", rich_help_panel=COLUMNS, metavar="COLUMN", help="Identifiers.", show_default="row numbers"),
]
Text = Annotated[
    str | None, typer.Option(rich_help_panel=COLUMNS, metavar="COLUMN", help="Column of text, turned into features.")
]
Embed = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=COLUMNS,
        metavar="ENCODER",
        help="Embed the text: wordllama, minilm, a sentence-transformers or model2vec name or folder, or a "
        "column of numbers. auto: what ranks held-out candidates best.",
        show_default="TF-IDF of its words",
    ),
]
AllowOutside = Annotated[
    bool,
    typer.Option("--allow-outside", help="Also read images outside the folder of the table."),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=COLUMNS, metavar="A,B", help="Columns whose numbers are codes, not quantities."),
]
DATA = "CSV, TSV, JSON, JSONL, Excel, Parquet, Feather, ARFF, npz, svmlight, .mat, or an export of a labelling tool"
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        rich_help_panel=FORMAT,
        metavar="NAME",
        help="csv, jsonl, label-studio, … (docs/formats.md).",
        show_default="from the file",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=FORMAT,
        metavar="CHAR",
        help="Separator between the cells of a text table.",
        show_default="comma; .tsv: tab",
    ),
]
Encoding = Annotated[
    str | None, typer.Option(rich_help_panel=FORMAT, help="Of a text table, such as cp1252.", show_default="utf-8")
]
Decimal = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=FORMAT,
        metavar="CHAR",
        help="Decimal sign of numbers that contain commas: , or . (the other one groups thousands).",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        rich_help_panel=FORMAT, metavar="A,B", help="More words for a missing value, besides NA, n/a, null, none, -, ?."
    ),
]
Seed = Annotated[int, typer.Option(rich_help_panel=MODEL, min=0, help="The same seed gives the same result.")]
Quick = Annotated[
    bool, typer.Option("--quick", rich_help_panel=MODEL, help="One small network: a first look in seconds.")
]
Device = Annotated[
    str,
    typer.Option(rich_help_panel=MODEL, help="Where networks train: cpu, cuda, cuda:1; auto: a GPU if there is one."),
]
Stream = Annotated[
    bool,
    typer.Option(
        "--stream",
        rich_help_panel=ROWS,
        help="DATA is a folder of Parquet files, or the URL of one, that need not fit into memory (docs/streaming.md).",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=ROWS,
        metavar="HOST:PORT",
        help="Stream on the machines of this Ray cluster; local: on all cores of this one.",
    ),
]
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `propml fit` wrote.")]

# Options that are not called as the argument of ``read_table`` is, for messages.
OTHER_NAMES = {"id_column": "--id", "file_format": "--format"}
# What --quick makes of the classifier.
QUICK: dict[str, Any] = {"hidden": (64,), "effort": "fast"}


# Options that say how a file is read, in every command that trains; their names are those of
# propml.tables.files.read_table's arguments.
READING = (
    *("candidates", "sep", "label_columns", "votes", "votes_columns", "min_votes", "min_confidence", "merge_labels"),
    *("xml", "features", "ignore", "id_column", "text", "embed", "delimiter", "encoding", "decimal", "missing"),
    "file_format",
)


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


def streams(data: str, stream: bool, ray_address: str | None, device: str = "auto") -> bool:
    """Whether rows are to be streamed: on request, on Ray, and from a URL."""
    if not (stream or ray_address or "://" in data):
        return False
    if device not in ("auto", "cpu"):
        raise ValueError(f"a stream is worked on by CPUs, and --device is {device}; leave it out")
    return True


def checked_device(device: str) -> str:
    """The device, if it is one and at hand."""
    from propml.devices import choose_device

    choose_device(device)
    return device


def printable(text: Any) -> str:
    """Text from a file as it may stand on a terminal: no markup, nothing that moves the cursor."""
    from rich.markup import escape

    return escape("".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(text)))


def echo_notes(notes: list[str]) -> None:
    """Sentences on what was left out or strange, on standard error."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)
