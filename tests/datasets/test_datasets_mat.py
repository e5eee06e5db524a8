"""PML .mat files: both spellings, labels × rows, sparse stays sparse."""

import struct

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import loadmat, savemat

from propml.datasets.array_files import read_mat, read_mat5

X = np.array([[0.5, 1.0], [2.0, 3.0], [4.0, 5.5]])
TRUE = np.array([[1, 0, 0], [0, 0, 1]])  # two labels × three rows
CANDIDATES = np.array([[1, 0, 1], [1, 0, 1]])


@pytest.fixture
def save(tmp_path):
    def write(**variables):
        savemat(tmp_path / "set.mat", variables)
        return tmp_path / "set.mat"

    return write


@pytest.mark.parametrize("key", ["partial_labels", "candidate_labels"])
def test_both_spellings_and_the_turned_label_matrices(save, key):
    data = read_mat(save(data=X, target=TRUE, **{key: CANDIDATES}))
    assert data.name == "set"
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.truth, [[1, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(data.candidates.to_matrix(), [[1, 1], [0, 0], [1, 1]])
    statistics = data.statistics()
    assert (statistics.rows_without_truth, statistics.rows_without_candidates) == (1, 1)


def test_without_target_there_is_no_truth(save):
    assert read_mat(save(data=X, partial_labels=CANDIDATES)).truth is None


def test_sparse_stays_sparse_and_so_do_rare_counts(save):
    stored = sp.csc_array(X)
    made = read_mat(save(data=stored, partial_labels=sp.csc_array(CANDIDATES), target=sp.csc_array(TRUE)))
    assert isinstance(made.X, sp.csr_array)
    np.testing.assert_array_equal(made.X.toarray(), X)
    np.testing.assert_array_equal(made.truth, TRUE.T)
    counts = np.zeros((3, 40))
    counts[1, 7] = 3
    made = read_mat(save(data=counts, partial_labels=CANDIDATES))
    assert isinstance(made.X, sp.csr_array)
    assert made.X.dtype == np.float64
    np.testing.assert_array_equal(made.X.toarray(), counts)
    counts[1, 7] = 0.5  # no count: stays dense
    assert isinstance(read_mat(save(data=counts, partial_labels=CANDIDATES)).X, np.ndarray)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"data": X, "target": TRUE}, "holds data, target; expected the variables data, target and one of"),
        ({"target": TRUE, "partial_labels": CANDIDATES}, "holds partial_labels, target; expected"),
        ({"features": X}, "holds features; expected"),
        ({"data": X, "partial_labels": CANDIDATES.T}, r"partial_labels has shape \(3, 2\), expected \(n_labels, 3\)"),
        ({"data": X, "partial_labels": CANDIDATES, "target": TRUE[:1]}, r"truth has shape \(3, 1\), expected 3 rows"),
        ({"data": X, "partial_labels": CANDIDATES * 2}, "partial_labels is 2 for label 0 of row 0, expected 0 or 1"),
        ({"data": X, "partial_labels": CANDIDATES, "target": TRUE - 1}, "target is -1 for label 0 of row 1"),
        ({"data": X * np.nan, "partial_labels": CANDIDATES}, "data has entries that are not finite"),
        ({"data": "text", "partial_labels": CANDIDATES}, "data is not a matrix of real numbers"),
        ({"data": X * 1j, "partial_labels": CANDIDATES}, "data is not a matrix of real numbers"),
        ({"data": np.ones((2, 2, 2)), "partial_labels": CANDIDATES}, r"data has shape \(2, 2, 2\) .*expected a matrix"),
        ({"data": np.ones((0, 2)), "partial_labels": CANDIDATES}, r"data has shape \(0, 2\) .*expected a matrix"),
    ],
)  # fmt: skip
def test_broken_content_gives_one_clear_error(save, variables, message):
    with pytest.raises(ValueError, match=message):
        read_mat(save(**variables))


def test_broken_files_give_one_clear_error(save, tmp_path):
    path = save(data=X, target=TRUE, partial_labels=CANDIDATES)
    whole = path.read_bytes()
    for end in (0, 60, 140, len(whole) - 30):
        path.write_bytes(whole[:end])
        with pytest.raises(ValueError, match=r"set\.mat"):
            read_mat(path)
    path.write_bytes(b"hello" * 50)
    with pytest.raises(ValueError, match="not a MATLAB file of version 5 to 7"):
        read_mat(path)
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + bytes(100))
    with pytest.raises(ValueError, match=r"v7\.3"):
        read_mat(path)
    with pytest.raises(FileNotFoundError):
        read_mat(tmp_path / "absent.mat")


KINDS = ["u1", "i1", "u2", "i2", "u4", "i4", "i8", "f4", "f8"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_read_as_scipy_reads_them(tmp_path, kind, compressed):
    path = tmp_path / "x.mat"
    data = np.arange(15).reshape(5, 3).astype(kind)
    wide = sp.csc_array(np.where(np.arange(24) % 5 == 0, np.arange(24), 0).reshape(4, 6).astype(float))
    variables = {"data": data, "a": data[:1, :1], "target": wide, "unread": ["text"], "long_name_" * 3: data}
    savemat(path, variables, do_compression=compressed)
    ours, theirs = read_mat5(path, {"data", "a", "target"}), loadmat(path)
    assert set(ours) == {key for key in theirs if not key.startswith("__")}
    assert ours["unread"] is None
    for key in ("data", "a"):
        np.testing.assert_array_equal(ours[key], theirs[key])
        assert ours[key].dtype == theirs[key].dtype
    np.testing.assert_array_equal(ours["target"].toarray(), theirs["target"].toarray())


def test_a_file_from_a_big_endian_machine(tmp_path):
    """Written here byte by byte after the format's description: a 2 × 2 matrix of doubles named data."""
    flags = struct.pack(">IIII", 6, 8, 6, 0)
    shape = struct.pack(">IIii", 5, 8, 2, 2)
    name = struct.pack(">HH4s", 4, 1, b"data")  # small element: size, type, bytes
    values = struct.pack(">II4d", 9, 32, 1, 2, 3, 4)
    matrix = flags + shape + name + values
    path = tmp_path / "x.mat"
    path.write_bytes(b"old".ljust(124) + b"\x01\x00MI" + struct.pack(">II", 14, len(matrix)) + matrix)
    np.testing.assert_array_equal(read_mat5(path, {"data"})["data"], [[1, 3], [2, 4]])  # columns first


def patched(path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert content.count(old) == 1
    path.write_bytes(content.replace(old, new))


def test_damaged_sparse_matrices_are_refused(save):
    """Such files make SciPy's own reader write outside its memory."""
    stored = sp.csc_array((np.array([7.0, 8.0]), np.array([1, 4]), np.array([0, 1, 1, 2])), shape=(6, 3))
    labels = np.ones((2, 6))
    rows, ends = struct.pack("<2i", 1, 4), struct.pack("<4i", 0, 1, 1, 2)
    for old, new in (
        (rows, struct.pack("<2i", 1, 1000)),
        (rows, struct.pack("<2i", 1, -4)),
        (ends, struct.pack("<4i", 0, 5000, 1, 2)),
        (ends, struct.pack("<4i", 0, 1, 1, 9)),
        (ends, struct.pack("<4i", 0, 1, 1, -1)),
        (ends, struct.pack("<4i", 0, 1000, 1000, 0)),  # over this one SciPy's full check passes
    ):
        path = save(data=stored, partial_labels=labels)
        assert read_mat(path).X.nnz == 2
        patched(path, old, new)
        with pytest.raises(ValueError, match=r"set\.mat is not a readable \.mat file"):
            read_mat(path)


def test_damaged_structure_is_refused(save):
    shape = struct.pack("<IIii", 5, 8, 3, 2)  # the dimensions of data
    numbers = struct.pack("<6d", *X.T.ravel())
    for old, new in (
        (shape, struct.pack("<IIii", 5, 8, 3, 3)),  # more entries than there are
        (shape, struct.pack("<IIii", 5, 8, -3, -2)),
        (shape, struct.pack("<IIii", 5, 6, 3, 2)),  # ends inside a number
        (shape, struct.pack("<IIii", 99, 8, 3, 2)),  # no such type
        (shape, struct.pack("<IIii", 5, 8000, 3, 2)),  # longer than the file
        (struct.pack("<II", 9, 48) + numbers, struct.pack("<II", 77, 48) + numbers),
    ):
        path = save(data=X, partial_labels=CANDIDATES)
        patched(path, old, new)
        with pytest.raises(ValueError, match=r"set\.mat is not a readable \.mat file"):
            read_mat(path)
    path = save(data=X, partial_labels=CANDIDATES)
    path.write_bytes(path.read_bytes() + b"\0\0\0")
    with pytest.raises(ValueError, match=r"set\.mat is not a readable \.mat file"):
        read_mat(path)
    path = save(data=sp.csc_array(X), partial_labels=CANDIDATES)
    patched(path, shape, struct.pack("<IIii", 5, 8, 3, 5))
    with pytest.raises(ValueError, match=r"set\.mat is not a readable \.mat file"):
        read_mat(path)


def test_every_flipped_bit_of_a_compressed_file_is_noticed(tmp_path):
    path = tmp_path / "set.mat"
    savemat(path, {"data": X, "target": TRUE, "partial_labels": CANDIDATES}, do_compression=True)
    whole = path.read_bytes()
    for position in range(136, len(whole), 7):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 16]) + whole[position + 1 :])
        with pytest.raises(ValueError, match=r"set\.mat"):
            read_mat(path)
