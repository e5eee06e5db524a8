"""A user's own files: every format in, cleaned labels out in the same format, with nothing else changed."""

import csv
import gzip
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from propml.output import neutralised, original
from propml.tables.dataset import true_labels
from propml.tables.files import read_table, write_cleaned
from propml.tables.sources import open_table
from propml.targets import Candidates

PHOTOS = """id,brightness,tags,note
p1,0.8,beach; sea,"a, quoted"
p2,0.3,city;night;sea,
p3,0.5,,nothing tagged
p4,-1.5,night,=1+1
"""


def without(candidates, *pairs):
    """The candidates without some (row, label name) pairs, and with those whose name starts with a plus."""
    matrix = candidates.to_matrix()
    for row, name in pairs:
        matrix[row, candidates.labels.index(name.lstrip("+"))] = int(name.startswith("+"))
    return Candidates.from_matrix(matrix, candidates.labels, empty="ignore")


@pytest.fixture
def photos(tmp_path):
    path = tmp_path / "photos.csv"
    path.write_text(PHOTOS)
    return path


# -- CSV -----------------------------------------------------------------------------------------------------------


def test_a_delimited_column(photos):
    table = read_table(photos, candidates="tags", id_column="id")
    assert table.candidates.labels == ("beach", "city", "night", "sea")
    assert table.candidates.to_lists() == [["beach", "sea"], ["city", "night", "sea"], ["night"]]
    assert table.item_ids == ("p1", "p2", "p4")
    assert table.candidates.index == ("p1", "p2", "p4")
    assert table.rows.tolist() == [0, 1, 3]
    assert table.feature_columns == ("brightness", "note")
    assert table.notes == ["1 row has no candidate label: left out; a cleaned file keeps such rows as they are"]


def test_cleaned_csv_changes_label_cells_only(photos, tmp_path):
    table = read_table(photos, candidates="tags", id_column="id")
    cleaned = without(table.candidates, (0, "beach"), (1, "night"), (2, "+beach"))
    write_cleaned(table, cleaned, tmp_path / "cleaned.csv")
    assert (tmp_path / "cleaned.csv").read_text() == (
        "id,brightness,tags,note\n"
        'p1,0.8,sea,"a, quoted"\n'
        "p2,0.3,city;sea,\n"
        "p3,0.5,,nothing tagged\n"
        "p4,-1.5,night;beach,'=1+1\n"
    )


def test_nothing_changed_is_written_as_it_was(photos, tmp_path):
    photos.write_text(PHOTOS.replace("=1+1", "harmless"))
    table = read_table(photos, candidates="tags")
    write_cleaned(table, table.candidates, tmp_path / "same.csv")
    assert (tmp_path / "same.csv").read_bytes() == photos.read_bytes()


def test_blanks_after_the_separator_are_kept_where_they_were(tmp_path):
    (tmp_path / "d.csv").write_text("x,tags\n1,a; b; c\n2,a;b\n")
    table = read_table(tmp_path / "d.csv", candidates="tags")
    write_cleaned(table, without(table.candidates, (0, "a"), (1, "b")), tmp_path / "out.csv")
    assert [row["tags"] for row in csv.DictReader((tmp_path / "out.csv").open())] == ["b; c", "a"]


def test_hostile_cells_are_neutralised_and_read_back(tmp_path):
    evil = "=cmd|' /C calc'!A0"
    cells = [evil, "+1", "-2.5e3", "@SUM(A1)", "\ttab", "'=already", "''=twice", "plain"]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["text", "tags"], *([cell, f"{evil};b;c"] for cell in cells)])
    table = read_table(tmp_path / "d.csv", candidates="tags")
    assert evil in table.candidates.labels
    write_cleaned(table, without(table.candidates, (1, "b"), (2, "b")), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        raw = list(csv.DictReader(file))
    assert [row["text"] for row in raw] == [
        "'" + evil, "+1", "-2.5e3", "'@SUM(A1)", "'\ttab", "'=already", "''=twice", "plain",
    ]  # fmt: skip
    assert all(row["tags"].startswith("'=cmd") for row in raw)
    again = read_table(tmp_path / "out.csv", candidates="tags")
    assert again.candidates.to_lists()[:3] == [["=cmd|' /C calc'!A0", "b", "c"], [evil, "c"], [evil, "c"]]
    assert open_table(tmp_path / "out.csv").cells("text")[:4] == [evil, "+1", "-2.5e3", "@SUM(A1)"]
    assert open_table(tmp_path / "out.csv").cells("text")[5:7] == ["=already", "'=twice"]


RISKY = st.text(st.sampled_from("=+-@\t\r\n'\"a1.,;"), max_size=8)


@given(RISKY)
def test_no_cell_is_lost_and_none_is_a_formula(cell):
    written = neutralised(cell)
    assert original(written) == cell
    if written[:1] and written[0] in "=+-@\t\r\n":
        assert set(written) <= set("+-0123456789.,eE%")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(RISKY, RISKY), min_size=1, max_size=6))
def test_any_cells_survive_reading_and_writing(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("any")
    with (folder / "d.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["one", "two", "tags"], *([*map(neutralised, row), "x"] for row in rows)])
    table = read_table(folder / "d.csv", candidates="tags")
    write_cleaned(table, table.candidates, folder / "out.csv")
    again = open_table(folder / "out.csv")
    assert list(zip(again.cells("one"), again.cells("two"), strict=True)) == rows


def test_format_details_survive(tmp_path):
    text = "name;tags\r\nJörg;a,b\r\nÉmile;b\r\n"
    (tmp_path / "d.csv.gz").write_bytes(gzip.compress(text.encode("cp1252")))
    table = read_table(tmp_path / "d.csv.gz", candidates="tags", sep=",", delimiter=";", encoding="cp1252")
    assert table.suffix == ".csv.gz"
    write_cleaned(table, without(table.candidates, (0, "a")), tmp_path / "out.csv.gz")
    written = gzip.decompress((tmp_path / "out.csv.gz").read_bytes())
    assert written == text.replace("a,b", "b").encode("cp1252")


def test_a_byte_order_mark_survives_and_is_no_part_of_a_name(tmp_path):
    (tmp_path / "d.tsv").write_bytes("\ufefftags\tx\na;b\t1\n".encode())
    table = read_table(tmp_path / "d.tsv", candidates="tags")
    write_cleaned(table, without(table.candidates, (0, "a")), tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_bytes() == "\ufefftags\tx\nb\t1\n".encode()


def test_cells_with_any_character_and_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("propml.tables.text.BLOCK_ROWS", 3)
    rows = [[f"line\n{i}\x1fx" if i % 4 == 0 else f'"{i}"', "a;b" if i % 2 else "b"] for i in range(10)]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["text", "tags"], *rows])
    table = read_table(tmp_path / "d.csv", candidates="tags")
    assert open_table(tmp_path / "d.csv").cells("text") == [row[0] for row in rows]
    write_cleaned(table, without(table.candidates, (9, "a"), (1, "b")), tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        written = list(csv.reader(file))[1:]
    assert [row[0] for row in written] == [row[0] for row in rows]
    assert [row[1] for row in written] == ["b", "a", "b", "a;b", "b", "a;b", "b", "a;b", "b", "b"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [(["1", "0", "1"], ["0", "1", "1"]), (["1.0", "0.0", "1.0"], ["0.0", "1.0", "1.0"]),
     (["True", "False", "True"], ["False", "True", "True"]), (["TRUE", "false", "true"], ["FALSE", "true", "true"])],
)  # fmt: skip
def test_columns_of_0_and_1_keep_their_words(tmp_path, cells, expected):
    lines = "".join(f"{i},{cell},1\n" for i, cell in enumerate(cells))
    (tmp_path / "d.csv").write_text("x,y_cat,y_dog\n" + lines)
    table = read_table(tmp_path / "d.csv", label_columns="y_*")
    assert table.candidates.labels == ("y_cat", "y_dog")
    assert table.candidates.to_matrix()[:, 0].tolist() == [1, 0, 1]
    write_cleaned(table, without(table.candidates, (0, "y_cat"), (1, "+y_cat")), tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").open()))
    assert [row["y_cat"] for row in rows] == expected
    assert [row["y_dog"] for row in rows] == ["1"] * 3


def test_unknown_entries_stay_unknown(tmp_path):
    (tmp_path / "d.csv").write_text("x,cat,dog\n1,1,-1\n2,1,1\n")
    table = read_table(tmp_path / "d.csv", label_columns=["cat,dog"])
    assert table.candidates.to_matrix().tolist() == [[1, -1], [1, 1]]
    write_cleaned(table, without(table.candidates, (1, "cat")), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "x,cat,dog\n1,1,-1\n2,0,1\n"


def test_one_label_a_cell(tmp_path):
    (tmp_path / "d.csv").write_text('x,place\n1,"Paris, France"\n2,"Rome, Italy"\n')
    table = read_table(tmp_path / "d.csv", candidates="place", sep="")
    assert table.candidates.labels == ("Paris, France", "Rome, Italy")
    with pytest.raises(ValueError, match="column 'place' holds one label in a cell"):
        write_cleaned(table, without(table.candidates, (0, "+Rome, Italy")), tmp_path / "out.csv")


def test_a_cell_may_be_a_document(tmp_path):
    (tmp_path / "d.csv").write_text(f"x,words,tags\n1,{'sea ' * 50_000},a\n2,short,b\n")
    table = read_table(tmp_path / "d.csv", candidates="tags", text="words")
    assert list(map(len, table.texts)) == [200_000, 5]
    write_cleaned(table, table.candidates, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "d.csv").read_bytes()


# -- votes ---------------------------------------------------------------------------------------------------------

VOTES = """item,annotator,label,when
p2,ann,city,mon
p2,bob,sea,mon
p1,ann,beach,tue
p1,bob,,tue
p1,cy,beach,wed
p9,ann,sea,wed
"""


@pytest.fixture
def votes(tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text(VOTES)
    return path


def test_an_annotator_table(photos, votes, tmp_path):
    table = read_table(photos, votes=votes, id_column="id", ignore="tags")
    assert table.item_ids == ("p1", "p2")
    assert table.candidates.to_lists() == [["beach"], ["city", "sea"]]
    assert table.candidates.voters.tolist() == [3, 2]
    assert table.candidates.votes.toarray().tolist() == [[2, 0, 0], [0, 1, 1]]
    assert "1 items of votes.csv are not in the data and were left out" in table.notes
    write_cleaned(table, without(table.candidates, (1, "sea"), (0, "+sea")), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == (
        "item,annotator,label,when\np2,ann,city,mon\np1,ann,beach,tue\np1,bob,,tue\np1,cy,beach,wed\np9,ann,sea,wed\n"
        "p1,propml audit,sea,\n"
    )


def test_votes_needed_for_a_candidate(photos, votes):
    table = read_table(photos, votes=votes, id_column="id", ignore="tags", min_votes=2)
    assert table.candidates.to_lists() == [["beach"]]
    with pytest.raises(ValueError, match="no label has 4 votes"):
        read_table(photos, votes=votes, id_column="id", ignore="tags", min_votes=4)


def test_votes_beside_a_column_of_candidates(photos, votes, tmp_path):
    table = read_table(photos, candidates="tags", votes=votes, id_column="id")
    assert table.candidates.to_lists() == [["beach", "sea"], ["city", "night", "sea"], ["night"]]
    assert table.candidates.votes.toarray().tolist() == [[2, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0]]
    assert table.candidates.voters.tolist() == [3, 2, 0]
    write_cleaned(table, without(table.candidates, (0, "sea")), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == 'p1,0.8,beach,"a, quoted"'


def test_votes_in_parquet_with_numbered_items(tmp_path):
    pq.write_table(pa.table({"n": [7, 8], "x": [0.5, 1.5]}), tmp_path / "d.parquet")
    table = {"item": [8.0, 7.0, 8.0], "who": ["a", "b", "b"], "label": ["u", "v", "v"], "at": [[1], [2], [3]]}
    pq.write_table(pa.table(table), tmp_path / "v.parquet")
    read = read_table(
        tmp_path / "d.parquet", votes=tmp_path / "v.parquet", votes_columns=("item", "who", "label"), id_column="n"
    )
    assert read.candidates.to_lists() == [["v"], ["u", "v"]]
    write_cleaned(read, without(read.candidates, (1, "u"), (0, "+u")), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").to_pydict() == {
        "item": [7.0, 8.0, 7.0],
        "who": ["b", "b", "propml audit"],
        "label": ["v", "v", "u"],
        "at": [[2], [3], None],
    }


def test_what_is_said_of_votes_that_do_not_count_is_refused(photos, votes):
    with pytest.raises(ValueError, match="3 votes are to make a label a candidate, and here the data names its cand"):
        read_table(photos, candidates="tags", votes=votes, id_column="id", min_votes=3)
    with pytest.raises(ValueError, match="2 votes are to make a label a candidate, and no votes were given"):
        read_table(photos, candidates="tags", min_votes=2)
    with pytest.raises(ValueError, match="item, who, label are columns of an annotator table; give it with votes"):
        read_table(photos, candidates="tags", votes_columns=("item", "who", "label"))


def test_votes_that_do_not_fit_are_told(photos, votes, tmp_path):
    with pytest.raises(ValueError, match="say with id_column which column of the data identifies them"):
        read_table(photos, votes=votes)
    with pytest.raises(ValueError, match="has no column 'who'"):
        read_table(photos, votes=votes, votes_columns=("item", "who", "label"), id_column="id")
    with pytest.raises(ValueError, match="has the columns item, annotator and label"):
        read_table(photos, votes=votes, votes_columns=("item", "label"), id_column="id")
    votes.write_text("item,annotator,label\nq1,ann,sea\n")
    with pytest.raises(ValueError, match="it names 'q1', the data 'p1'"):
        read_table(photos, votes=votes, id_column="id")
    votes.write_text("item,annotator,label\np1,ann,\n")
    with pytest.raises(ValueError, match="names no label for any item"):
        read_table(photos, votes=votes, id_column="id")
    votes.write_text("item,annotator,label\np1,ann,\"['sea', 'sky']\"\n")
    with pytest.raises(ValueError, match=r"row 0 \(line 2\), column 'label' is .* give every label of it a row"):
        read_table(photos, votes=votes, id_column="id")
    np.savez(tmp_path / "v.npz", X=np.eye(2))
    with pytest.raises(ValueError, match="holds no matrix of whole numbers"):
        read_table(photos, votes=tmp_path / "v.npz", id_column="id")


# -- Parquet -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "lists", "numbers"])
def test_parquet_labels_keep_their_type_and_metadata(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("propml.tables.arrow.BATCH_ROWS", 2)
    stored = {
        "text": (["b;a", None, "b", "a;b"], pa.string(), ["a", None, "b", "a;b"]),
        "lists": ([["b", "a"], None, ["b"], ["a", "b"]], pa.list_(pa.string()), [["a"], None, ["b"], ["a", "b"]]),
        "numbers": ([[2, 1], [], [2], [1, 2]], pa.list_(pa.int64()), [[1], [], [2], [1, 2]]),
    }
    cells, of_type, expected = stored[kind]
    schema = pa.schema([("x", pa.float32()), ("tags", of_type)], metadata={"made by": "hand"})
    pq.write_table(pa.table([[1.0, 2.0, 3.0, 4.0], cells], schema=schema), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", candidates="tags")
    first, second = table.candidates.labels
    assert (first, second) == (("1", "2") if kind == "numbers" else ("a", "b"))
    assert table.rows.tolist() == [0, 2, 3]
    cleaned = without(table.candidates, (0, second))
    write_cleaned(table, cleaned, tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.schema.equals(pq.read_schema(tmp_path / "d.parquet"), check_metadata=True)
    assert written.schema.metadata[b"made by"] == b"hand"
    assert written.column("tags").to_pylist() == expected
    assert written.column("x").to_pylist() == [1.0, 2.0, 3.0, 4.0]


def test_parquet_lists_take_added_labels(tmp_path):
    pq.write_table(pa.table({"x": [1.0, 2.0], "tags": [[5], [5, 7]]}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", candidates="tags")
    write_cleaned(table, without(table.candidates, (0, "+7")), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("tags").to_pylist() == [[5, 7], [5, 7]]


@pytest.mark.parametrize("of_type", [pa.int8(), pa.bool_(), pa.float64()])
def test_parquet_columns_of_0_and_1(tmp_path, of_type):
    flags = pa.array([1, 0, 1]).cast(of_type)
    pq.write_table(pa.table({"y": flags, "z": flags, "x": [1, 2, 3]}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", label_columns="y,z")
    assert len(table.candidates) == 2
    write_cleaned(table, without(table.candidates, (1, "y")), tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column("y").cast(pa.int8()).to_pylist() == [1, 0, 0]
    assert written.column("z") == pq.read_table(tmp_path / "d.parquet").column("z")


@pytest.mark.parametrize("of_type", [pa.int64(), pa.uint32(), pa.float64()])
def test_large_numbers_are_labels_of_their_own(tmp_path, of_type):
    cells = [[2**24, 2**24 + 1], [2**24 + 1, 7], [2**24, 7]]
    tags = pa.array(cells, pa.list_(of_type))
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "tags": tags}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", candidates="tags")
    assert table.candidates.labels == ("16777216", "16777217", "7")
    assert table.candidates.to_lists() == [["16777216", "16777217"], ["16777217", "7"], ["16777216", "7"]]
    write_cleaned(table, without(table.candidates, (0, "16777217")), tmp_path / "out.parquet")
    assert pq.read_table(tmp_path / "out.parquet").column("tags").to_pylist() == [[2**24], *cells[1:]]


def test_whole_numbers_are_labels_where_a_cell_is_one(tmp_path):
    classes = [3, None, 2**53 + 1, 2**53]
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0, 4.0], "y": classes}), tmp_path / "d.parquet")
    table = read_table(tmp_path / "d.parquet", candidates="y", sep="")
    assert table.candidates.labels == ("3", str(2**53), str(2**53 + 1))
    assert table.candidates.to_lists() == [["3"], [str(2**53 + 1)], [str(2**53)]]
    changed = without(table.candidates, (0, "3"), (2, str(2**53)), (2, "+3"))
    write_cleaned(table, changed, tmp_path / "out.parquet")
    written = pq.read_table(tmp_path / "out.parquet")
    assert written.column("y").to_pylist() == [None, None, 2**53 + 1, 3]
    assert written.schema.field("y").type == pa.int64()


@pytest.mark.parametrize("cell", [1.5, float("inf"), True])
def test_what_is_no_whole_number_is_no_label(tmp_path, cell):
    pq.write_table(pa.table({"x": [1.0], "y": [cell]}), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="for whole numbers give sep=''"):
        read_table(tmp_path / "d.parquet", candidates="y", sep="")


def test_a_parquet_column_without_all_its_rows_is_told(tmp_path):
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0]}), path)
    table = open_table(path)
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)  # as in a file whose columns end before it says
    with pytest.raises(ValueError, match=r"d\.parquet is not a readable Parquet file \(column 'x' has 2 of its 3 rows"):
        table.cells("x")


def test_broken_parquet_is_told(tmp_path):
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(ValueError, match="not a readable Parquet file"):
        read_table(tmp_path / "d.parquet", candidates="tags")
    pq.write_table(pa.table({"x": pa.array([], pa.float32())}), tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        read_table(tmp_path / "empty.parquet", candidates="x")


# -- ARFF ----------------------------------------------------------------------------------------------------------

DENSE = """% a comment
@relation toy
@attribute length numeric
@attribute 'kind of' {big,'very small'}
@attribute is_long {0,1}
@attribute is_red {1,0}
@data
1.5,big,0,1 % the first

9.5,'very small',1,1
"""
SPARSE = """@relation toy
@attribute a numeric
@attribute is_long {0,1}
@attribute is_red {1,0}
@attribute b numeric
@data
{0 2,1 1,3 5}
{1 1,2 0}
{}
"""


def test_dense_arff_with_a_label_header(tmp_path):
    (tmp_path / "toy.arff").write_text(DENSE)
    (tmp_path / "toy.xml").write_text('<labels><label name="is_red"/><label name="is_long"/></labels>')
    table = read_table(tmp_path / "toy.arff")
    assert table.candidates.labels == ("is_red", "is_long")
    assert table.candidates.to_matrix().tolist() == [[1, 0], [1, 1]]
    assert table.feature_columns == ("length", "kind of")
    assert table.source.cells("kind of") == ["big", "very small"]
    write_cleaned(table, without(table.candidates, (1, "is_red")), tmp_path / "out.arff")
    expected = DENSE.replace("9.5,'very small',1,1", "9.5,'very small',1,0")
    assert (tmp_path / "out.arff").read_text() == expected


def test_sparse_arff_with_label_columns(tmp_path):
    (tmp_path / "toy.arff.gz").write_bytes(gzip.compress(SPARSE.encode()))
    table = read_table(tmp_path / "toy.arff.gz", label_columns="is_*")
    # What a sparse row leaves out is the first declared value: 1 for is_red.
    assert table.candidates.to_matrix().tolist() == [[1, 1], [1, 0], [0, 1]]
    cleaned = without(table.candidates, (0, "is_red"), (1, "+is_red"), (2, "+is_long"))
    write_cleaned(table, cleaned, tmp_path / "out.arff.gz")
    lines = gzip.decompress((tmp_path / "out.arff.gz").read_bytes()).decode().splitlines()
    assert lines[-3:] == ["{0 2,1 1,2 0,3 5}", "{1 1}", "{1 1}"]
    again = read_table(tmp_path / "out.arff.gz", label_columns="is_*")
    assert again.candidates == cleaned
    assert again.source.cells("b").tolist() == [5.0, 0.0, 0.0]


def test_arff_classes_of_many_digits(tmp_path):
    head = "@relation codes\n@attribute x numeric\n@attribute code numeric\n@data\n"
    (tmp_path / "d.arff").write_text(head + "1,1234567\n2,1234568\n")
    table = read_table(tmp_path / "d.arff", candidates="code", sep="")
    assert table.candidates.to_lists() == [["1234567"], ["1234568"]]
    write_cleaned(table, table.candidates, tmp_path / "out.arff")
    assert (tmp_path / "out.arff").read_text() == (tmp_path / "d.arff").read_text()


def test_arff_headers_that_do_not_fit_are_told(tmp_path):
    (tmp_path / "toy.arff").write_text(DENSE)
    with pytest.raises(ValueError, match="say where the candidate labels are"):
        read_table(tmp_path / "toy.arff")
    (tmp_path / "other.xml").write_text('<labels><label name="nope"/></labels>')
    with pytest.raises(ValueError, match="names the label 'nope', which is no attribute"):
        read_table(tmp_path / "toy.arff", xml=tmp_path / "other.xml")
    with pytest.raises(ValueError, match="labels stand in one place; name one of label_columns and xml"):
        read_table(tmp_path / "toy.arff", xml=tmp_path / "other.xml", label_columns="is_*")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.xml"):
        read_table(tmp_path / "toy.arff", xml=tmp_path / "nowhere.xml")
    (tmp_path / "toy.arff").write_bytes(DENSE.replace("toy", "größe").encode("latin-1"))
    table = read_table(tmp_path / "toy.arff", label_columns="is_red,is_long")
    write_cleaned(table, table.candidates, tmp_path / "out.arff")
    assert (tmp_path / "out.arff").read_bytes() == (tmp_path / "toy.arff").read_bytes()


# -- files that hold a matrix --------------------------------------------------------------------------------------


def test_npz_keeps_every_other_array(tmp_path):
    given = {"X": np.arange(6.0).reshape(3, 2), "candidates": np.array([[1, 1], [0, 0], [1, -1]], dtype=np.int32),
             "label_names": np.array(["a", "b"]), "truth": np.eye(3, 2, dtype=int), "extra": np.arange(5)}  # fmt: skip
    np.savez(tmp_path / "d.npz", **given)
    table = read_table(tmp_path / "d.npz")
    assert table.item_ids == ("0", "2")
    write_cleaned(table, without(table.candidates, (0, "b")), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as written:
        assert set(written.files) == set(given)
        assert written["candidates"].tolist() == [[1, 0], [0, 0], [1, -1]]
        assert written["candidates"].dtype == np.int32
        for name in ("X", "label_names", "truth", "extra"):
            assert (written[name] == given[name]).all()


def test_svmlight_keeps_features_and_comments(tmp_path):
    text = "# made by hand\n0,2 1:0.5 4:1 # first\n1 2:2\n 3:1\n2,1 1:1\n"
    (tmp_path / "d.svm").write_text(text)
    table = read_table(tmp_path / "d.svm")
    assert table.candidates.labels == ("0", "1", "2")
    assert table.candidates.to_lists() == [["0", "2"], ["1"], ["1", "2"]]
    assert table.source.X.shape == (4, 5)  # positions as they are written
    cleaned = without(table.candidates, (0, "2"), (1, "+0"))
    write_cleaned(table, cleaned, tmp_path / "out.svm")
    lines = (tmp_path / "out.svm").read_text().splitlines()
    assert lines[:3] == ["# made by hand", "0 1:0.5 4:1 # first", "0,1 2:2"]
    X, labels = load_svmlight_file(str(tmp_path / "out.svm"), multilabel=True, zero_based=True)
    assert (X != table.source.X).nnz == 0
    assert labels == [(0.0,), (0.0, 1.0), (), (1.0, 2.0)]


def test_svmlight_labels_of_many_digits(tmp_path):
    (tmp_path / "d.svm").write_text("1234567,1234568 0:1\n1234568 1:1\n")
    table = read_table(tmp_path / "d.svm")
    assert table.candidates.to_lists() == [["1234567", "1234568"], ["1234568"]]
    write_cleaned(table, without(table.candidates, (0, "1234567")), tmp_path / "out.svm")
    assert (tmp_path / "out.svm").read_text() == "1234568 0:1\n1234568 1:1\n"


def test_svmlight_compressed(tmp_path):
    (tmp_path / "d.svm.gz").write_bytes(gzip.compress(b"0,1 1:1\n1 2:1\n"))
    table = read_table(tmp_path / "d.svm.gz")
    write_cleaned(table, without(table.candidates, (0, "0")), tmp_path / "out.svm.gz")
    assert gzip.decompress((tmp_path / "out.svm.gz").read_bytes()) == b"1 1:1\n1 2:1\n"


@pytest.mark.parametrize("sparse", [False, True])
def test_mat_is_written_as_doubles(tmp_path, sparse):
    labels = np.array([[1, 0, 1], [1, 1, 0]], dtype=np.float64)
    content = {"data": np.arange(6.0).reshape(3, 2), "partial_labels": sp.csc_array(labels) if sparse else labels,
               "target": labels, "note": "not a matrix of numbers"}  # fmt: skip
    scipy.io.savemat(tmp_path / "d.mat", content)
    table = read_table(tmp_path / "d.mat")
    assert table.candidates.to_matrix().tolist() == labels.T.tolist()
    write_cleaned(table, without(table.candidates, (0, "label_0")), tmp_path / "out.mat")
    written = scipy.io.loadmat(tmp_path / "out.mat", spmatrix=False)
    found = written["partial_labels"]
    assert sp.issparse(found) == sparse
    assert (found.toarray() if sparse else found).tolist() == [[0, 0, 1], [1, 1, 0]]
    assert found.dtype == np.float64
    assert (written["data"] == content["data"]).all()
    assert (written["target"] == labels).all()


def test_matrix_files_without_candidates(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.eye(2), truth=np.eye(2, dtype=int), label_names=["a", "b"])
    with pytest.raises(ValueError, match="holds no candidate labels"):
        read_table(tmp_path / "d.npz")
    true = true_labels(open_table(tmp_path / "d.npz"), ("c", "b", "a"))
    assert true.to_matrix().tolist() == [[0, 0, 1], [0, 1, 0]]
    scipy.io.savemat(tmp_path / "d.mat", {"data": np.eye(3), "target": np.eye(2, 3)})
    source = open_table(tmp_path / "d.mat")
    assert source.candidates is None
    assert source.truth.to_matrix().tolist() == np.eye(3, 2).tolist()
    with pytest.raises(ValueError, match=r"row 1 has the label 'label_1', which the model never saw"):
        true_labels(source, ("label_0",))
    assert true_labels(source, ("label_0",), ignore_unseen=True).sizes().tolist() == [1, 0, 0]
    scipy.io.savemat(tmp_path / "bare.mat", {"data": sp.eye_array(3, format="csc")})
    with pytest.raises(ValueError, match="holds no true labels"):
        true_labels(open_table(tmp_path / "bare.mat"), ("a",))


@pytest.mark.parametrize(
    ("content", "told"),
    [({"data": np.array([[np.nan]])}, "not finite"), ({"data": np.eye(3), "target": np.eye(2)}, "expected")],
)
def test_mat_files_that_do_not_fit_are_told(tmp_path, content, told):
    scipy.io.savemat(tmp_path / "d.mat", content)
    with pytest.raises(ValueError, match=told):
        open_table(tmp_path / "d.mat")


@pytest.mark.parametrize(
    ("text", "told"),
    [("a b c\n", "not a readable svmlight file"), ("0 1:nan\n", "not finite"), ("0\n", "no rows or no features"),
     ("0 20000000:1\n", "beyond 10000000")],
)  # fmt: skip
def test_svmlight_files_that_do_not_fit_are_told(tmp_path, text, told):
    (tmp_path / "d.svm").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_table(tmp_path / "d.svm")


# -- what is wrong is named ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no header"),
        ("x,tags\n", "has a header and no rows"),
        ("x,x,tags\n1,2,a\n", "has two columns named 'x'"),
        ("x,tags\n1,a\n2\n", "line 3 has 1 cells, the header has 2"),
        ('x,tags\n1,"a\n', "is not valid CSV"),
        ("x;tags\n1;a\n", "the delimiter ',' occurs nowhere in the first line of .*, and ';' does"),
        ("x,labels\n1,a\n", "has no column 'tags'; it has 'x', 'labels'"),
        ("x,tags\n1,\n2, \n", "column 'tags' names no label"),
        ("tags\na\n", "no column is left for the features"),
        ('x,tags\n1,"a,b"\n2,c\n', "';' occurs in no cell of column 'tags', and ',' in 50% of them"),
    ],
)
def test_text_tables_that_do_not_fit_are_told(tmp_path, text, told):
    (tmp_path / "d.csv").write_text(text)
    with pytest.raises(ValueError, match=told):
        read_table(tmp_path / "d.csv", candidates="tags")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("x,tags\n1,caf\u00e9\n".encode("cp1252"), r"byte 0xE9 at position 12 \(line 2\); it looks like Windows-1252"),
        ("x,tags\n1,caf\u00e9\n".encode("utf-16"), "it looks like UTF-16"),
        (b"x,tags\n1,\x81\x8d\n", "it looks like Latin-1"),
        (gzip.compress(b"x,tags\n" + bytes(9999), mtime=0)[:-20], "is not a readable"),
        (b"\x1f\x8b and no more", "is not a readable"),
    ],
)
def test_bytes_that_are_no_text_are_told(tmp_path, content, told):
    (tmp_path / "d.csv").write_bytes(content)
    with pytest.raises(ValueError, match=told):
        read_table(tmp_path / "d.csv", candidates="tags")


def test_an_encoding_that_is_not_the_files_is_told(photos):
    with pytest.raises(ValueError, match=r"is not UTF-16 text: .* it looks like UTF-8: leave out encoding"):
        read_table(photos, candidates="tags", encoding="utf-16")
    with pytest.raises(ValueError, match="the encoding 'base64' is not known"):
        read_table(photos, candidates="tags", encoding="base64")
    photos.write_bytes(PHOTOS.encode("utf-16"))
    assert len(read_table(photos, candidates="tags", encoding="utf-16").candidates) == 3
    photos.write_bytes(b"x,tags\n" + b"1,a\n" * 99_999 + b"1,\xe9\n")
    with pytest.raises(ValueError, match=r"is not UTF-8 text: byte 0xE9 at position 400005 \(line 100001\)"):
        read_table(photos, candidates="tags")


def test_options_that_do_not_fit_are_told(photos, tmp_path):
    with pytest.raises(ValueError, match="the encoding 'utf-99' is not known"):
        read_table(photos, candidates="tags", encoding="utf-99")
    with pytest.raises(ValueError, match="the one character"):
        read_table(photos, candidates="tags", delimiter="||")
    with pytest.raises(ValueError, match="name one of candidates and label_columns"):
        read_table(photos, candidates="tags", label_columns="id")
    with pytest.raises(ValueError, match="'tags' is named as a feature and as something else"):
        read_table(photos, candidates="tags", features="brightness,tags")
    with pytest.raises(ValueError, match=r"no column 'y_\*'"):
        read_table(photos, label_columns="y_*")
    with pytest.raises(ValueError, match=r"row 0 \(line 2\), column 'brightness' is '0.8', expected 0 or 1 or -1"):
        read_table(photos, label_columns="brightness")
    (tmp_path / "photos.doc").write_text("words and nothing else")
    with pytest.raises(ValueError, match="the format is not clear"):
        read_table(tmp_path / "photos.doc")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_table(tmp_path / "nowhere.csv")
    np.savez(tmp_path / "d.npz", X=np.eye(2), candidates=np.eye(2, dtype=int))
    with pytest.raises(ValueError, match="has no columns to name"):
        read_table(tmp_path / "d.npz", candidates="tags")
    with pytest.raises(ValueError, match="has no columns to name"):
        read_table(tmp_path / "d.npz", xml="d.xml")
    with pytest.raises(ValueError, match="belong to CSV and TSV"):
        read_table(tmp_path / "d.npz", delimiter=";")
    with pytest.raises(ValueError, match="is no ARFF file, and an XML header belongs to one"):
        read_table(photos, candidates="tags", xml="d.xml")
    with pytest.raises(ValueError, match=r"say where the candidate labels are: .* it has 'id', 'brightness'"):
        read_table(photos, label_columns="")
    np.savez(tmp_path / "d.npz", X=np.eye(2), candidates=np.zeros((2, 2), dtype=int))
    with pytest.raises(ValueError, match="no row has a candidate label"):
        read_table(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("ids", "told"), [("a,a", r"row 1 \(line 3\), column 'id' is 'a', as in row 0"), ("a,", "is empty")]
)
def test_identifiers_that_do_not_fit_are_told(tmp_path, ids, told):
    (tmp_path / "d.csv").write_text("id,x,tags\n" + "".join(f"{each},1,t\n" for each in ids.split(",")))
    with pytest.raises(ValueError, match=told):
        read_table(tmp_path / "d.csv", candidates="tags", id_column="id")


def test_a_number_is_no_list_of_labels(tmp_path):
    pq.write_table(pa.table({"x": [1.0], "y": [1]}), tmp_path / "d.parquet")
    with pytest.raises(ValueError, match="row 0, column 'y' is 1, expected label names"):
        read_table(tmp_path / "d.parquet", candidates="y")


def test_labels_of_something_else_are_refused(photos, tmp_path):
    table = read_table(photos, candidates="tags")
    with pytest.raises(ValueError, match="do not belong together"):
        write_cleaned(table, table.candidates[:2], tmp_path / "out.csv")
    renamed = replace(table.candidates, labels=("beach;x", "city", "night", "sea"))
    both = replace(table, candidates=renamed)
    with pytest.raises(ValueError, match="'beach;x' contains the separator"):
        write_cleaned(both, without(renamed, (2, "+beach;x")), tmp_path / "out.csv")
    assert not list(tmp_path.glob("*out*"))


def test_what_is_shown(tmp_path):
    (tmp_path / "d.csv").write_text("x,words,file,tags\n1,hello,a.png,a;b\n2,there,,b\n")
    table = read_table(tmp_path / "d.csv", candidates="tags", features="x", text="words", image="file")
    assert table.texts == ["hello", "there"]
    assert table.images == ["a.png", ""]
    assert table.feature_columns == ("x", "words")


def test_a_picture_outside_the_folder_of_the_table_is_not_shown(tmp_path):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    outside = ["../a.png", f"{tmp_path}/a.png", "link/a.png"]
    names = ["a.png", *outside, f"{folder}/b.png", "in/../c.png"]
    (folder / "d.csv").write_text("x,file,tags\n" + "".join(f"{i},{name},a\n" for i, name in enumerate(names)))
    table = read_table(folder / "d.csv", candidates="tags", features="x", image="file")
    assert table.images == ["a.png", "", "", "", f"{folder}/b.png", "in/../c.png"]
    assert table.notes == [
        "3 pictures lie outside the folder of d.csv and will not be shown, first '../a.png'; show them with "
        "allow_outside=True"
    ]
    allowed = read_table(folder / "d.csv", candidates="tags", features="x", image="file", allow_outside=True)
    assert (allowed.images, allowed.notes) == (names, [])


# -- real files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "shape"), [("medical", (978, 45)), ("enron", (1702, 53))])
def test_published_arff_files_are_written_as_they_were(data_dir, tmp_path, name, shape):
    table = read_table(data_dir / "mulan" / f"{name}.arff.gz")
    assert table.candidates.shape == shape
    write_cleaned(table, table.candidates, tmp_path / "same.arff.gz")
    assert gzip.decompress((tmp_path / "same.arff.gz").read_bytes()) == gzip.decompress(table.path.read_bytes())
    row, label = 3, table.candidates.to_lists()[3][0]
    cleaned = without(table.candidates, (row, label))
    write_cleaned(table, cleaned, tmp_path / "out.arff.gz")
    again = read_table(tmp_path / "out.arff.gz", xml=data_dir / "mulan" / f"{name}.xml")
    expected = cleaned if cleaned.sizes().all() else cleaned[cleaned.sizes() > 0]
    assert again.candidates == expected


def test_a_published_mat_file_comes_back(data_dir, tmp_path):
    table = read_table(data_dir / "pml" / "mirflickr.mat")
    cleaned = without(table.candidates, (0, str(table.candidates.to_lists()[0][0])))
    write_cleaned(table, cleaned, tmp_path / "out.mat")
    again = read_table(tmp_path / "out.mat")
    assert again.candidates == cleaned
    assert np.array_equal(again.source.X, table.source.X)
    assert again.source.truth == table.source.truth
