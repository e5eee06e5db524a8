"""The real files, where they are at hand: the numbers of the data's own description and of methods.md, section 1."""

import gzip

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import arff as scipy_arff

from propml.datasets import Dataset, ImageDataset, load, verify
from propml.datasets.arff import read_arff
from propml.datasets.mulan import read_mulan
from propml.datasets.text_sets import read_texts

# name: rows, features, labels, mean true labels, rows without a true label, sparse
MULAN = {
    "bibtex": (7395, 1836, 159, 2.402, 0, True),
    "birds": (645, 260, 19, 1.014, 294, False),
    "birds-one-hot": (645, 271, 19, 1.014, 294, False),
    "enron": (1702, 1001, 53, 3.378, 0, True),
    "medical": (978, 1449, 45, 1.245, 0, True),
    "scene": (2407, 294, 6, 1.074, 0, False),
    "yeast": (2417, 103, 14, 4.237, 0, False),
    "cal500": (502, 68, 174, 26.044, 0, False),
    "genbase": (662, 1186, 27, 1.252, 0, False),
    "foodtruck": (407, 21, 12, 2.290, 0, False),
    "chd-49": (555, 49, 6, 2.580, 3, False),
}


@pytest.mark.parametrize("name", MULAN)
def test_mulan_statistics(data_dir, name):
    rows, features, labels, mean, without, sparse = MULAN[name]
    data = load(name, data_dir)
    assert isinstance(data, Dataset)
    s = data.statistics()
    assert (s.n_samples, s.n_features, s.n_labels) == (rows, features, labels)
    assert s.mean_true == pytest.approx(mean, abs=0.0005)
    assert s.rows_without_truth == without
    assert sp.issparse(data.X) == sparse
    assert data.X.dtype == np.float64
    assert not sparse or data.X.indices.dtype == data.X.indptr.dtype == np.int32  # as scikit-learn's trees ask for
    assert verify(name, data_dir).problems == ()


def test_labels_that_the_registry_names_are_those_of_the_header(data_dir):
    """CHD_49 is published without a header; the copy at hand has one, which the registry does not read."""
    data = load("chd-49", data_dir)
    again = read_mulan(data_dir / "more/CHD_49.arff.gz", data_dir / "more/CHD_49.xml")
    assert (data.label_names, data.feature_names) == (again.label_names, again.feature_names)
    np.testing.assert_array_equal(data.X, again.X)
    np.testing.assert_array_equal(data.truth, again.truth)


def test_single_label_shares(data_dir):
    """methods.md: the share of rows with exactly one label."""
    for name, share in {"scene": 92.6, "medical": 76.9, "enron": 11.5, "bibtex": 38.0}.items():
        counts = load(name, data_dir).truth.sum(axis=1)
        assert 100 * (counts == 1).mean() == pytest.approx(share, abs=0.05)


def test_birds_without_unlabelled_rows(data_dir):
    data = load("birds", data_dir).drop_unlabelled()
    assert data.X.shape == (351, 260)
    assert data.statistics().mean_true == pytest.approx(1.863, abs=0.0005)
    assert "Swainson's Thrush" in data.label_names
    location = data.X[:, data.feature_names.index("location")]
    assert set(np.unique(location)) <= set(range(12))  # positions among the twelve declared places


def test_places_of_birds_one_by_one_are_the_coded_ones(data_dir):
    codes, one_hot = load("birds", data_dir), load("Birds:one-hot", data_dir)
    location = codes.X[:, codes.feature_names.index("location")]
    places = [j for j, feature in enumerate(one_hot.feature_names) if feature.startswith("location=")]
    assert [one_hot.feature_names[j] for j in places][:3] == ["location=2", "location=10", "location=1"]
    np.testing.assert_array_equal(one_hot.X[:, places], np.eye(12)[location.astype(int)])
    np.testing.assert_array_equal(
        one_hot.X[:, : places[0]], np.delete(codes.X, codes.feature_names.index("location"), axis=1)
    )


def test_binary_text_features_and_scene_range(data_dir):
    for name in ("bibtex", "enron", "medical"):
        assert set(np.unique(load(name, data_dir).X.data)) == {1.0}
    scene = load("scene", data_dir).X
    assert scene.min() >= 0
    assert scene.max() <= 1


def test_dense_file_reads_as_scipy_reads_it(data_dir, tmp_path):
    """SciPy's reader is an independent one (dense files without escaped names only)."""
    with gzip.open(data_dir / "mulan/scene-test.arff.gz", "rt") as file:
        table, _ = scipy_arff.loadarff(file)
    expected = np.array([[float(cell) for cell in row] for row in table.tolist()])
    np.testing.assert_array_equal(read_arff(data_dir / "mulan/scene-test.arff.gz").data, expected)


def test_sparse_file_reads_as_its_lines_say(data_dir):
    path = data_dir / "mulan/enron.arff.gz"
    data = read_arff(path).data
    with gzip.open(path, "rt") as file:
        rows = [line.strip().strip("{}") for line in file if line.startswith("{")]
    for row, text in enumerate(rows):
        assert [f"{j} 1" for j in data.indices[data.indptr[row] : data.indptr[row + 1]]] == text.split(",")
    assert set(data.data) == {1.0}


# name: shape, mean true, mean candidates, rows without truth, rows without candidates, distinct candidate columns
PML = {
    "yeastbp": ((6139, 6139, 217), 5.537, 5.925, 1882, 1749, 205),
    "yeastcc": ((6139, 6139, 50), 1.348, 1.390, 3705, 3592, 45),
    "mirflickr": ((5000, 100, 7), 1.771, 3.353, 0, 0, 6),
}


@pytest.mark.parametrize("name", PML)
def test_pml_statistics(data_dir, name):
    shape, true, candidates, no_truth, no_candidates, distinct = PML[name]
    if name == "mirflickr" and len(load(name, data_dir).X) != 5000:
        pytest.skip("the full MIRFlickr is at hand; these numbers are of the 5000-row subset")
    data = load(name, data_dir)
    s = data.statistics()
    assert (s.n_samples, s.n_features, s.n_labels) == shape
    assert s.mean_true == pytest.approx(true, abs=0.0005)
    assert s.mean_candidates == pytest.approx(candidates, abs=0.0005)
    assert (s.rows_without_truth, s.rows_without_candidates, s.rows_missing_truth) == (no_truth, no_candidates, 0)
    assert np.unique(data.candidates.to_matrix(), axis=1).shape[1] == distinct
    assert verify(name, data_dir).problems == ()


def test_yeast_counts_are_sparse(data_dir):
    X = load("yeastbp", data_dir).X
    assert isinstance(X, sp.csr_array)
    assert X.data.max() == 46
    assert 0.01 < X.nnz / (6139 * 6139) < 0.02
    assert (np.diff(X.indptr) == 0).sum() == 414
    dropped = load("yeastcc", data_dir).drop_unlabelled()
    assert dropped.X.shape[0] == 2434
    assert dropped.statistics().mean_true == pytest.approx(3.399, abs=0.0005)


def test_mirflickr_says_that_it_is_a_subset(data_dir):
    found = verify("mirflickr", data_dir)
    if found.facts.n_samples == 10433:
        pytest.skip("the full MIRFlickr is at hand")
    assert "subset" in found.facts.copy
    matrix = load("mirflickr", data_dir).candidates.to_matrix()
    np.testing.assert_array_equal(matrix[:, 3], matrix[:, 4])


def test_voc_at_hand(data_dir):
    train, test = load("voc2007", data_dir), load("voc2007", data_dir, split="test")
    assert isinstance(train, ImageDataset)
    if len(train.paths) != 3642:
        pytest.skip("the full VOC2007 is at hand; these numbers are of the 160-pixel subset")
    assert len(test.paths) == 3480
    assert train.statistics().mean_true == pytest.approx(1.58, abs=0.005)
    assert all(path.is_file() for path in train.paths[::500])
    assert train.paths[0].read_bytes()[:2] == b"\xff\xd8"  # a JPEG
    assert verify("voc2007", data_dir).problems == ()


def test_texts_with_their_annotators(data_dir):
    """The numbers of the data's own description: texts and labels of both sets, and the union of REDv2's annotators."""
    for name, (rows, labels, mean) in {
        "goemotions": (54263, 28, 1.176),
        "goemotions-20k": (20000, 28, 1.177),
        "redv2": (1361, 7, 1.132),
    }.items():
        statistics = load(name, data_dir).statistics()
        assert (statistics.n_samples, statistics.n_labels) == (rows, labels)
        assert statistics.mean_true == pytest.approx(mean, abs=0.0006)
        assert verify(name, data_dir).problems == ()
    red = read_texts("redv2", data_dir)
    assert red.candidates.sizes().mean() == pytest.approx(2.073, abs=0.0006)
    assert (red.candidates.voters == 3).all()
    np.testing.assert_array_equal(red.candidates.votes.toarray() >= 2, red.truth)  # two of three agree
    assert red.split.tolist() == ["valid"] * 543 + ["test"] * 818
    first = red.texts[0]
    assert first.startswith("Gen il aud pe tata")
    assert [red.label_names[j] for j in np.flatnonzero(red.truth[0])] == ["sadness"]
