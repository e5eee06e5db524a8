"""Mulan: labels are what the XML names; entity bombs and mismatched files are refused."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from propml.datasets.mulan import read_label_header, read_mulan

ARFF = """@relation r
@attribute late {0,1}
@attribute x numeric
@attribute 'early bird' {1,0}
@attribute place {north,south,west}
@attribute flag {1,0}
@data
"""
DENSE = "1,0.5,1,west,0\n0,1.5,0,north,1\n"
SPARSE = "{0 1,1 0.5,3 west,4 0}\n{1 1.5,2 0}\n"  # absent: the first declared value
XML = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="early bird"/><label name="late"/></labels>'


def files(folder: Path, rows: str = DENSE, xml: str = XML, arff: str = ARFF) -> tuple[Path, Path]:
    (folder / "set.arff").write_text(arff + rows)
    (folder / "set.xml").write_text(xml)
    return folder / "set.arff", folder / "set.xml"


@pytest.mark.parametrize("rows", [DENSE, SPARSE])
def test_labels_stand_where_the_xml_says_and_features_keep_one_column(tmp_path, rows):
    data = read_mulan(*files(tmp_path, rows))
    assert data.name == "set"
    assert data.label_names == ("early bird", "late")
    assert data.feature_names == ("x", "place", "flag")
    np.testing.assert_array_equal(data.truth, [[1, 1], [0, 0]])
    assert data.truth.dtype == np.uint8
    assert sp.issparse(data.X) == (rows == SPARSE)
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(X, [[0.5, 2, 0], [1.5, 0, 1]])  # west is position 2; flag is its number
    assert data.candidates is None


def test_train_and_test_are_joined_in_order(tmp_path):
    first, xml = files(tmp_path)
    second = tmp_path / "second.arff"
    second.write_text(ARFF + "1,7,0,south,0\n")
    data = read_mulan([first, second], xml, name="both")
    np.testing.assert_array_equal(data.X[:, 0], [0.5, 1.5, 7])
    second.write_text(ARFF + "{1 7}\n")
    assert sp.issparse(read_mulan([first, second], xml).X)
    second.write_text(ARFF.replace("west", "east") + "1,7,0,south,0\n")
    with pytest.raises(ValueError, match=r"second\.arff does not declare the same attributes"):
        read_mulan([first, second], xml)


def test_nested_labels_are_labels(tmp_path):
    path = tmp_path / "x.xml"
    path.write_text('<labels><label name="a"><label name="b"/></label><label name="c"/></labels>')
    assert read_label_header(path) == ("a", "b", "c")


def test_a_label_may_be_numeric_when_it_is_0_or_1(tmp_path):
    arff = "@relation r\n@attribute x numeric\n@attribute l numeric\n@data\n"
    xml = '<labels><label name="l"/></labels>'
    np.testing.assert_array_equal(read_mulan(*files(tmp_path, "3,1\n4,0\n", xml, arff)).truth, [[1], [0]])
    with pytest.raises(ValueError, match="label 'l' is 2 in row 1, expected 0 or 1"):
        read_mulan(*files(tmp_path, "3,1\n4,2\n", xml, arff))


ENTITIES = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 10))
BOMB = f'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY e0 "ha">{ENTITIES}]><labels><label>&e9;</label></labels>'
EVERYTHING = "".join(f'<label name="{name}"/>' for name in ("late", "x", "early bird", "place", "flag"))
EVERYTHING = f"<labels>{EVERYTHING}</labels>"


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (BOMB, "not a readable XML file .*limit on input amplification"),
        ('<!DOCTYPE l SYSTEM "http://example.invalid/x.dtd"><labels>&x;</labels>', "undefined entity"),
        ('<labels><label name="late"/>', "not a readable XML file"),
        ("", "not a readable XML file"),
        ('<?xml version="1.0" encoding="no-such"?><labels/>', "not a readable XML file"),
        ("<other/>", "is no Mulan header"),
        ("<labels/>", "is no Mulan header"),
        ('<labels><label name="late"/><label/></labels>', "is no Mulan header"),
        ('<labels><label name="late"/><label name="late"/></labels>', "names label 'late' twice"),
        ('<labels><label name="late"/><label name="z"/></labels>', "names 2 labels, of which 1 are not attributes"),
        ('<labels><label name="place"/></labels>', "label 'place' has values north, south, west, expected 0 and 1"),
        (EVERYTHING, "no feature is left"),
    ],
)  # fmt: skip
def test_broken_headers_give_one_clear_error(tmp_path, xml, message):
    with pytest.raises(ValueError, match=message):
        read_mulan(*files(tmp_path, xml=xml))


def test_an_entity_bomb_in_utf16_is_refused_too(tmp_path):
    path = tmp_path / "x.xml"
    path.write_bytes(BOMB.replace("?>", ' encoding="utf-16"?>', 1).encode("utf-16"))
    with pytest.raises(ValueError, match="limit on input amplification"):
        read_label_header(path)


@pytest.mark.parametrize("rows", [DENSE, SPARSE])
def test_a_feature_of_several_names_as_one_column_for_each(tmp_path, rows):
    data = read_mulan(*files(tmp_path, rows), nominal="one-hot")
    assert data.feature_names == ("x", "flag", "place=north", "place=south", "place=west")
    assert sp.issparse(data.X) == (rows == SPARSE)
    X = data.X.toarray() if sp.issparse(data.X) else data.X
    np.testing.assert_array_equal(X, [[0.5, 0, 0, 0, 1], [1.5, 1, 1, 0, 0]])
    with pytest.raises(ValueError, match="nominal is 'dummy'; choose"):
        read_mulan(*files(tmp_path, rows), nominal="dummy")
