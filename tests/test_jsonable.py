"""Values as JSON holds them: nothing is lost unless that was asked for, and a set has one order."""

import json
from types import MappingProxyType

import numpy as np
import pytest

from propml.jsonable import jsonable


def test_numbers_and_containers():
    given = {"a": np.float32(0.5), "b": np.arange(2), "c": (1, [np.True_, None]), 5: MappingProxyType({"x": "y"})}
    for lossy in (False, True):
        assert jsonable(given, lossy=lossy) == {"a": 0.5, "b": [0, 1], "c": [1, [True, None]], "5": {"x": "y"}}
    assert type(jsonable(np.int64(3))) is int
    assert type(jsonable(np.array([[0.5]]))[0][0]) is float


def test_a_set_is_written_in_one_order():
    assert jsonable({"set": {"b", "c", "a"}, "frozen": frozenset([10, 2])}) == {
        "set": ["a", "b", "c"],
        "frozen": [10, 2],
    }


def test_what_json_lacks(tmp_path):
    given = {"nan": (1, float("nan")), "array": np.array([np.inf, 2.0]), "path": [tmp_path]}
    assert jsonable(given, lossy=True) == {"nan": [1, None], "array": [None, 2.0], "path": [str(tmp_path)]}


@pytest.mark.parametrize("value", [float("nan"), object(), np.array([np.inf])])
def test_a_key_is_refused_what_json_lacks(value):
    with pytest.raises((TypeError, ValueError)):
        json.dumps(jsonable({"params": [value]}), allow_nan=False)
