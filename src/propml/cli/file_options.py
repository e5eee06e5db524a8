"""How options are described, and those with which ``propml audit``, ``fit`` and others read a user's own files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from rich.markup import escape
from rich.table import Column, Table

SEP = ";"
DATA = "CSV, TSV, JSON, JSONL, Excel, Parquet, Feather, ARFF, npz, svmlight, .mat, or an export of a labelling tool"


def group_of_commands(**about: Any) -> typer.Typer:
    """Commands below one name, such as ``propml tune``."""
    return typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich", **about)


def panel(name: str | None) -> Callable[..., Any]:
    """What describes options in this panel of the help, as defaults of parameters and fields, see :func:`grouped`.

    An option whose default is ``...`` must be given.
    """

    def described(text: str, *flags: str, default: Any = None, **more: Any) -> Any:
        about = {"help": text, "rich_help_panel": name, **more}
        return field(default=default, metadata={"flags": flags, "about": about})

    return described


plain = panel(None)
labels, columns, formats, model, rows = map(panel, ("Labels", "Columns", "File format", "Model", "Many rows"))

# Options that several commands have.
sep_option = partial(labels, "Separator between the labels of a cell; none: one label per cell.", default=SEP)
label_columns_option = partial(labels, "Columns of 0/1 instead of --candidates; patterns work: 'y_*'.", metavar="A,B")
xml_option = partial(labels, "For ARFF: the XML file that names the labels.", metavar="FILE", show_default="beside it")
ignore_option = partial(columns, "Columns not to learn from.", metavar="A,B")
id_option = partial(columns, "Column of identifiers.", "--id", metavar="COLUMN", show_default="row numbers")
allow_outside_option = partial(plain, "Also read images outside the folder of the table.", default=False)
categorical_option = partial(columns, "Columns whose numbers are codes, not quantities.", metavar="A,B")
format_option = partial(
    formats, "csv, jsonl, label-studio, … (docs/formats.md).", "--format", metavar="NAME", show_default="from the file"
)
delimiter_option = partial(formats, "Separator between cells.", metavar="CHAR", show_default="comma; .tsv: tab")
seed_option = partial(model, "Random seed: the same seed gives the same result.", default=0, min=0)
quick_option = partial(model, "One small network: a first look in seconds.", default=False)
device_option = partial(model, "Where networks train: cpu, cuda, cuda:1; auto: a GPU if there is one.", default="auto")
ModelFolder = Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `propml fit` wrote.")]

# Options that are not called as the argument of ``read_table`` is, for messages.
OTHER_NAMES = {"id_column": "--id", "file_format": "--format"}
# What --quick makes of the classifier.
QUICK: dict[str, Any] = {"hidden": (64,), "effort": "fast"}


@dataclass(frozen=True)
class Manner:
    """How a file of new rows is written, for a saved model."""

    file_format: str | None = format_option()
    delimiter: str | None = delimiter_option()
    encoding: str | None = formats("Encoding of a text table, such as cp1252.", show_default="utf-8")
    decimal: str | None = formats("Decimal sign: , or . (the other one groups thousands).", metavar="CHAR")
    missing: list[str] | None = formats("Further missing values, besides NA, n/a, null, none, -, ?.", metavar="A,B")

    def options(self) -> dict[str, Any]:
        """Arguments of ``read_table``; None where nothing was said."""
        missing = None if self.missing is None else [word for words in self.missing for word in names_of(words)]
        return {**vars(self), "delimiter": delimiter_of(self.delimiter), "missing": missing}


@dataclass(frozen=True)
class Reading(Manner):
    """How a file is read, in every command that trains; the names are those of ``read_table``'s arguments."""

    candidates: str | None = labels(
        "Column of labels with --sep between them (beach;sunset), or of lists; JSON: a path, a.tags.", metavar="COLUMN"
    )
    sep: str = sep_option()
    label_columns: list[str] | None = label_columns_option()
    votes: Path | None = labels(
        "Votes instead of --candidates: item, annotator, label (needs --id), or a label matrix.", metavar="FILE"
    )
    votes_columns: str = labels("Names of the columns of --votes.", default="item,annotator,label", metavar="A,B,C")
    min_votes: int = labels("With --votes: fewest votes that make a label a candidate.", default=1, min=1)
    min_confidence: float = labels("Ignore votes whose confidence is below this.", default=0.0, min=0, max=1)
    merge_labels: bool = labels("Merge labels that differ only in case or blanks (Cat, cat).", default=False)
    xml: Path | None = xml_option()
    features: list[str] | None = columns("Learn from these; patterns work.", metavar="A,B", show_default="all others")
    ignore: list[str] | None = ignore_option()
    id_column: str | None = id_option()
    text: str | None = columns("Column of text to turn into features.", metavar="COLUMN")
    embed: str | None = columns(
        "Embed the text: wordllama, minilm, a sentence-transformers or model2vec name or folder, or a "
        "column of numbers. auto: what ranks held-out candidates best.",
        metavar="ENCODER",
        show_default="TF-IDF of its words",
    )

    def options(self) -> dict[str, Any]:
        """Arguments of ``read_table``."""
        told = super().options()
        lists = {"ignore": self.ignore or (), "missing": told["missing"] or []}
        return {**told, **lists, "sep": separator(self.sep), "votes_columns": names_of(self.votes_columns)}


@dataclass(frozen=True)
class Running:
    """Where the work is done."""

    device: str = device_option()
    stream: bool = rows(
        "DATA: a folder or URL of Parquet files, larger than memory (docs/streaming.md).", default=False
    )
    ray_address: str | None = rows("Stream on this Ray cluster; local: on all cores here.", metavar="HOST:PORT")

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
    shown = {name: _options(group) for name, group in groups.items()} | further
    flat = [each for one in own for each in shown.get(one.name, [_option(one.name, one.annotation, one.default)])]

    @wraps(command)
    def run(**given: Any) -> None:
        options = {each.name: each.default for each in flat} | given
        for name, group in groups.items():
            options[name] = group(**{each.name: options.pop(each.name) for each in fields(group)})
        command(**options)

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in flat}
    return run


def _options(group: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters, its own before those that it inherits."""
    hints = get_type_hints(group, include_extras=True)
    ordered = sorted(fields(group), key=lambda each: each.name not in group.__annotations__)
    return [_option(each.name, hints[each.name], each) for each in ordered]


def _option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """A parameter as typer wants it: what a :func:`panel` describes goes into its annotation."""
    if isinstance(default, Field):
        switch = ["--" + name.replace("_", "-")] if hint is bool else []  # without a --no-…
        hint = Annotated[hint, typer.Option(*(default.metadata["flags"] or switch), **default.metadata["about"])]
        default = inspect.Parameter.empty if default.default is ... else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def separator(sep: str) -> str:
    """The separator that was asked for; a backslash and t are a tab, as one can type it."""
    return "" if sep.lower() == "none" else sep.replace("\\t", "\t")


def delimiter_of(text: str | None) -> str | None:
    """The delimiter that was asked for."""
    return None if text is None else text.replace("\\t", "\t")


def names_of(columns: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in columns.split(",")]


def checked_device(device: str) -> str:
    """The device, if it is one and at hand."""
    from propml.devices import choose_device

    choose_device(device)
    return device


def plain_text(text: Any) -> str:
    """Text from a file as it may stand on a terminal: nothing in it moves the cursor."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(text))


def printable(text: Any) -> str:
    """The same for rich, to which it is no markup."""
    return escape(plain_text(text))


def plain_table(*columns: str | Column, numbers: Sequence[str] = (), space: int = 2) -> Table:
    """A table without lines, with these columns and then those of numbers."""
    right = (Column(name, justify="right", no_wrap=True) for name in numbers)
    return Table(*columns, *right, box=None, header_style="bold", padding=(0, space, 0, 0), pad_edge=False)


def echo_notes(notes: list[str]) -> None:
    """Sentences on what was left out or strange, on standard error."""
    for note in notes:
        typer.echo(f"note: {note}", err=True)
