"""Columns of mixed types become features, by the numbers, and the same way again for other rows."""

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer

from propml.tables.features import Features, learn_features, treatment_of
from propml.tables.files import read_table
from propml.tables.sources import open_table
from propml.tables.table import as_table
from propml.tables.treatments import Number, Text


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def learned(name="c", cells=(), **asked):
    """The features of one column, beside one that is always kept."""
    table = {"x": np.tile([1.0, -1.0, 3.0], len(cells))[: len(cells)], name: cells}
    made = Features.learn(table, **asked)
    return made.features, dense(made.X)[:, 1:]


# -- numbers -------------------------------------------------------------------------------------------------------


def test_numbers_are_standardised_with_the_median_for_gaps():
    features, X = learned("c", ["1", "2", "", "9", "NA"])
    filled = np.array([1, 2, 2, 9, 2.0])
    assert np.allclose(X[:, 0], (filled - filled.mean()) / filled.std())
    assert X[:, 1].tolist() == [0, 0, 1, 0, 1]
    assert X.dtype == np.float32
    assert features.names[1:] == ["c", "c (missing)"]
    assert "2 missing became the median 2" in features.describe()["c"]


def test_wild_values_are_clipped_and_infinite_ones_are_missing():
    _, X = learned("c", [*([0.5, 0.7] * 50), 1e9])
    assert X.max() == 5.0
    features, X = learned("c", ["1", "2", "inf"])
    assert X[:, 1].tolist() == [0, 0, 1]
    assert features.treatments[1].fill == 1.5


def test_mostly_zero_counts_keep_their_zeros():
    cells = [0] * 8 + [1, 3]
    features, X = learned("c", cells)
    scale = math.sqrt((math.log(2) ** 2 + math.log(4) ** 2) / 2)
    assert np.allclose(X[:, 0], np.log1p(cells) / scale)
    assert "log(1 + x)" in features.describe()["c"]
    _, X = learned("c", [0.0] * 8 + [0.5, -2.0])
    assert np.allclose(X[-2:, 0], np.array([0.5, -2.0]) / math.sqrt((0.25 + 4) / 2))
    _, X = learned("c", [0.0, None, 0.0, 0.0])
    assert X.tolist() == [[0, 0], [0, 1], [0, 0], [0, 0]]


def test_true_and_false_become_1_and_0():
    features, X = learned("c", ["yes", "No", "TRUE", "false", ""])
    assert features.treatments[1].unit == "boolean"
    assert np.allclose(X[:, 0] * features.treatments[1].scale + features.treatments[1].center, [1, 0, 1, 0, 0.5])
    again, _ = features.apply({"x": [1.0, 1.0], "c": [True, False]})
    assert dense(again)[0, 1] > dense(again)[1, 1]


def test_dates_become_days():
    features, X = learned("c", ["2020-01-01", "2020-01-03T12:00:00", "2020-01-05"])
    days = np.array([0, 2.5, 4])
    assert np.allclose(X[:, 0], (days - days.mean()) / days.std(), atol=1e-4)
    assert features.describe()["c"].startswith("date, as a number of days")
    moment = datetime(2020, 1, 3, 12, tzinfo=UTC)
    same, _ = features.apply({"x": [1.0] * 3, "c": [moment, date(2020, 1, 5), None]})
    assert np.allclose(dense(same)[:2, 1], X[1:, 0], atol=1e-4)
    shifted, _ = features.apply({"x": [1.0], "c": [moment.astimezone(timezone(timedelta(hours=5)))]})
    assert np.allclose(dense(shifted)[0, 1], X[1, 0], atol=1e-4)


def test_codes_with_leading_zeros_are_names():
    features, X = learned("c", ["00501", "90210", "00501", "90210"])
    assert features.treatments[1].kind == "category"
    assert X.tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]


@pytest.mark.parametrize("cells", [[1.0, 2.0, "x"], ["1.5", "2", "x y"], ["2020-01-01", "2020-13-45", "x"]])
def test_one_cell_that_is_something_else_makes_names(cells):
    assert treatment_of("c", cells * 5).kind == "category"


def test_a_cell_that_is_no_number_later_is_told():
    features, _ = learned("c", ["1", "2", "3.5"])
    with pytest.raises(ValueError, match="row 1, column 'c' is 'many', and the column held numbers in training"):
        features.apply({"x": [1.0, 2.0], "c": ["5", "many"]})


# -- categories ----------------------------------------------------------------------------------------------------


def test_categories_with_a_cap(monkeypatch):
    cells = ["b"] * 4 + ["a"] * 4 + ["c"] * 2 + ["d"] * 2 + ["once", None]
    monkeypatch.setattr("propml.tables.features.MOST_CATEGORIES", 3)
    features, X = learned("c", cells)
    assert features.names[1:] == ["c = a", "c = b", "c = c", "c (other)", "c (missing)"]
    expected = [[0, 1, 0, 0, 0]] * 4 + [[1, 0, 0, 0, 0]] * 4 + [[0, 0, 1, 0, 0]] * 2 + [[0, 0, 0, 1, 0]] * 3
    assert X.tolist() == [*expected, [0, 0, 0, 0, 1]]
    assert features.describe()["c"] == (
        "category, 3 values as 0/1 features, 2 rarer values share one, 1 missing have one of their own"
    )


def test_values_never_seen_are_none_of_the_known_ones():
    features, _ = learned("c", ["a", "b"] * 5 + ["rare"])
    X, notes = features.apply({"x": [1.0] * 4, "c": ["new", "rare", "a", ""]})
    assert dense(X)[:, 1:].tolist() == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0]]
    assert notes == [
        "column 'c': 1 rows have values never seen in training, such as 'new'; they count as none of the known ones"
    ]


def test_numbers_that_are_names_when_asked():
    made = Features.learn({"x": [0.5, 1.5, 2.5, 4.0], "shop": [17, 4, 17, 4]}, categorical=["shop"])
    assert made.features.names[1:] == ["shop = 17", "shop = 4"]


# -- text ----------------------------------------------------------------------------------------------------------

SENTENCES = [
    "the red house by the sea",
    "a blue house in town",
    "the sea was blue and calm",
    "red roofs of the old town",
    "nobody lives in the old house",
    None,
]


def test_text_is_scikit_learns_tf_idf():
    features, X = learned("c", SENTENCES)
    assert features.treatments[1].kind == "text"
    peer = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", min_df=2, max_df=0.9)
    expected = peer.fit_transform([text or "" for text in SENTENCES]).toarray()
    assert features.names[1:] == [f"c: {word}" for word in peer.get_feature_names_out()]
    assert np.allclose(X, expected, atol=1e-6)
    new = ["the calm SEA", "unknown words only"]
    again, _ = features.apply({"x": [1.0, 2.0], "c": new})
    assert np.allclose(dense(again)[:, 1:], peer.transform(new).toarray(), atol=1e-6)


def test_text_without_blanks_is_read_by_characters():
    sentences = ["海辺の赤い家", "町の青い家", "青い海と空", "赤い屋根の町", "古い家と海", "空と町と海"]
    features, X = learned("c", sentences)
    assert features.treatments[1].by_character
    assert "c: 海" in features.names
    assert "c: 青い" in features.names
    assert (X != 0).any(axis=1).all()


def test_phrases_that_repeat_are_categories():
    cells = ["Living in New York City", "Living in San Francisco Bay"] * 20
    assert treatment_of("c", cells).kind == "category"
    assert treatment_of("c", cells, asked="text").kind == "text"


# -- left out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        (["same"] * 30, "all its values are the same"),
        ([7.0] * 30, "all its values are the same"),
        ([None] * 30, "it is empty"),
        ([""] * 30, "it is empty"),
        (["NA"] * 30, "it is empty"),
        ([f"img_{i:04d}.jpg" for i in range(30)], "nearly every value is different"),
        (list(range(100, 130)), "it counts the rows"),
        ([b"\x89PNG"] * 30, "neither numbers nor text"),
        ([[1.0] * (i % 2) for i in range(30)], "lists of different lengths"),
    ],
)
def test_columns_that_teach_nothing_are_left_out_with_a_reason(cells, reason):
    features, X = learned("c", cells)
    assert X.shape == (30, 0)
    assert reason in features.describe()["c"]
    again, _ = features.apply({"x": [1.0]})  # and are not asked for later
    assert again.shape == (1, 1)


def test_a_counter_that_was_asked_for_is_kept():
    assert treatment_of("n", np.arange(30.0), explicit=True).kind == "number"


def test_gaps_alone_can_tell():
    _, X = learned("c", [1.0, None, 1.0, None])
    assert X[:, 1].tolist() == [0, 1, 0, 1]


def test_no_column_left_is_told():
    with pytest.raises(ValueError, match=r"no column is left .*'c' left out: all its values are the same"):
        Features.learn({"c": ["a", "a"]})


# -- the whole table -----------------------------------------------------------------------------------------------


def test_dense_where_full_and_sparse_where_empty():
    full = Features.learn({"a": [1.0, 2.0, 4.0], "b": [0.5, 1.5, 7.0]})
    assert isinstance(full.X, np.ndarray)
    assert full.X.dtype == np.float32
    words = [f"w{i % 25}x w{(i * 7) % 25}x w{i % 24}x" for i in range(100)]
    mixed = Features.learn({"a": np.arange(100) % 3.0, "t": words})
    assert isinstance(mixed.X, sp.csr_array)
    assert mixed.X.dtype == np.float32


@pytest.mark.parametrize("library", ["pandas", "polars", "dict"])
def test_frames_of_any_library(library):
    columns = {
        "n": [1.5, None, 3.0, 4.0],
        "c": ["a", "b", "a", None],
        "d": [datetime(2020, 1, d) for d in (1, 2, 3, 5)],
    }
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "dict": dict}[library](columns)
    made = Features.learn(frame)
    assert made.features.names == ["n", "n (missing)", "c = a", "c (other)", "c (missing)", "d"]
    assert np.allclose(dense(made.X), dense(Features.learn(columns).X))


def test_nullable_and_decimal_numbers():
    frame = pd.DataFrame({"n": pd.array([1, None, 3], dtype="Int64"), "x": [Decimal("1.5"), Decimal("2"), None]})
    made = Features.learn(frame)
    assert made.features.names == ["n", "n (missing)", "x", "x (missing)"]


def test_parquet_types(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1, None, 3, 4]),
            "f": pa.array([0.5, 1.5, 2.5, 9.0], pa.float32()),
            "c": pa.array(["a", "b", "a", "b"]).dictionary_encode(),
            "b": pa.array([True, False, True, None]),
            "d": pa.array([date(2020, 1, 1), None, date(2020, 1, 3), date(2020, 1, 4)]),
            "t": pa.array([datetime(2020, 1, 1, h) for h in range(4)], pa.timestamp("us", tz="UTC")),
            "v": pa.array([[1.0, 2.0], [3.0, 5.0], [5.0, 2.0], [1.0, 1.0]]),
            "w": pa.array([[1.0, 2.0]] * 4, pa.list_(pa.float32(), 2)),
            "s": pa.array([{"a": 1}] * 4),
        }
    )
    pq.write_table(table, tmp_path / "d.parquet")
    source = open_table(tmp_path / "d.parquet")
    made = Features.learn(source)
    kinds = {treatment.name: treatment.kind for treatment in made.features.treatments}
    assert kinds == {
        "n": "number", "f": "number", "c": "category", "b": "number", "d": "number", "t": "number", "v": "vector",
        "w": "vector", "s": "left out",
    }  # fmt: skip
    v = np.array([[1.0, 2.0], [3.0, 5.0], [5.0, 2.0], [1.0, 1.0]])
    start = made.features.names.index("v[0]")
    assert np.allclose(dense(made.X)[:, start : start + 2], (v - v.mean(axis=0)) / v.std(axis=0), atol=1e-6)
    again, _ = made.features.apply(source)
    assert np.allclose(dense(again), dense(made.X))
    pq.write_table(table.set_column(6, "v", pa.array([[1.0]] * 4)), tmp_path / "other.parquet")
    other = open_table(tmp_path / "other.parquet")
    with pytest.raises(ValueError, match=r"row 0, column 'v' is array\(\[1\.\]\), expected a list of 2 numbers"):
        made.features.apply(other)


def test_only_some_rows_are_learned_from(tmp_path):
    (tmp_path / "d.csv").write_text("x,c,tags\n1,a,t\n2,b,\n3,a,u\n4,b,t\n6,b,t\n")
    table = read_table(tmp_path / "d.csv", candidates="tags")
    made = learn_features(table)
    x = np.array([1, 3, 4, 6.0])
    assert np.allclose(dense(made.X)[:, 0], (x - x.mean()) / x.std())
    whole, _ = made.features.apply(table.source)
    assert np.allclose(dense(whole)[table.rows], dense(made.X))
    part, _ = made.features.apply(table.source, rows=table.rows)
    assert np.allclose(dense(part), dense(made.X))


def test_a_column_that_repeats_the_labels_is_noted(tmp_path):
    rows = "".join(f"{i % 7},{'a;b' if i % 2 else 'b'},{'b' if i % 3 else 'a;b'}\n" for i in range(30))
    (tmp_path / "d.csv").write_text("x,tags,truth\n" + rows)
    table = read_table(tmp_path / "d.csv", candidates="tags")
    learn_features(table, categorical=["x"])
    assert table.notes == [
        "column 'truth' names labels, and is used as a feature; if it holds the answers, leave it out with "
        "ignore=['truth']"
    ]


def test_matrices_stay_as_they_came(tmp_path):
    np.savez(tmp_path / "d.npz", X=np.arange(6.0).reshape(3, 2), candidates=[[1], [0], [1]])
    made = learn_features(read_table(tmp_path / "d.npz"))
    assert made.X.tolist() == [[0, 1], [4, 5]]
    X, _ = made.features.apply(open_table(tmp_path / "d.npz"), rows=np.array([1]))
    assert X.tolist() == [[2, 3]]
    assert made.features.describe() == {"X": "matrix of 2 numbers, as it came"}
    np.savez(tmp_path / "wide.npz", X=np.ones((3, 3)))
    with pytest.raises(ValueError, match="has 3 features, the model was trained with 2"):
        made.features.apply(open_table(tmp_path / "wide.npz"))
    with pytest.raises(ValueError, match="trained on a matrix of features, and this holds columns"):
        made.features.apply({"x": [1.0]})


def test_a_sparse_file_may_lack_the_last_features(tmp_path):
    (tmp_path / "a.svm").write_text("0 1:1 5:1\n1 2:1\n")
    (tmp_path / "b.svm").write_text(" 1:3\n")
    made = learn_features(read_table(tmp_path / "a.svm"))
    X, _ = made.features.apply(open_table(tmp_path / "b.svm"))
    assert X.toarray().tolist() == [[0, 3, 0, 0, 0, 0]]


def test_a_column_that_is_missing_later_is_told():
    features, _ = learned("c", ["1", "2", "3.5"])
    with pytest.raises(ValueError, match="has no column 'c', from which the model learned; it has 'x', 'C'"):
        features.apply({"x": [1.0], "C": ["1"]})


def test_kept_as_json_and_read_back():
    words = ["red house", "blue house", "red sea", "blue sea", None, "red town of sea"]
    table = {
        "n": ["1", "", "3", "4", "7", "9"],
        "c": ["a", "b", "a", "b", "once", None],
        "t": [f"{w} and more" if w else w for w in words],
        "d": [f"2020-01-0{i + 1}" for i in range(6)],
        "z": [0, 0, 0, 0, 0, 3],
        "v": np.arange(12.0).reshape(6, 2),
        "same": ["x"] * 6,
    }
    made = Features.learn(table, text=["t"])
    again = Features.from_json(json.loads(json.dumps(made.features.to_json())))
    assert again == made.features
    X, _ = again.apply(table)
    assert np.array_equal(dense(X), dense(made.X))


NUMBER, TEXT = Features([Number("x", "number", 0.0, 0.0, 1.0), Text("t", ["a", "b"], [1.0, 2.0])]).to_json()


@pytest.mark.parametrize(
    ("stored", "told"),
    [({}, "expected a list"), ([3], "expected fields"), ([{"name": "x"}], "has no 'kind'"),
     ([{"kind": "magic", "name": "x"}], "'magic'"), ([{"kind": "number", "name": "x"}], "has no 'unit'"),
     ([NUMBER | {"fill": "0"}], "fill is '0', expected a finite number"), ([NUMBER | {"scale": 0}], "divided by 0"),
     ([NUMBER | {"more": 0}], "field 'more'"), ([TEXT | {"weights": [1.0]}], "different lengths"),
     ([TEXT | {"terms": ["a", "a"]}], "names a value twice"), ([TEXT | {"terms": ["a", 2]}], "expected text")],
)  # fmt: skip
def test_what_is_no_treatment_of_columns_is_told(stored, told):
    Features.from_json([NUMBER, TEXT])
    with pytest.raises(ValueError, match=told):
        Features.from_json(stored)


def test_a_table_in_memory_knows_its_cells_and_no_format(tmp_path):
    table = as_table({"x": [1.0]})
    assert as_table(table) is table
    assert table.where(0, "x") == "the table: row 0, column 'x'"
    with pytest.raises(ValueError, match="no file format"):
        table.copy(tmp_path / "x.csv")
