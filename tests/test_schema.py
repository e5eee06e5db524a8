"""Schemas: what a file of our own must hold."""

import numpy as np
import pytest
import scipy.sparse as sp

from propml.schema import Array, check_schema

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
