"""Files: what is written can be read with NumPy and csv alone."""

import csv
import json

import numpy as np
import pytest

from propml.corruption import simulated_annotators
from propml.corruption.files import check_output, read_clean, write_candidates, write_votes
from propml.file_errors import FileError
from propml.targets import Candidates

CANDIDATES = Candidates.from_matrix([[1, 0, 1], [0, 1, 0]], ["cat", "dog", "ünï, fish"])
ROWS = np.array([4, 7])


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_npz_holds_everything_without_pickle(tmp_path):
    write_candidates(tmp_path / "c.npz", CANDIDATES, ROWS, {"method": "flips", "rate": 0.1, "seed": 3})
    with np.load(tmp_path / "c.npz", allow_pickle=False) as stored:
        assert stored["candidates"].tolist() == [[1, 0, 1], [0, 1, 0]]
        assert stored["label_names"].tolist() == ["cat", "dog", "ünï, fish"]
        assert stored["rows"].tolist() == [4, 7]
        assert int(stored["seed"]) == 3
        assert json.loads(str(stored["settings"])) == {"method": "flips", "rate": 0.1, "seed": 3}
        assert "votes" not in stored


def test_csv_has_one_line_per_row(tmp_path):
    write_candidates(tmp_path / "c.csv", CANDIDATES, ROWS, {})
    assert table(tmp_path / "c.csv") == [["row", "candidates"], ["4", "cat;ünï, fish"], ["7", "dog"]]


def test_votes_are_kept_in_both_files(tmp_path):
    voted = simulated_annotators([[1, 0], [0, 0]], [1, 1], 0, labels=["cat", "dog"])
    write_candidates(tmp_path / "c.npz", voted, ROWS, {"seed": 0})
    write_votes(tmp_path / "v.csv", voted, ROWS)
    with np.load(tmp_path / "c.npz") as stored:
        assert stored["votes"].tolist() == [[2, 0], [0, 0]]
    assert table(tmp_path / "v.csv") == [
        ["item", "annotator", "label"],
        ["4", "annotator-1", "cat"],
        ["4", "annotator-2", "cat"],
        ["7", "annotator-1", ""],
        ["7", "annotator-2", ""],
    ]


def test_no_spreadsheet_takes_a_label_for_a_formula(tmp_path):
    voted = simulated_annotators([[1, 1], [0, 1]], [1], 0, labels=["=1+1", "-2"])
    write_candidates(tmp_path / "c.csv", voted, ROWS, {})
    write_votes(tmp_path / "v.csv", voted, ROWS)
    assert table(tmp_path / "c.csv")[1:] == [["4", "'=1+1;-2"], ["7", "-2"]]
    assert {label for _, _, label in table(tmp_path / "v.csv")[1:]} == {"'=1+1", "-2"}


@pytest.mark.parametrize(
    ("name", "write"), [("c.npz", write_candidates), ("c.csv", write_candidates), ("v.csv", write_votes)]
)
def test_a_write_that_fails_leaves_the_earlier_file(tmp_path, monkeypatch, name, write):
    def full_disk(*_):
        raise OSError("no space left")

    voted = simulated_annotators([[1, 0], [0, 1]], [1], 0)
    (tmp_path / name).write_text("precious")
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        write(tmp_path / name, voted, ROWS, *([{}] if write is write_candidates else []))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "precious"


def test_suffixes_may_be_in_capitals(tmp_path):
    write_candidates(tmp_path / "C.NPZ", CANDIDATES, ROWS, {})
    write_candidates(tmp_path / "C.CSV", CANDIDATES, ROWS, {})
    assert {path.name for path in tmp_path.iterdir()} == {"C.NPZ", "C.CSV"}
    assert len(table(tmp_path / "C.CSV")) == 3


def test_rows_that_nobody_looked_at_are_not_in_the_csv(tmp_path):
    partly = Candidates.from_matrix([[1, 0], [-1, -1]])
    write_candidates(tmp_path / "c.csv", partly, ROWS, {})
    assert table(tmp_path / "c.csv") == [["row", "candidates"], ["4", "0"]]


def test_a_label_that_holds_the_separator_is_refused_in_csv(tmp_path):
    with pytest.raises(ValueError, match=r"'a;b' contains ';'.*write an \.npz"):
        write_candidates(tmp_path / "c.csv", Candidates.from_matrix([[1, 0]], ["a;b", "c"]), ROWS[:1], {})


def test_outputs_are_checked_beforehand(tmp_path):
    with pytest.raises(ValueError, match=r"ends in '\.txt'"):
        check_output(tmp_path / "c.txt")
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        check_output(tmp_path / "nowhere" / "c.csv")


def test_clean_files_are_read_with_or_without_names(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.eye(2), truth=np.eye(2), label_names=np.array(["cat", "dog"]))
    assert read_clean(tmp_path / "a.npz")[2] == ("cat", "dog")
    np.savez(tmp_path / "b.npz", truth=np.eye(2))
    X, _, label_names = read_clean(tmp_path / "b.npz")
    assert X is None
    assert label_names is None


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"truth": np.eye(2), "label_names": np.array("a")},
            r"label_names has shape \(\), expected one name for each of 2",
        ),
        ({"truth": np.eye(2), "label_names": np.array(["a"])}, r"label_names has shape \(1,\)"),
        ({"truth": np.array(1)}, r"truth has shape \(\) and type int64"),
        ({"truth": np.array([["a"]])}, "type <U1"),
        ({"truth": np.empty((0, 2**50))}, "expected 0/1 of shape"),
    ],
)
def test_arrays_that_are_no_labels_are_told_with_the_name_of_the_file(tmp_path, arrays, message):
    np.savez(tmp_path / "g.npz", **arrays)
    with pytest.raises(FileError, match=r"g\.npz: " + message if message.startswith(("label", "truth")) else message):
        read_clean(tmp_path / "g.npz")


def test_a_damaged_file_is_told_whatever_breaks(tmp_path):
    np.savez_compressed(tmp_path / "h.npz", X=np.arange(4000.0).reshape(40, 100), truth=np.eye(40))
    whole = (tmp_path / "h.npz").read_bytes()
    for at in range(0, len(whole), 101):
        (tmp_path / "h.npz").write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        try:
            read_clean(tmp_path / "h.npz")
        except FileError as error:
            assert "h.npz" in str(error)  # noqa: PT017


def test_files_that_cannot_be_read_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_clean(tmp_path / "none.npz")
    np.savez(tmp_path / "c.npz", X=np.eye(2))
    with pytest.raises(ValueError, match="no array named truth"):
        read_clean(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", truth=np.array([{1}], dtype=object))
    with pytest.raises(ValueError, match="plain arrays"):
        read_clean(tmp_path / "d.npz")
    (tmp_path / "e.npz").write_bytes(b"PK\x03\x04 not a zip file")
    with pytest.raises(ValueError, match="is not a readable npz file"):
        read_clean(tmp_path / "e.npz")
    (tmp_path / "f.npz").write_bytes(b"")
    with pytest.raises(ValueError, match="is not a readable npz file"):
        read_clean(tmp_path / "f.npz")
