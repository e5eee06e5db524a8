"""The root of the command line: every group of commands is attached here."""

import typer

app = typer.Typer(
    name="propml",
    help="Learn from candidate labels: sets of which only some labels are true.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    add_completion=False,
)
