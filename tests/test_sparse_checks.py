"""A sparse matrix from a file is whole, or it is refused with a sentence."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.sparse_checks import checked_csr


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
        ({"indptr": np.array([0, 3])}, "indptr has 2 entries, expected 3"),
        ({"indptr": np.array([0.0, 2.0, 3.0])}, "type float64"),
        ({"indptr": np.array([0, 2**63, 3], dtype=np.uint64)}, "falls after position 1"),
        ({"indices": np.array([0, 3, 1])}, "there are 3 columns"),
        ({"indices": np.array([0, -1, 1])}, "indices go from -1"),
        ({"indices": np.array([0, 2])}, "2 indices for 3 entries"),
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
