"""A user's own files: the same small table in every format."""

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.tree import DecisionTreeClassifier

from propml.corruption import independent_flips
from propml.corruption.files import write_candidates
from propml.file_errors import FileError
from propml.tables import read_dataset

X = np.array([[1.5, 2.0], [0.0, 4.0], [5.0, 0.0]])
GIVEN = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]])
TRUE = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1]])
TEXT = """id,size,weight,candidates,truth
p1,1.5,2,beach; sea,beach
p2,0,4,sea,sea
p3,5,0,"beach;sun",sun;beach
"""
COLUMNS = """id,size,beach,sea,sun,weight
p1,1.5,1,1,0,2
p2,0,0,1,0,4
p3,5,1,0,1,0
"""


def write(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def check(data, truth=True):
    dense = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(dense, X)
    np.testing.assert_array_equal(data.candidates.to_matrix(), GIVEN)
    if truth:
        np.testing.assert_array_equal(data.truth, TRUE)
        assert data.truth.dtype == np.uint8
    else:
        assert data.truth is None


def test_csv_with_a_text_column(tmp_path):
    data = read_dataset(write(tmp_path, TEXT), candidates="candidates", truth="truth", ignore=["id"])
    check(data)
    assert data.name == "mine"
    assert data.label_names == ("beach", "sea", "sun")
    assert data.feature_names == ("size", "weight")


def test_csv_with_label_columns(tmp_path):
    path = write(tmp_path, COLUMNS)
    check(read_dataset(path, candidates=["beach", "sea", "sun"], features=["size", "weight"]), truth=False)
    turned = read_dataset(path, candidates=["sun", "beach", "sea"], ignore=["id"])
    np.testing.assert_array_equal(turned.candidates.to_matrix(), GIVEN[:, [2, 0, 1]])
    named = read_dataset(path, candidates=["beach", "sea", "sun"], ignore=["id"], labels=["a", "b", "c"])
    assert named.label_names == ("a", "b", "c")


def test_true_labels_as_columns_and_words_for_numbers(tmp_path):
    rows = [
        f"{x[0]},{x[1]},{','.join(str(bool(v)) for v in g)},{','.join(map(str, t))}"
        for x, g, t in zip(X, GIVEN, TRUE, strict=True)
    ]
    path = write(tmp_path, "x,y,a,b,c,ta,tb,tc\n" + "\n".join(rows))
    check(read_dataset(path, candidates=["a", "b", "c"], truth=["ta", "tb", "tc"]))


def test_tsv_gzip_bom_other_delimiters_and_blank_lines(tmp_path):
    tabs = TEXT.replace('"', "").replace(",", "\t")
    path = tmp_path / "mine.tsv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + tabs.replace("\n", "\r\n\r\n").encode()))
    check(read_dataset(path, candidates="candidates", truth="truth", ignore=["id"]))
    bars = TEXT.replace('"', "").replace(";", "+").replace(",", "|")
    path = write(tmp_path, bars, "mine.data")
    data = read_dataset(
        path, candidates="candidates", truth="truth", ignore=["id"], sep="+", delimiter="|", file_format="csv"
    )
    check(data)


def test_unknown_entries_and_empty_rows(tmp_path):
    path = write(tmp_path, "x,a,b\n1,1,-1\n2,0,0\n3,0,-1\n")
    with pytest.raises(ValueError, match=r'mine\.csv: row 1 has no candidate label; drop it, or pass empty="ignore"'):
        read_dataset(path, candidates=["a", "b"])
    dropped = read_dataset(path, candidates=["a", "b"], empty="drop")
    np.testing.assert_array_equal(dropped.X, [[1], [3]])
    np.testing.assert_array_equal(dropped.candidates.states.toarray(), [[1, -1], [0, -1]])
    assert read_dataset(path, candidates=["a", "b"], empty="ignore").X.shape == (3, 1)
    with pytest.raises(ValueError, match="empty is 'zero'"):
        read_dataset(path, candidates=["a", "b"], empty="zero")
    none = write(tmp_path, "x,a\n1,0\n2,0\n")
    with pytest.raises(ValueError, match=r"row 0 \(and 1 more rows\) has no candidate"):
        read_dataset(none, candidates=["a"])
    with pytest.raises(ValueError, match="no row has a candidate label"):
        read_dataset(none, candidates=["a"], empty="drop")


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (TEXT, {}, "say which columns hold the candidate labels"),
        (TEXT, {"candidates": "labels"}, "has no column 'labels'; it has 'id', 'size'"),
        (TEXT, {"candidates": "candidates", "ignore": ["identifier"]}, "has no column 'identifier'"),
        (TEXT, {"candidates": "candidates", "ignore": ["truth"]},
         r"row 0 \(line 2\), column 'id' is 'p1', expected a finite number; .* ignore=\['id'\]"),
        (TEXT.replace("0,4", ",4"), {"candidates": "candidates", "features": ["weight", "size"]},
         r"row 1 \(line 3\), column 'size' is ''"),
        (TEXT.replace("0,4", "inf,4"), {"candidates": "candidates", "features": ["size"]}, "column 'size' is 'inf'"),
        (TEXT, {"candidates": "candidates", "features": ["candidates"]}, "'candidates' is named as a feature and"),
        (TEXT, {"candidates": "candidates", "features": []}, "no column is left for the features"),
        (TEXT, {"candidates": "candidates", "features": ["size"], "labels": ["beach", "sea"]},
         r"row 2 \(line 4\), column 'candidates' has label 'sun', which is not one of the labels"),
        (COLUMNS, {"candidates": ["sea", "size"], "features": ["weight"]},
         r"row 0 \(line 2\), column 'size' is '1.5', expected 0 or 1 or -1"),
        (COLUMNS, {"candidates": ["sea", "sun"], "truth": ["beach"], "features": ["weight"]},
         "1 columns of 0 and 1 were named for 2 labels"),
        (TEXT + "p4,1\n", {"candidates": "candidates"}, "line 5 has 2 cells, the header has 5"),
        (TEXT + 'p4,1,2,"sea\n', {"candidates": "candidates"}, "line 5 is not valid CSV"),
        ("", {"candidates": "a"}, "has no header"),
        ("a,b\n", {"candidates": "a"}, "has a header and no rows"),
        ("a,b,a\n1,2,3\n", {"candidates": "a"}, "has two columns named 'a'"),
        ("a,x\n,1\n;,2\n", {"candidates": "a"}, "column 'a' names no label"),
    ],
)  # fmt: skip
def test_broken_tables_give_one_clear_error(tmp_path, text, options, message):
    with pytest.raises(ValueError, match=message):
        read_dataset(write(tmp_path, text), **options)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.csv does not exist"):
        read_dataset(tmp_path / "absent.csv", candidates="a")
    with pytest.raises(ValueError, match="the format is not clear from the name"):
        read_dataset(write(tmp_path, "words and nothing else", "mine.doc"), candidates="a")
    with pytest.raises(ValueError, match="file_format is 'doc'; choose one of csv, tsv, json"):
        read_dataset(write(tmp_path, TEXT), candidates="a", file_format="doc")
    path = tmp_path / "latin.csv"
    path.write_bytes("größe,a\n1,x\n".encode("latin-1"))
    with pytest.raises(ValueError, match="is not UTF-8 text"):
        read_dataset(path, candidates="a")
    path.write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(ValueError, match="is not a readable"):
        read_dataset(path, candidates="a")


def test_parquet_with_text_lists_and_columns(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "mine.parquet"
    names = ["beach", "sea", "sun"]
    lists = [[n for n, v in zip(names, row, strict=True) if v] for row in GIVEN]
    columns = {
        "x": X[:, 0], "y": X[:, 1].astype(np.int32), "lists": lists, "text": ["|".join(row) for row in lists],
        **{f"t{j}": TRUE[:, j].astype(bool) for j in range(3)},
    }  # fmt: skip
    parquet.write_table(pa.table(columns), path)
    truth = ["t0", "t1", "t2"]
    check(read_dataset(path, candidates="lists", truth=truth, ignore=["text"]))
    check(read_dataset(path, candidates="text", truth=truth, ignore=["lists"], sep="|"))
    turned = read_dataset(path, candidates=truth, truth="lists", features=["x", "y"], labels=names)
    np.testing.assert_array_equal(turned.candidates.to_matrix(), TRUE)
    np.testing.assert_array_equal(turned.truth, GIVEN)
    with pytest.raises(ValueError, match=r"row 0, column 'x' is 1.5, expected label names; for columns of 0 and 1"):
        read_dataset(path, candidates="x")


def test_parquet_that_is_broken(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "mine.parquet"
    parquet.write_table(pa.table({"x": [1.0, None], "a": ["b", None]}), path)
    with pytest.raises(ValueError, match="row 1, column 'x' is nan"):
        read_dataset(path, candidates="a", empty="ignore")
    whole = path.read_bytes()
    path.write_bytes(whole[:-50])
    with pytest.raises(ValueError, match="is not a readable Parquet file"):
        read_dataset(path, candidates="a")
    parquet.write_table(pa.table({"x": pa.array([], pa.float64())}), path)
    with pytest.raises(ValueError, match="has no rows"):
        read_dataset(path, candidates="a")


def test_svmlight_stays_sparse(tmp_path):
    path = tmp_path / "mine.svm"
    dump_svmlight_file(X, GIVEN, str(path), multilabel=True, zero_based=True)
    data = read_dataset(path)
    assert isinstance(data.X, sp.csr_array)
    check(data, truth=False)
    assert data.label_names == ("0", "1", "2")
    dump_svmlight_file(X, GIVEN, str(path), multilabel=True, zero_based=False)
    counted_from_1 = read_dataset(path).X.toarray()
    np.testing.assert_array_equal(counted_from_1, np.column_stack([np.zeros(3), X]))
    path.write_text("2,10 1:1\n10 2:3.5\n")
    assert read_dataset(path).label_names == ("2", "10")  # by number, not by text
    assert read_dataset(path, labels=["10", "2", "7"]).candidates.to_lists() == [["10", "2"], ["10"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:x\n", "is not a readable svmlight file"),
        ("a 1:1\n", "is not a readable svmlight file"),
        ("1 1:nan\n", "entries that are not finite"),
        ("1 50000000:1\n", "feature index"),
        ("# nothing\n", "no rows or no features"),
    ],
)
def test_broken_svmlight(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_dataset(write(tmp_path, text, "mine.svmlight"))


def test_columns_cannot_be_named_where_there_are_none(tmp_path):
    with pytest.raises(ValueError, match="svmlight files have no columns to name"):
        read_dataset(write(tmp_path, "1 1:1\n", "mine.svm"), candidates="a")


def test_npz_dense_and_sparse(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, X=X, candidates=GIVEN, truth=TRUE, label_names=["a", "b", "c"], feature_names=["x", "y"])
    data = read_dataset(path)
    check(data)
    assert (data.label_names, data.feature_names) == (("a", "b", "c"), ("x", "y"))
    csr = sp.csr_array(X)
    np.savez(path, X_data=csr.data, X_indices=csr.indices, X_indptr=csr.indptr, X_shape=csr.shape, candidates=GIVEN)
    data = read_dataset(path)
    assert isinstance(data.X, sp.csr_array)
    check(data, truth=False)
    assert data.label_names == ("0", "1", "2")


CSR = sp.csr_array(X)
PARTS = {"X_data": CSR.data, "X_indices": CSR.indices, "X_indptr": CSR.indptr, "X_shape": CSR.shape}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"candidates": GIVEN}, "the array X is missing"),
        ({"X": X}, "the array candidates is missing"),
        ({"X": X[0], "candidates": GIVEN}, r"X has shape \(2,\)"),
        ({"X": X + np.inf, "candidates": GIVEN}, "entries that are not finite"),
        ({"X": X, "candidates": GIVEN[0]}, r"candidates has shape \(3,\)"),
        ({"X": X, "candidates": GIVEN[:2]}, r"candidates has shape \(2, 3\), expected \(3, n_labels\)"),
        ({"X": X, "candidates": GIVEN * 3}, "3"),
        ({"X": X, "candidates": GIVEN, "truth": TRUE - 1}, "truth has entries other than 0 and 1"),
        ({"X": X, "candidates": np.array([[{}]], dtype=object)}, "readable npz file of plain arrays"),
        ({**PARTS, "X_indices": CSR.indices + 5, "candidates": GIVEN}, "do not form a sparse matrix"),
        # SciPy's own check passes over this one, and the process would end with a segmentation fault.
        ({**PARTS, "X_data": X[0, :0], "X_indices": CSR.indices[:0], "X_indptr": np.array([0, 10**9, 10**9, 0]),
          "candidates": GIVEN}, r"do not form a sparse matrix \(indptr falls"),
        ({**PARTS, "X_shape": np.array([3, 2**50]), "candidates": GIVEN}, "beyond 10000000"),
        ({"X": np.empty((0, 2**50)), "candidates": GIVEN}, "X has shape"),
        ({"X": X, "candidates": np.empty((0, 2**50), np.int8)}, "candidates has shape"),
        ({"X": X, "candidates": GIVEN, "label_names": np.array("a")}, r"label_names has shape \(\)"),
        ({"X": X, "candidates": GIVEN, "label_names": ["a"] * 9}, r"label_names has shape \(9,\)"),
        ({**PARTS, "X_shape": np.array(["a", "b"]), "candidates": GIVEN}, "do not form a sparse matrix"),
    ],
)  # fmt: skip
def test_broken_npz(tmp_path, arrays, message):
    np.savez(tmp_path / "mine.npz", **arrays)
    with pytest.raises(FileError, match=message) as error:
        read_dataset(tmp_path / "mine.npz")
    assert "mine.npz" in str(error.value)


def test_a_member_that_is_no_array_is_named(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, X=X, candidates=GIVEN)
    with zipfile.ZipFile(path, "a") as zipped:
        zipped.writestr("notes.txt", "hello")
    with pytest.raises(FileError, match=r"mine\.npz .*its member 'notes\.txt' is not an array"):
        read_dataset(path)


def test_npz_that_is_damaged(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez_compressed(path, X=np.random.default_rng(0).random((50, 50)), candidates=GIVEN)
    whole = path.read_bytes()
    for broken in (whole[:500], b"", b"hello", whole[:300] + bytes(100) + whole[400:]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match="is not a readable npz file"):
            read_dataset(path)


def test_a_cell_may_be_a_whole_document(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("x,tags\n1,{0}\n2,{0}\n".format("a" * 200_000))
    assert read_dataset(path, candidates="tags").candidates.labels == ("a" * 200_000,)


def test_labels_that_look_like_formulas_come_back_from_a_file_of_ours(tmp_path):
    made = independent_flips(np.eye(3, dtype=int)[[0, 1, 2, 0]], 0.5, labels=["=a", "-b", "c"], random_state=0)
    write_candidates(tmp_path / "made.csv", made, np.arange(4), {})
    read = read_dataset(tmp_path / "made.csv", candidates="candidates")
    assert set(read.candidates.labels) == {"=a", "-b", "c"}


def test_parquet_text_that_is_no_text_is_told(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "mine.parquet"
    plain = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pq.write_table(pa.table({"x": [1.0], "tags": ["beach"]}), path, **plain)
    content = path.read_bytes()
    assert content.count(b"beach") == 1
    path.write_bytes(content.replace(b"beach", b"\xffeach"))
    with pytest.raises(FileError, match=r"mine\.parquet is not a readable Parquet file"):
        read_dataset(path, candidates="tags")


def test_sparse_features_have_indices_that_trees_take(tmp_path):
    """scikit-learn's trees refuse indices of 64 bits."""
    np.savez(tmp_path / "a.npz", **PARTS | {"X_indices": CSR.indices.astype(np.int64)}, candidates=GIVEN)
    (tmp_path / "a.svm").write_text("0 0:1.5 1:2\n1 1:4\n0,2 0:5\n")
    for name in ("a.npz", "a.svm"):
        made = read_dataset(tmp_path / name).X
        assert made.indices.dtype == made.indptr.dtype == np.int32
        DecisionTreeClassifier().fit(made, [0, 1, 1])
