"""Options that stand in dataclasses are the arguments of the functions that they are for."""

import inspect
from dataclasses import dataclass, fields

import typer
from typer.testing import CliRunner

from propml.cli.app import app
from propml.cli.corrupt import Settings
from propml.cli.file_options import Reading, grouped, panel, plain
from propml.corruption import CORRUPTIONS
from propml.tables.files import read_table

READING = {each.name for each in fields(Reading)}


def test_how_a_file_is_read_is_said_in_the_words_of_read_table():
    assert set(inspect.signature(read_table).parameters) >= READING


def test_every_setting_of_a_corruption_is_an_argument_of_one():
    taken = {name for function in CORRUPTIONS.values() for name in inspect.signature(function).parameters}
    assert {each.name for each in fields(Settings)} <= taken


def test_commands_that_train_have_all_options_of_reading():
    commands = {each.callback.__name__: inspect.signature(each.callback).parameters for each in app.registered_commands}
    for name in ("fit", "audit"):
        assert set(commands[name]) > READING
        assert "reading" not in commands[name]


@dataclass(frozen=True)
class Place:
    room: str = plain("The room.", default="hall", metavar="NAME")


@dataclass(frozen=True)
class Seat(Place):
    near_window: bool = plain("Beside a window.", default=False)


def told(command, *words):
    one = typer.Typer()
    one.command()(command)
    return CliRunner().invoke(one, words)


def test_options_are_described_once_in_groups_and_in_commands():
    @grouped
    def book(seat: Seat, guests: int = panel("People")("How many.", "--guests", "-g", default=2, min=1)) -> None:
        typer.echo(f"{seat} {guests}")

    assert told(book).stdout == "Seat(room='hall', near_window=False) 2\n"
    assert told(book, "--near-window", "--room", "attic", "-g", "3").stdout.startswith(
        "Seat(room='attic', near_window=True) 3"
    )
    assert told(book, "--no-near-window").exit_code == 2
    assert told(book, "--guests", "0").exit_code == 2
    shown = told(book, "--help").stdout
    assert shown.index("--near-window") < shown.index("--room") < shown.index("People") < shown.index("--guests")
