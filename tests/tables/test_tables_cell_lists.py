"""Lists in cells: whatever printed them, the same entries; and labels written back as they came."""

import csv
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from propml.tables import read_dataset, read_table, write_cleaned
from propml.tables.cell_lists import list_in, numbers_in
from propml.targets import Candidates

NAMES = ["beach", "new york", "it's", 'the "sea"', "a, b"]


def write(path, cells, name="tags"):
    """A CSV of one number and one column of given cells."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([["x", name], *([i * i, c] for i, c in enumerate(cells))])
    return path


@given(st.lists(st.text(max_size=6), max_size=5))
def test_what_python_and_json_write_is_read_back(names):
    assert list_in(repr(names)) == names
    assert list_in(json.dumps(names)) == names
    assert list_in(json.dumps(names, ensure_ascii=False)) == names
    assert list_in(repr(tuple(names))) == (names if names else [])


@given(st.lists(st.text(max_size=8), min_size=1, max_size=5).map(np.array))
def test_what_numpy_writes_is_read_back_or_refused(names):
    assert list_in(str(names)) in (names.tolist(), None)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=6))
def test_numbers_are_read_back(values):
    assert numbers_in(repr(values)) == values
    assert numbers_in(str(list(map(np.float64, values)))) == values
    assert numbers_in(json.dumps(values)) == values


@pytest.mark.parametrize(
    "inside",
    [" " * 200_000 + "'x", "1" * 200_000 + "x 'y", "a, " * 100_000 + "'b", "['" * 9999],
    ids=["blanks", "digits", "words", "nested"],
)
def test_a_long_cell_that_is_no_list_is_found_out_quickly(inside):
    assert list_in(f"[{inside}]") is None
    assert numbers_in(f"[{inside}]") is None


@pytest.mark.parametrize(
    "cells",
    [
        [str([NAMES[0], NAMES[1]]), str([NAMES[2], NAMES[3], NAMES[4]]), str([NAMES[1]])],
        [json.dumps(NAMES[:2]), json.dumps(NAMES[2:]), json.dumps(NAMES[1:2])],
        [str(np.array(NAMES[:2])), str(np.array(NAMES[2:])), str(np.array(NAMES[1:2]))],
    ],
    ids=["python", "json", "numpy"],
)
def test_a_column_of_lists_is_a_column_of_labels(tmp_path, cells):
    path = write(tmp_path / "d.csv", [*cells, ""])
    table = read_table(path, candidates="tags")
    assert table.candidates.labels == tuple(sorted(NAMES))
    assert [sorted(row) for row in table.candidates.to_lists()] == [sorted(NAMES[:2]), sorted(NAMES[2:]), [NAMES[1]]]
    data = read_dataset(path, candidates="tags", empty="drop")
    assert data.label_names == tuple(sorted(NAMES))
    assert data.candidates.to_lists() == table.candidates.to_lists()


def test_lists_without_quotes_and_of_numbers(tmp_path):
    table = read_table(write(tmp_path / "d.csv", ["[new york, sea]", "[sea]"]), candidates="tags")
    assert table.candidates.to_lists() == [["new york", "sea"], ["sea"]]
    table = read_table(write(tmp_path / "d.csv", ["[3, 14]", "[3]", "[]"]), candidates="tags")
    assert table.candidates.to_lists() == [["14", "3"], ["3"]]
    table = read_table(write(tmp_path / "d.csv", ["[PER]", "[LOC]", "[PER];[LOC]"]), candidates="tags")
    assert table.candidates.labels == ("[LOC]", "[PER]")  # names in brackets, and no lists
    table = read_table(write(tmp_path / "d.csv", ["['a', 'b']", "['a', 'b']"]), candidates="tags", sep="")
    assert table.candidates.labels == ("['a', 'b']",)  # every cell is one label, somebody said


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("['a', 'b'", r"row 1 \(line 3\), column 'tags' is \"\['a', 'b'\", expected a list of label names"),
        ("a;b", r"row 1 \(line 3\), column 'tags' is 'a;b', expected a list of label names"),
        ("[['a'], 'b']", r"row 1 \(line 3\), column 'tags' is"),
        ("['a', None]", r"row 1 \(line 3\), column 'tags' is"),
    ],
)
def test_a_cell_that_is_no_list_among_lists_is_named(tmp_path, cell, told):
    path = write(tmp_path / "d.csv", ["['a']", cell, "['b', 'c']"])
    with pytest.raises(ValueError, match=told):
        read_table(path, candidates="tags")
    with pytest.raises(ValueError, match=told):
        read_dataset(path, candidates="tags")


def test_a_list_among_cells_that_are_none_is_named(tmp_path):
    path = write(tmp_path / "d.csv", ["a;b", "b", "['a', 'b']"])
    with pytest.raises(
        ValueError, match=r"row 2 \(line 4\), column 'tags' is \"\['a', 'b'\]\", a list, and most cells"
    ):
        read_table(path, candidates="tags")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["['a', 'b']", "['b']", "['a','c']"], ["['b']", "['b']", "['a','b']"]),
        (['["a","b"]', '["b"]', '["a", "c"]'], ['["b"]', '["b"]', '["a", "b"]']),
        (["[a, b]", "[b]", "[a, c]"], ["[b]", "[b]", "[a, b]"]),
    ],
    ids=["python", "json", "bare"],
)
def test_cleaned_lists_are_lists_of_the_same_kind(tmp_path, cells, expected):
    table = read_table(write(tmp_path / "d.csv", cells), candidates="tags")
    cleaned = Candidates.from_lists([["b"], ["b"], ["a", "b"]], table.candidates.labels)
    write_cleaned(table, cleaned, tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert [row["tags"] for row in csv.DictReader(file)] == expected


def test_lists_that_cannot_be_read_are_told(tmp_path):
    path = write(tmp_path / "d.csv", ['[{"name": "a", "score": 1}]', '[{"name": "b", "score": 2}]'])
    with pytest.raises(ValueError, match=r"column 'tags' is '\[\{\"name\""):
        read_table(path, candidates="tags")
