"""Embeddings in cells are numbers, and one of another length is named."""

import csv
import json

import numpy as np
import pytest

from propml.tables import Features, learn_features, read_table


@pytest.mark.parametrize("printed", [lambda row: json.dumps(row.tolist()), str, lambda row: str(list(row))])
def test_embeddings_in_cells_are_numbers(tmp_path, printed):
    vectors = np.random.default_rng(0).normal(size=(12, 30))
    path = tmp_path / "d.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["tags", "e"], *(["a;b" if i % 2 else "b", printed(v)] for i, v in enumerate(vectors))]
        )
    made = learn_features(read_table(path, candidates="tags"))
    assert made.features.describe() == {"e": "vector of 30 numbers, standardised"}
    expected = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    assert np.allclose(made.X, np.clip(expected, -5, 5), atol=1e-4)


def test_an_embedding_of_another_length_is_named(tmp_path):
    cells = ["[1, 2, 3]", "[4, 5, 7]", "[2, 1, 0.5]", "[1, 2]"]
    with (tmp_path / "d.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["tags", "e"], ["", "[0, 0, 0]"], *(["a;b", cell] for cell in cells)])
    table = read_table(tmp_path / "d.csv", candidates="tags")
    with pytest.raises(ValueError, match=r"row 4 \(line 6\), column 'e' is '\[1, 2\]', expected a list of 3 numbers"):
        learn_features(table)
    learned = Features.learn({"e": cells[:3]})
    with pytest.raises(ValueError, match=r"row 1, column 'e' is '\[1, x\]', expected a list of 3 numbers"):
        learned.features.apply({"e": ["[1, 2, 3]", "[1, x]"]})
    X, _ = learned.features.apply({"e": np.array([[1.0, 2.0, 3.0]])})  # the same from Parquet
    assert np.allclose(X, learned.X[:1])


def test_embeddings_that_are_missing_are_marked():
    made = Features.learn({"e": ["[1, 2]", "", "[3, 5]", None]})
    assert made.features.names == ["e[0]", "e[1]", "e (missing)"]
    assert np.allclose(made.X, [[-1, -1, 0], [0, 0, 1], [1, 1, 0], [0, 0, 1]])
    assert "2 missing became the mean" in made.features.describe()["e"]
    again = Features.from_json(json.loads(json.dumps(made.features.to_json())))
    assert np.allclose(again.apply({"e": [None, [3.0, 5.0]]})[0], [[0, 0, 1], [1, 1, 0]])


def test_lists_of_many_lengths_are_left_out_with_a_reason():
    made = Features.learn({"x": [1.0, 2.0, 4.0], "e": ["[1]", "[1, 2]", "[1, 2, 3]"]})
    assert made.features.describe()["e"] == "left out: its cells are lists of different lengths"


def test_a_list_that_numpy_cut_is_told():
    cells = [str(np.arange(2000.0) + i) for i in range(3)]
    assert "..." in cells[0]
    with pytest.raises(ValueError, match=r"row 0, column 'e' is .*, a list that NumPy cut"):
        Features.learn({"x": [1.0, 2.0, 4.0], "e": cells})


def test_amounts_in_brackets_are_no_lists():
    made = Features.learn({"x": [1.0, 2.0, 4.0, 8.0], "e": ["(1,234)", "(5)", "(1,234)", "(5)"]})
    assert made.features.describe()["e"].startswith("category")


def test_a_model_from_before_lists_could_be_missing_is_read():
    made = Features.learn({"e": ["[1, 2]", "[3, 5]"]})
    stored = made.features.to_json()
    del stored[0]["n_missing"]
    assert Features.from_json(stored) == made.features
