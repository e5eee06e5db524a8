"""ARFF: what is written in the file is what is read, and what is wrong is named."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from propml.datasets.arff import read_arff, split_cells, without_comment

HEADER = """% a comment
@RELATION 'two words'

@Attribute plain NUMERIC
@attribute 'Swainson\\'s Thrush' {0,1}
@attribute "double quoted" real
@attribute colour {red, 'dark blue', "it's"}  % three of them
@attribute whole integer
@DATA
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "file.arff"
    path.write_text(text, encoding="utf-8")
    return path


def test_header_with_quotes_escapes_comments_and_any_case(tmp_path):
    arff = read_arff(write(tmp_path, HEADER + "1.5,1,2e3,'dark blue',-7\n"))
    assert arff.relation == "two words"
    assert [a.name for a in arff.attributes] == ["plain", "Swainson's Thrush", "double quoted", "colour", "whole"]
    assert arff.attributes[3].values == ("red", "dark blue", "it's")
    assert arff.attributes[0].values is None
    np.testing.assert_array_equal(arff.data, [[1.5, 1, 2000, 1, -7]])


def test_dense_rows_with_blanks_comments_and_quotes(tmp_path):
    rows = '% nothing\n\n 1 , 0 , 2 , red , 3 % half\n4,1,5,"it\'s",6\n'
    data = read_arff(write(tmp_path, HEADER + rows)).data
    np.testing.assert_array_equal(data, [[1, 0, 2, 0, 3], [4, 1, 5, 2, 6]])


def test_sparse_row_leaves_out_zero_and_the_first_nominal_value(tmp_path):
    data = read_arff(write(tmp_path, HEADER + '{3 "it\'s", 0 2.5}\n{}\n{ 1 1 }\n{3 red,4 0}\n')).data
    assert isinstance(data, sp.csr_array)
    np.testing.assert_array_equal(data.toarray(), [[2.5, 0, 0, 2, 0], [0] * 5, [0, 1, 0, 0, 0], [0] * 5])
    assert data.nnz == 3  # written zeros are not stored


NUMERIC = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute c numeric\n@data\n"


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_and_compression_do_not_matter(tmp_path, ending):
    text = (NUMERIC + "{0 1,2 3}\n{1 1}\n").replace("\n", ending)
    path = tmp_path / "x.arff.gz"
    path.write_bytes(gzip.compress(text.encode()))
    np.testing.assert_array_equal(read_arff(path).data.toarray(), [[1, 0, 3], [0, 1, 0]])


def test_bytes_that_are_not_utf8_are_latin1(tmp_path):
    path = tmp_path / "x.arff"
    path.write_bytes("@relation r\n@attribute 'café' numeric\n@data\n1\n".encode("latin-1"))
    assert read_arff(path).attributes[0].name == "café"


def test_numeric_looking_nominals_become_positions(tmp_path):
    """Birds declares {2,10,1,…}: the value 10 is position 1, not the number 10."""
    text = "@relation r\n@attribute place {2,10,1}\n@attribute x numeric\n@data\n10,5\n2,6\n1,7\n1.0,8\n"
    np.testing.assert_array_equal(read_arff(write(tmp_path, text)).data, [[1, 5], [0, 6], [2, 7], [2, 8]])
    quoted = text.replace("10,5", "'10',5")
    np.testing.assert_array_equal(read_arff(write(tmp_path, quoted)).data[:, 0], [1, 0, 2, 2])


@pytest.mark.parametrize("quoted", [False, True])
def test_random_files_are_read_as_they_were_written(tmp_path, quoted):
    rng = np.random.default_rng(0)
    matrix = np.column_stack([rng.normal(size=50), rng.integers(0, 2, 50), rng.integers(0, 3, 50)])
    cells = [[f"{v:.17g}" for v in row] for row in matrix]
    cells = [[f"'{cell}'" for cell in row] for row in cells] if quoted else cells
    dense = "\n".join(",".join(row) for row in cells)
    np.testing.assert_array_equal(read_arff(write(tmp_path, NUMERIC + dense)).data, matrix)
    pairs = [[f"{j} {cell}" for j, cell in enumerate(row) if matrix[i, j]] for i, row in enumerate(cells)]
    sparse = "\n".join("{" + ",".join(reversed(pair)) + "}" for pair in pairs)
    np.testing.assert_array_equal(read_arff(write(tmp_path, NUMERIC + sparse)).data.toarray(), matrix)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("1,0,2\n1,?,2\n", r"line 7 \(row 1\): attribute 'b' has value '\?', expected one of 0, 1; fill it in"),
        ("1,0,2\n1,0\n", r"line 7 \(row 1\) has 2 values, the header declares 3"),
        ("1,0,2\n1,0,2,3\n", r"row 1\) has 4 values"),
        ("1,0\n2,0\n", r"row 0\) has 2 values"),
        ("1,0,abc\n", r"attribute 'c' has value 'abc', expected a finite number"),
        ("1,0,nan\n", r"attribute 'c' has value 'nan', expected a finite number"),
        ("1,0,1_0\n", r"attribute 'c' has value '1_0'"),
        ("1,2,3\n", r"attribute 'b' has value '2', expected one of 0, 1"),
        ("1,0,'3\n", r"quote that is not closed"),
        ("1,0,3\n{0 1}\n", r"sparse row among dense"),
        ("{0 1}\n1,0,3\n", r"dense row among sparse"),
        ("{0 1}\n{0 1,2", r"row 1\) does not end with a closing brace"),
        ("{0 1,2 ?}\n", r"attribute 'c' has value '\?', expected a finite number"),
        ("{0 1,3 1}\n", r"'3 1' is not of the form 'position value' with each position once, between 0 and 2"),
        ("{-1 1}\n", r"'-1 1' is not of the form"),
        ("{0 1,0 2}\n", r"'0 2' is not of the form 'position value' with each position once"),
        ("{0 1 2}\n", r"attribute 'a' has value '1 2'"),
        ("{0 1,}\n", r"'' is not of the form"),
        ("{1 2}\n", r"attribute 'b' has value '2'"),
        ("{1 0.5}\n", r"attribute 'b' has value '0.5'"),
        ("{2 inf}\n", r"attribute 'c' has value 'inf'"),
        ("{2 x}\n", r"attribute 'c' has value 'x'"),
        ("{2}\n", r"attribute 'c' has value ''"),
        ("", r"has no rows after @data"),
        ("% only a comment\n", r"has no rows after @data"),
    ],
)
def test_broken_rows_give_one_clear_error(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        read_arff(write(tmp_path, NUMERIC + rows))


def test_two_short_pairs_do_not_make_up_for_a_long_one(tmp_path):
    """A reader that only counts tokens would take these rows for three proper pairs."""
    with pytest.raises(ValueError, match="row 0"):
        read_arff(write(tmp_path, NUMERIC + "{0 1 2 3}\n{1,2}\n"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no @data line"),
        ("@relation r\n@attribute a numeric\n", "has no @data line"),
        ("@relation r\n@data\n1\n", "line 2: '@data' stands where @relation or @attribute is expected"),
        ("hello\n", "line 1: 'hello' stands where"),
        ("@relation r\n@attribute a string\n@data\n", "line 2: attribute 'a' has type 'string'"),
        ("@relation r\n@attribute a\n@data\n", "attribute 'a' has type '', expected numeric"),
        ("@relation r\n@attribute\n@data\n", "is not of the form '@attribute name type'"),
        ("@relation r\n@attribute a {0,1\n@data\n", "values of attribute 'a' are not of the form"),
        ("@relation r\n@attribute a {0,,1}\n@data\n", "values of attribute 'a' are not of the form"),
        ("@relation r\n@attribute a {}\n@data\n", "values of attribute 'a' are not of the form"),
        ("@relation r\n@attribute a {0,'1}\n@data\n", "values of attribute 'a' are not of the form"),
        ("@relation r\n@attribute a {0,0}\n@data\n", "values of attribute 'a' are not of the form .*, each once"),
        ("@relation r\n@attribute a numeric\n@attribute a real\n@data\n", "attribute 'a' is declared twice"),
    ],
)
def test_broken_headers_give_one_clear_error(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_arff(write(tmp_path, text))


def test_a_truncated_gzip_is_refused(tmp_path):
    path = tmp_path / "x.arff.gz"
    path.write_bytes(gzip.compress((NUMERIC + "1,0,2\n" * 100).encode())[:-20])
    with pytest.raises(ValueError, match="is not a readable"):
        read_arff(path)


def test_nominals_that_equal_as_numbers_stay_apart(tmp_path):
    text = "@relation r\n@attribute a {1,1.0,word}\n@attribute b {1,01}\n@data\n1.0,01\nword,1\n"
    np.testing.assert_array_equal(read_arff(write(tmp_path, text)).data, [[1, 1], [2, 0]])


def test_cells_and_comments():
    assert split_cells("a,\"b,c\",'d\\'e', ") == ["a", '"b,c"', "'d\\'e'", ""]
    assert split_cells("a,'b") is None
    assert split_cells("'a'b,c") is None
    assert without_comment("'50 %',\"%\",it's % rest") == "'50 %',\"%\",it's "
    assert without_comment("% all") == ""
