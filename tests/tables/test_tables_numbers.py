"""Columns that are numbers but for a word or a comma: never left out without a word, and read when told how."""

import csv

import numpy as np
import pytest

from propml.tables import Features, learn_features, read_dataset, read_table

PRICES = [f"{1.5 * i + 0.25:.2f}" for i in range(20)]


def table_of(folder, column, delimiter=",", name="price"):
    path = folder / "d.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = [["x", name, "tags"], *([i % 7, cell, "a|b" if i % 3 else "b"] for i, cell in enumerate(column))]
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return path


def numbers(X, features, name):
    """A column of features, back in its own unit."""
    treatment = next(treatment for treatment in features.treatments if treatment.name == name)
    return X[:, features.names.index(name)] * treatment.scale + treatment.center


def test_a_word_among_numbers_is_named_with_what_to_do(tmp_path):
    path = table_of(tmp_path, [*PRICES[:12], "call us", *PRICES[13:]])
    table = read_table(path, candidates="tags", sep="|")
    with pytest.raises(ValueError, match=r"row 12 \(line 14\), column 'price' is 'call us', and 95% of its cells") as e:
        learn_features(table)
    for way in ("missing=['call us']", "categorical=['price']", "ignore=['price']"):
        assert way in str(e.value)


def test_words_that_somebody_calls_missing_are_missing(tmp_path):
    path = table_of(tmp_path, [*PRICES[:12], "call us", "Sold ", *PRICES[14:]])
    table = read_table(path, candidates="tags", sep="|", missing=["call us", "sold"])
    made = learn_features(table)
    assert "price (missing)" in made.features.names
    assert made.X[:, made.features.names.index("price (missing)")].nonzero()[0].tolist() == [12, 13]
    assert np.allclose(
        np.delete(numbers(made.X, made.features, "price"), [12, 13]),
        [1.5 * i + 0.25 for i in range(20) if i not in (12, 13)],
        atol=1e-4,
    )


def test_words_for_missing_values_are_missing_in_categories_and_texts():
    made = Features.learn({"x": [1.0, 2.0, 4.0, 8.0], "c": ["a", "b", "unknown", "a"]}, missing=["Unknown"])
    assert made.features.names == ["x", "c = a", "c (other)", "c (missing)"]


@pytest.mark.parametrize("word", ["n/a", "NA", "-", "?", "", " ", "N/A", "nan", "NULL", "#N/A", "n.a."])
def test_usual_words_for_missing_values_are_missing(tmp_path, word):
    table = read_table(table_of(tmp_path, [*PRICES[:19], word]), candidates="tags", sep="|")
    described = learn_features(table).features.describe()["price"]
    assert described == "number, standardised; 1 missing became the median 13.75, marked in a feature of their own"


@pytest.mark.parametrize("decimal", [",", "."])
def test_commas_in_numbers_are_named_and_read_when_told_how(tmp_path, decimal):
    written = (
        [price.replace(".", ",") for price in PRICES] if decimal == "," else [f"{1000 + 2 * i:,}.5" for i in range(20)]
    )
    path = table_of(tmp_path, written, delimiter=";")
    table = read_table(path, candidates="tags", sep="|", delimiter=";")
    with pytest.raises(
        ValueError, match=r"row 0 \(line 2\), column 'price' is '[\d,.]+', a number with a comma"
    ) as error:
        learn_features(table)
    assert "decimal=','" in str(error.value)
    assert "decimal='.'" in str(error.value)
    table = read_table(path, candidates="tags", sep="|", delimiter=";", decimal=decimal)
    made = learn_features(table)
    expected = [1.5 * i + 0.25 for i in range(20)] if decimal == "," else [1000.5 + 2 * i for i in range(20)]
    assert np.allclose(numbers(made.X, made.features, "price"), expected, atol=1e-3)


def test_points_and_commas_in_one_cell_and_in_one_column():
    made = Features.learn({"p": ["1.234,5", "-2,25", "7", "1e3"]}, decimal=",")
    assert np.allclose(numbers(made.X, made.features, "p"), [1234.5, -2.25, 7, 1000], atol=1e-3)
    with pytest.raises(
        ValueError, match=r"row 1, column 'p' is '1.234', and others have a comma before the fraction, as '2,5'"
    ):
        Features.learn({"p": ["2,5", "1.234", "3,5"]}, decimal=",")
    with pytest.raises(ValueError, match=r"decimal is ';'; choose ',' or '\.'"):
        Features.learn({"p": ["2,5", "1.234", "3,5"]}, decimal=";")


def test_a_column_of_numbers_and_names_is_noted(tmp_path):
    path = table_of(tmp_path, ["1", "2", "3", "2", "many"] * 4, name="rooms")
    table = read_table(path, candidates="tags", sep="|")
    made = learn_features(table)
    assert made.features.describe()["rooms"].startswith("category")
    assert table.notes == [
        f"{path}: row 4 (line 6), column 'rooms' is 'many', and 80% of its cells are numbers: the column is read as "
        "category; give missing=['many'] if that is a missing value"
    ]
    table = read_table(path, candidates="tags", sep="|")
    learn_features(table, categorical=["rooms"])
    assert table.notes == []


def test_new_rows_are_read_the_same_way():
    made = Features.learn({"p": ["2,5", "1,5", "gone", "4,5"]}, decimal=",", missing=["gone"])
    X, _ = made.features.apply({"p": ["4,5", "gone"]}, decimal=",", missing=["gone"])
    assert np.array_equal(X, made.X[[3, 2]])
    with pytest.raises(ValueError, match="row 1, column 'p' is 'gone', and the column held numbers in training"):
        made.features.apply({"p": ["4.5", "gone"]})


def test_words_and_commas_in_a_dataset_of_numbers_are_named(tmp_path):
    path = table_of(tmp_path, ["1", "2,5", "3"])
    with pytest.raises(ValueError, match=r"row 1 \(line 3\), column 'price' is '2,5', expected a finite number"):
        read_dataset(path, candidates="tags", sep="|")
