"""Options that stand in dataclasses are the arguments of the functions that they are for."""

import inspect
from dataclasses import fields

from propml.cli.app import app
from propml.cli.corrupt import Settings
from propml.cli.file_options import READING
from propml.corruption import CORRUPTIONS
from propml.tables.files import read_table


def test_how_a_file_is_read_is_said_in_the_words_of_read_table():
    assert set(READING) <= set(inspect.signature(read_table).parameters)


def test_every_setting_of_a_corruption_is_an_argument_of_one():
    taken = {name for function in CORRUPTIONS.values() for name in inspect.signature(function).parameters}
    assert {each.name for each in fields(Settings)} <= taken


def test_commands_that_train_have_all_options_of_reading():
    commands = {each.callback.__name__: inspect.signature(each.callback).parameters for each in app.registered_commands}
    for name in ("fit", "audit"):
        assert set(READING) < set(commands[name])
        assert "reading" not in commands[name]
