"""Labels that differ in case or blanks only: told in pairs, merged on request, written back as they were spelled."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from propml.tables import open_table, read_dataset, read_table, write_cleaned
from propml.tables.dataset import true_labels
from propml.targets import Candidates

CELLS = ["cat;sea", "Cat", "cat", "New  York;sea", "new york", "cat;Cat"]
TOLD = "'Cat' and 'cat'; 'New  York' and 'new york'"


@pytest.fixture
def photos(tmp_path):
    path = tmp_path / "photos.csv"
    path.write_text("x,tags\n" + "".join(f"{i},{cell}\n" for i, cell in enumerate(CELLS)))
    return path


def cells_of(path, name="tags"):
    with path.open(newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def test_spellings_are_told_in_pairs(photos, tmp_path):
    table = read_table(photos, candidates="tags")
    assert table.candidates.labels == ("Cat", "New  York", "cat", "new york", "sea")
    assert table.notes == [
        f"labels differ only in case or blanks: {TOLD}; if each means one label, give merge_labels=True"
    ]
    with pytest.warns(UserWarning, match="labels differ only in case or blanks: 'Cat' and 'cat'"):
        read_dataset(photos, candidates="tags")
    np.savez(tmp_path / "d.npz", X=np.eye(2), candidates=np.eye(2, dtype=int), label_names=["cat", "cat "])
    assert "'cat' and 'cat '" in read_table(tmp_path / "d.npz").notes[0]
    (tmp_path / "d.csv").write_text("x,cat,CAT,dog\n1,1,0,0\n2,0,1,1\n")
    assert "'CAT' and 'cat'" in read_table(tmp_path / "d.csv", label_columns="cat,CAT,dog").notes[0]


def test_merged_labels_take_the_most_frequent_spelling(photos):
    table = read_table(photos, candidates="tags", merge_labels=True)
    assert table.candidates.labels == ("New  York", "cat", "sea")
    assert table.candidates.to_lists() == [
        ["cat", "sea"],
        ["cat"],
        ["cat"],
        ["New  York", "sea"],
        ["New  York"],
        ["cat"],
    ]
    assert table.notes == [f"labels that differ only in case or blanks were merged: {TOLD}"]
    data = read_dataset(photos, candidates="tags", merge_labels=True)
    assert data.label_names == table.candidates.labels
    assert data.candidates == table.candidates


def test_cleaned_labels_keep_their_spelling(photos, tmp_path):
    table = read_table(photos, candidates="tags", merge_labels=True)
    write_cleaned(table, table.candidates, tmp_path / "same.csv")
    assert (tmp_path / "same.csv").read_bytes() == photos.read_bytes()
    rows = [["sea"], [], ["cat", "sea"], ["sea"], ["New  York", "cat"], []]
    write_cleaned(table, Candidates.from_lists(rows, table.candidates.labels, empty="ignore"), tmp_path / "out.csv")
    assert cells_of(tmp_path / "out.csv") == ["sea", "", "cat;sea", "sea", "new york;cat", ""]


def test_columns_of_0_and_1_and_arrays_are_merged(tmp_path):
    (tmp_path / "d.csv").write_text("x,cat,CAT,dog\n1,1,0,0\n2,0,1,1\n3,-1,0,1\n4,-1,1,0\n")
    table = read_table(tmp_path / "d.csv", label_columns="cat,CAT,dog", merge_labels=True)
    assert table.candidates.labels == ("CAT", "dog")
    assert table.candidates.to_matrix().tolist() == [[1, 0], [1, 1], [-1, 1], [1, 0]]
    cleaned = Candidates.from_matrix([[0, 1], [0, 1], [-1, 1], [1, 0]], table.candidates.labels)
    write_cleaned(table, cleaned, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "x,cat,CAT,dog\n1,0,0,1\n2,0,0,1\n3,-1,0,1\n4,-1,1,0\n"
    np.savez(tmp_path / "d.npz", X=np.eye(2), candidates=[[1, 1, 0], [0, 1, 1]], label_names=["cat", "cat ", "dog"])
    table = read_table(tmp_path / "d.npz", merge_labels=True)
    assert table.candidates.to_lists() == [["cat "], ["cat ", "dog"]]
    write_cleaned(table, Candidates.from_lists([["dog"], ["cat "]], table.candidates.labels), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as written:
        assert written["candidates"].tolist() == [[0, 0, 1], [0, 1, 0]]


def test_votes_are_merged_before_they_are_counted(tmp_path):
    (tmp_path / "d.csv").write_text("id,x\np1,1\np2,2\n")
    (tmp_path / "votes.csv").write_text(
        "item,annotator,label\np1,ann,Cat\np1,bob,cat\np1,cy,dog\np2,ann,cat\np2,bob,cat\np2,bob,Cat\n"
    )
    how = {"votes": tmp_path / "votes.csv", "id_column": "id", "min_votes": 2}
    assert read_table(tmp_path / "d.csv", **how).candidates.to_lists() == [["cat"]]
    table = read_table(tmp_path / "d.csv", **how, merge_labels=True)
    assert table.candidates.to_lists() == [["Cat"], ["Cat"]]  # both are as frequent: the first
    assert table.candidates.votes.toarray()[:, table.candidates.labels.index("Cat")].tolist() == [2, 2]
    cleaned = Candidates.from_lists([["Cat"], []], table.candidates.labels, empty="ignore")
    write_cleaned(table, cleaned, tmp_path / "out.csv")
    assert cells_of(tmp_path / "out.csv", "label") == ["Cat", "cat", "dog"]


def test_votes_beside_labels_of_another_spelling(tmp_path):
    (tmp_path / "d.csv").write_text("id,x,tags\np1,1,cat;dog\np2,2,dog\n")
    (tmp_path / "votes.csv").write_text("item,annotator,label\np1,ann,Cat\np1,bob,dog\n")
    how = {"candidates": "tags", "votes": tmp_path / "votes.csv", "id_column": "id"}
    assert read_table(tmp_path / "d.csv", **how).candidates.votes.toarray().tolist() == [[0, 1], [0, 0]]
    merged = read_table(tmp_path / "d.csv", **how, merge_labels=True)
    assert merged.candidates.votes.toarray().tolist() == [[1, 1], [0, 0]]


def test_true_labels_of_another_spelling(photos):
    with pytest.raises(ValueError, match="has the label 'cat', which the model never saw"):
        true_labels(open_table(photos), ("CAT", "new york", "sea"), "tags")
    true = true_labels(open_table(photos), ("CAT", "new york", "sea"), "tags", merge_labels=True)
    assert true.to_lists() == [["CAT", "sea"], ["CAT"], ["CAT"], ["new york", "sea"], ["new york"], ["CAT"]]


def test_true_labels_in_columns_of_another_spelling(tmp_path):
    (tmp_path / "d.csv").write_text("x,Cat,dog\n1,1,0\n2,0,1\n")
    with pytest.raises(ValueError, match="has no column 'cat'"):
        true_labels(open_table(tmp_path / "d.csv"), ("cat", "dog"), label_columns="Cat,dog", ignore_unseen=True)
    true = true_labels(open_table(tmp_path / "d.csv"), ("cat", "dog"), label_columns="Cat,dog", merge_labels=True)
    assert true.to_lists() == [["cat"], ["dog"]]


def test_blanks_around_labels_are_dropped_everywhere(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "tags": [["cat", "dog "], [" cat"]]}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", candidates="tags")
    assert table.candidates.to_lists() == [["cat", "dog"], ["cat"]]
    assert table.notes == []
