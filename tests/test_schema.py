"""Schemas: what a file of our own must hold; and sparse matrices from files, which are whole or refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.schema import Array, check_schema, checked_csr

RUN = {"seed": int, "loss": float, "done": bool, "files": [str], "best": (None, {"epoch": int}), "note?": str}
GOOD = {"seed": 1, "loss": 1, "done": True, "files": ["a"], "best": None}


def test_what_is_right_passes():
    check_schema(GOOD, RUN, "run")
    check_schema({**GOOD, "best": {"epoch": 3}, "note": "slow", "files": ()}, RUN, "run")
    check_schema({"a": 1, "b": [2]}, {str: object}, "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": True}, "run.seed is True, expected a whole number"),
        ({"seed": 1.0}, "run.seed is 1.0, expected a whole number"),
        ({"loss": float("nan")}, "run.loss is nan, expected a finite number"),
        ({"loss": 10**400}, "run.loss is 1000"),
        ({"done": 1}, "run.done is 1, expected true or false"),
        ({"files": "a"}, "run.files is 'a', expected a list"),
        ({"files": [["a"]]}, r"run.files\[0\] is \['a'\], expected text"),
        ({"best": {"epoch": "3"}}, "run.best.epoch is '3', expected a whole number"),
        ({"best": {}}, "run.best has no 'epoch'"),
        ({"more": 1}, "run has a field 'more', which is not known"),
        ({"note": None}, "run.note is None, expected text"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(change, message):
    with pytest.raises(ValueError, match=message):
        check_schema(GOOD | change, RUN, "run")


def test_a_missing_field_is_named():
    with pytest.raises(ValueError, match="run has no 'seed'"):
        check_schema({key: GOOD[key] for key in GOOD if key != "seed"}, RUN, "run")


WEIGHTS = {"coef": Array("f", "features+1", "labels"), "cuts": Array("f", "labels", least=0, most=1)}


def test_sizes_of_one_name_are_the_same_everywhere():
    right = {"coef": np.zeros((4, 2)), "cuts": np.full(2, 0.5)}
    check_schema(right, WEIGHTS, "model", {"features": 3})
    check_schema(right, WEIGHTS, "model")
    for change, sizes in (
        ({"cuts": np.full(3, 0.5)}, {}),
        ({}, {"features": 4}),
        ({"cuts": np.array([0.5, 1.5])}, {}),
        ({"cuts": np.array([0.5, np.nan])}, {}),
        ({"cuts": np.array([0, 1])}, {}),
        ({"cuts": [0.5, 0.5]}, {}),
        ({"coef": np.zeros((4, 2, 1))}, {}),
        ({"coef": sp.csr_array(np.zeros((4, 2)))}, {}),
    ):
        with pytest.raises(ValueError, match="expected an array"):
            check_schema(right | change, WEIGHTS, "model", dict(sizes))


def test_entries_of_a_list_have_sizes_of_their_own_and_those_around_them():
    layers = [np.zeros((2, 3)), np.zeros((5, 3))]
    check_schema(
        {"n": np.zeros(3), "layers": layers}, {"n": Array("f", "out"), "layers": [Array("f", "in", "out")]}, "m"
    )
    with pytest.raises(ValueError, match=r"m.layers\[1\]"):
        check_schema([np.zeros(3), [np.zeros(2)]], [Array("f", "n")], "m.layers")


def test_entries_of_one_place_of_a_sparse_matrix_add_up():
    twice = sp.csr_array((np.ones(2, np.int8), np.zeros(2, np.int32), np.array([0, 2])), shape=(1, 1))
    check_schema(twice, Array("i", 1, 1, sparse=True, most=2), "carried")
    with pytest.raises(ValueError, match="carried is an array"):
        check_schema(twice, Array("i", 1, 1, sparse=True, most=1), "carried")


def parts(**changed):
    """The three arrays of [[1, 0, 2], [0, 3, 0]] and its shape, with some of them replaced."""
    whole = {
        "data": np.array([1.0, 2.0, 3.0]),
        "indices": np.array([0, 2, 1]),
        "indptr": np.array([0, 2, 3]),
        "shape": (2, 3),
    }
    return whole | changed


def test_a_whole_matrix_comes_back_with_indices_of_32_bits() -> None:
    matrix = checked_csr(**parts())
    np.testing.assert_array_equal(matrix.toarray(), [[1, 0, 2], [0, 3, 0]])
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32


def test_a_matrix_without_entries_is_a_matrix() -> None:
    empty = np.array([], dtype=np.int64)
    assert checked_csr(empty, empty, np.zeros(4, dtype=np.int64), (3, 2)).shape == (3, 2)
    assert checked_csr(empty, empty, np.zeros(1, dtype=np.int64), (0, 2)).shape == (0, 2)


def test_a_column_beyond_32_bits_keeps_its_place() -> None:
    matrix = checked_csr(np.ones(1), np.array([2**40]), np.array([0, 1]), (1, 2**40 + 1))
    assert matrix.indices.dtype == np.int64
    assert matrix.indices.tolist() == [2**40]


def test_random_matrices_of_scipy_survive() -> None:
    for seed in range(20):
        made = sp.random_array((7, 5), density=0.4, format="csr", rng=np.random.default_rng(seed))
        again = checked_csr(made.data, made.indices, made.indptr, made.shape)
        np.testing.assert_array_equal(again.toarray(), made.toarray())


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        # SciPy's full check passes over the first two, and the next product ends the process.
        ({"data": np.array([]), "indices": np.array([], dtype=int), "indptr": np.array([0, 10**9, 0])}, "falls after"),
        ({"indptr": np.array([0, 3, 0])}, "indptr falls after position 1"),
        ({"indptr": np.array([1, 2, 3])}, "goes from 1 to 3"),
        ({"indptr": np.array([0, 2, 9])}, "goes from 0 to 9"),
        ({"indptr": np.array([0, 3])}, "indptr has type int64 and shape (2,), expected iu and (3,)"),
        ({"indptr": np.array([0.0, 2.0, 3.0])}, "type float64"),
        ({"indptr": np.array([0, 2**63, 3], dtype=np.uint64)}, "falls after position 1"),
        ({"indices": np.array([0, 3, 1])}, "there are 3 columns"),
        ({"indices": np.array([0, -1, 1])}, "indices go from -1"),
        ({"indices": np.array([0, 2])}, "indices has type int64 and shape (2,)"),
        ({"indices": np.array([[0, 2, 1]])}, "shape (1, 3)"),
        ({"data": np.array(["a", "b", "c"])}, "type <U1"),
        ({"data": np.array(3.0)}, "shape ()"),
        ({"shape": (2, -3)}, "from 0 to"),
        ({"shape": np.array([2, 2**63 + 9], dtype=np.uint64)}, "from 0 to"),
        ({"shape": (2,)}, "two whole numbers"),
        ({"shape": np.array([2.0, 3.0])}, "two whole numbers"),
    ],
)
def test_a_part_that_does_not_fit_is_named(changed, told) -> None:
    with pytest.raises(ValueError) as error:
        checked_csr(**parts(**changed))
    assert told in str(error.value)
