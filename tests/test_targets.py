"""Facts about candidate labels: what goes in comes out, and what is wrong is named."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from propml import ProPMLClassifier
from propml.targets import CANDIDATE, EXCLUDED, UNKNOWN, Candidates, as_candidates

MATRIX = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]])
NAMES = ("beach", "city", "sunset")


# --- the same labels in every form a user may have ---------------------------------------------------------------

FORMS = {
    "numpy int": MATRIX,
    "numpy bool": MATRIX.astype(bool),
    "numpy float": MATRIX.astype(float),
    "numpy object": MATRIX.astype(object),
    "list of lists": MATRIX.tolist(),
    "csr_matrix": sp.csr_matrix(MATRIX),
    "csc_array": sp.csc_array(MATRIX),
    "coo_array": sp.coo_array(MATRIX),
    "torch int": torch.tensor(MATRIX),
    "torch bool": torch.tensor(MATRIX).bool(),
    "torch bfloat16": torch.tensor(MATRIX).bfloat16(),
    "torch sparse": torch.tensor(MATRIX).to_sparse(),
    "pandas": pd.DataFrame(MATRIX),
    "polars": pl.DataFrame(MATRIX),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_matrix_form_holds_the_same_labels(form):
    for made in (as_candidates(FORMS[form], NAMES), Candidates.from_matrix(FORMS[form], NAMES)):
        np.testing.assert_array_equal(made.to_matrix(), MATRIX)
        assert made.labels == NAMES


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_brings_its_label_names(frame):
    made = as_candidates(frame({name: MATRIX[:, j] for j, name in enumerate(NAMES)}))
    assert made.labels == NAMES
    back = made.to_frame("pandas" if frame is pd.DataFrame else "polars")
    assert list(back.columns) == list(NAMES)
    np.testing.assert_array_equal(back.to_numpy(), MATRIX)


def test_names_lists_sets_and_text_agree():
    rows = [["sunset", "beach"], ["city"], ["beach"]]
    expected = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0]])
    for made in (
        as_candidates(rows),
        as_candidates([set(row) for row in rows]),
        as_candidates(np.array([set(row) for row in rows], dtype=object)),
        as_candidates(pd.Series(rows)),
        Candidates.from_lists([tuple(row) for row in rows]),
        Candidates.from_text(["sunset; beach", "city", " beach;;"]),
        Candidates.from_text(pd.Series(["sunset|beach", "city", "beach"]), sep="|"),
    ):
        assert made.labels == NAMES
        np.testing.assert_array_equal(made.to_matrix(), expected)
    assert made.to_lists() == [["beach", "sunset"], ["city"], ["beach"]]
    assert made.to_text() == ["beach;sunset", "city", "beach"]


def test_numbers_can_be_names_when_sets_say_so():
    made = as_candidates([{3, 7}, {7}])
    assert made.labels == (3, 7)
    np.testing.assert_array_equal(made.to_matrix(), [[1, 1], [0, 1]])


def test_names_of_mixed_types_are_sorted_by_type():
    assert Candidates.from_lists([["b", 2], [1]]).labels == (1, 2, "b")


@pytest.mark.parametrize("y", [np.array(["b", "a", "b"]), ["b", "a", "b"], pd.Series(["b", "a", "b"])])
def test_a_class_vector_means_singletons(y):
    made = as_candidates(y)
    assert made.labels == ("a", "b")
    np.testing.assert_array_equal(made.to_matrix(), [[0, 1], [1, 0], [0, 1]])
    assert made.to_classes().tolist() == ["b", "a", "b"]


def test_rows_may_come_one_by_one():
    assert as_candidates(iter(["b", "a"])).labels == ("a", "b")
    for rows in (iter([{"b"}, {"a"}]), {1: {"b"}, 2: {"a"}}.values()):
        assert as_candidates(rows).to_lists() == [["b"], ["a"]]
    assert as_candidates({"b": 1, "a": 2}.keys()).to_classes().tolist() == ["b", "a"]


def test_a_numeric_class_vector_keeps_its_classes():
    assert as_candidates(torch.tensor([5, 2, 5])).labels == (2, 5)
    assert Candidates.from_classes([5, 2, 5]).to_classes().tolist() == [5, 2, 5]


def test_classes_of_several_types_stay_what_they_are():
    assert as_candidates([1, "a"]).labels == (1, "a")
    assert as_candidates([1, "a"]).to_classes().tolist() == [1, "a"]
    pairs = Candidates.from_lists([[("a", 1)], [("b", 2)]]).to_classes()
    assert pairs.shape == (2,)
    assert pairs.tolist() == [("a", 1), ("b", 2)]


# --- states ------------------------------------------------------------------------------------------------------


def test_the_three_states_survive_every_form():
    marks = np.array([[CANDIDATE, UNKNOWN, EXCLUDED], [UNKNOWN, CANDIDATE, CANDIDATE]])
    made = as_candidates(marks)
    assert made.has_unknown
    np.testing.assert_array_equal(made.to_matrix(), marks)
    np.testing.assert_array_equal(made.to_sparse().toarray(), marks)
    np.testing.assert_array_equal(made.to_torch(), marks)
    np.testing.assert_array_equal(as_candidates(made.to_sparse()).to_matrix(), marks)
    assert made.sizes().tolist() == [1, 2]
    assert made.to_lists() == [[0], [1, 2]]
    assert "2 unknown" in repr(made)
    with pytest.raises(ValueError, match="cannot hold"):
        made.to_matrix(np.uint8)


def test_what_is_masked_is_unknown():
    masked = np.ma.masked_array([[True, False], [True, True]], mask=[[False, True], [False, False]])
    np.testing.assert_array_equal(as_candidates(masked).to_matrix(), [[1, -1], [1, 1]])


def test_as_an_array_the_three_states_are_a_matrix():
    marks = np.array([[1, -1], [0, 1]])
    np.testing.assert_array_equal(np.asarray(as_candidates(marks)), marks)
    assert np.asarray(as_candidates(marks), dtype=float).dtype == float
    with pytest.raises(ValueError, match="always a copy"):
        np.asarray(as_candidates(marks), copy=False)


@pytest.mark.parametrize("writable", [True, False])
def test_a_sparse_matrix_stays_as_it_was_given(writable):
    parts = np.array([1, 1, 1, 1]), np.array([2, 0, 1, 0]), np.array([0, 2, 4])  # unsorted
    for part in parts:
        part.setflags(write=writable)
    given = sp.csr_array(parts, shape=(2, 3))
    np.testing.assert_array_equal(as_candidates(given).to_matrix(), [[1, 0, 1], [1, 1, 0]])
    assert given.indices.tolist() == [2, 0, 1, 0]


def test_to_matrix_in_other_types():
    assert as_candidates(MATRIX).to_matrix(bool).dtype == bool
    assert as_candidates(MATRIX).to_matrix(np.float32).sum() == 5


@given(hnp.arrays(np.int8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(-1, 1)))
def test_round_trips(marks):
    made = Candidates.from_matrix(marks, empty="ignore")
    np.testing.assert_array_equal(made.to_matrix(), marks)
    assert Candidates.from_matrix(made.to_sparse(), made.labels, empty="ignore") == made
    assert Candidates.from_matrix(made.to_torch(), made.labels, empty="ignore") == made
    known = Candidates.from_matrix(np.maximum(marks, 0), empty="ignore")
    assert Candidates.from_lists(known.to_lists(), known.labels, empty="ignore") == known
    names = [f"label {j}" for j in known.labels]
    named = Candidates.from_matrix(known.to_sparse(), names, empty="ignore")
    assert Candidates.from_text(named.to_text("|"), "|", names, empty="ignore") == named


def test_equality_looks_at_names_and_states():
    made = as_candidates(MATRIX, NAMES)
    assert made == as_candidates(sp.csr_array(MATRIX), NAMES)
    assert made != as_candidates(MATRIX)
    assert made != as_candidates(1 - MATRIX, NAMES, empty="ignore")
    assert made != MATRIX.tolist()


# --- rows --------------------------------------------------------------------------------------------------------


def test_selecting_rows():
    made = as_candidates(MATRIX, NAMES)
    np.testing.assert_array_equal(made[1:].to_matrix(), MATRIX[1:])
    np.testing.assert_array_equal(made[[2, 0, 2]].to_matrix(), MATRIX[[2, 0, 2]])
    np.testing.assert_array_equal(made[np.array([True, False, True])].to_matrix(), MATRIX[[0, 2]])
    assert made[1].shape == (1, 3)
    assert made[[2, 0]].index.tolist() == [2, 0]
    assert len(made[1:]) == 2


def test_no_rows_are_shown_without_a_warning(recwarn):
    assert repr(as_candidates(MATRIX)[[]]) == "Candidates(0 rows, 3 labels, 0.00 per row)"
    assert not recwarn


def test_rows_without_candidates():
    marks = np.array([[1, 0], [0, 0], [0, 1], [0, 0], [0, -1]])
    with pytest.raises(ValueError, match=r'row 1 \(and 1 more rows\) has no candidate label.*empty="ignore"'):
        as_candidates(marks)
    assert len(as_candidates(marks, empty="ignore")) == 5
    dropped = as_candidates(marks, empty="drop")  # the last row has an unknown label that may be true
    np.testing.assert_array_equal(dropped.to_matrix(), marks[[0, 2, 4]])
    assert dropped.index.tolist() == [0, 2, 4]
    with pytest.raises(ValueError, match="no row has a candidate"):
        as_candidates(np.zeros((2, 2)), empty="drop")
    with pytest.raises(ValueError, match="choose"):
        as_candidates(marks, empty="skip")


def test_missing_names_text_and_lists_are_rows_without_candidates():
    made = Candidates.from_text(["a", None, float("nan"), pd.NA, ""], empty="ignore")
    assert made.sizes().tolist() == [1, 0, 0, 0, 0]
    column = pd.Series(["a;b", pd.NA], dtype="string")
    assert Candidates.from_text(column, empty="ignore").sizes().tolist() == [2, 0]
    rows = [["a"], None, float("nan"), pd.NA]
    assert Candidates.from_lists(rows, empty="ignore").sizes().tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("row", [{"a"}, ["a"], ("a",)])
def test_the_first_row_may_be_missing(missing, row):
    for rows in ([missing, row], pd.Series([missing, row]), np.array([missing, {"a"}], dtype=object)):
        assert as_candidates(rows, empty="ignore").to_lists() == [[], ["a"]]
    assert as_candidates([missing, [], row], empty="ignore").sizes().tolist() == [0, 0, 1]


def test_candidates_pass_through_and_are_checked_again():
    made = as_candidates(np.array([[1], [0]]), empty="ignore")
    assert as_candidates(made, empty="ignore") == made
    with pytest.raises(ValueError, match="row 1 has no candidate"):
        as_candidates(made)
    with pytest.raises(ValueError, match="other label names"):
        as_candidates(made, labels=["x"], empty="ignore")


def test_rows_whose_truth_is_not_a_candidate():
    truth = np.array([[1, 0, 0], [1, 0, 0], [1, 0, 1]])
    assert as_candidates(MATRIX).missing_from(truth).tolist() == [1]
    assert as_candidates(MATRIX).missing_from(sp.csr_array(truth)).tolist() == [1]
    unknown = MATRIX.copy()
    unknown[1, 0] = -1
    assert as_candidates(unknown).missing_from(truth).size == 0
    with pytest.raises(ValueError, match="shape"):
        as_candidates(MATRIX).missing_from(truth[:2])


# --- annotator tables --------------------------------------------------------------------------------------------

TABLE = {
    "item": ["img1", "img1", "img1", "img2", "img2", "img3", "img1"],
    "who": ["ann", "bob", "bob", "ann", "cem", "ann", "ann"],
    "label": ["cat", "cat", "dog", "dog", None, None, "cat"],  # the last row repeats the first
}


def test_votes_are_counted_once_per_annotator():
    made = Candidates.from_votes(TABLE["item"], TABLE["who"], TABLE["label"], empty="ignore")
    assert made.labels == ("cat", "dog")
    assert made.index == ("img1", "img2", "img3")
    np.testing.assert_array_equal(made.votes.toarray(), [[2, 1], [0, 1], [0, 0]])
    assert made.voters.tolist() == [2, 2, 1]
    np.testing.assert_array_equal(made.to_matrix(), [[1, 1], [0, 1], [0, 0]])
    assert made.annotations.names == ("ann", "bob", "cem")


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_an_annotator_may_see_nothing(missing):
    made = Candidates.from_votes(["i", "j"], ["x", "x"], [missing, "c"], empty="ignore")
    assert made.to_lists() == [[], ["c"]]
    assert made.voters.tolist() == [1, 1]


def test_a_candidate_may_need_more_votes():
    made = Candidates.from_votes(TABLE["item"], TABLE["who"], TABLE["label"], min_votes=2, empty="drop")
    assert made.to_lists() == [["cat"]]
    assert made.index == ("img1",)
    np.testing.assert_array_equal(made.votes.toarray(), [[2, 1]])


def test_votes_follow_a_selection_of_rows():
    made = Candidates.from_votes(TABLE["item"], TABLE["who"], TABLE["label"], empty="ignore")[[1, 0, 0]]
    np.testing.assert_array_equal(made.votes.toarray(), [[0, 1], [2, 1], [2, 1]])
    assert made.voters.tolist() == [2, 2, 2]
    assert made.to_frame().index.tolist() == ["img2", "img1", "img1"]


def test_votes_are_none_without_a_table():
    assert as_candidates(MATRIX).votes is None
    assert as_candidates(MATRIX).voters is None


# --- what is wrong is named --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: as_candidates(np.array([[1, 0], [1, np.nan]]), ["a", "b"]), "row 1, label 'b' is nan; write -1"),
        (lambda: as_candidates(np.array([[1, 0], [2, 1]])), "row 1, label 0 is 2; use 1 candidate"),
        (lambda: as_candidates(sp.csr_array(np.array([[1, 0], [0, 0.5]]))), "row 1, label 1 is 0.5"),
        (lambda: as_candidates(np.ones((2, 3, 4))), r"two dimensions .* got shape \(2, 3, 4\)"),
        (lambda: Candidates.from_matrix(np.ones(3)), r"two dimensions .* got shape \(3,\)"),
        (lambda: Candidates.from_matrix([[1, 0], [1]]), "differ in length"),
        (lambda: Candidates.from_matrix([["a", "b"]]), "such as 'a'; for label names use Candidates.from_lists"),
        (lambda: as_candidates(np.ones((2, 2)), ["a"]), "2 columns and 1 label names"),
        (lambda: as_candidates(np.ones((2, 3)), ["a", "b", "a"]), "label name 'a' occurs twice"),
        (lambda: as_candidates(np.ones((0, 3))), r"shape \(0, 3\): there are no rows"),
        (lambda: as_candidates(np.ones((3, 0))), r"shape \(3, 0\): there are no labels"),
        (lambda: as_candidates([]), "there are no rows"),
        (lambda: Candidates.from_lists([["a"], "b;c"]), "row 1 is 'b;c'.*from_text"),
        (lambda: Candidates.from_lists([["a"], 3]), "row 1 is 3.*from_classes"),
        (lambda: Candidates.from_lists([["dog"], ["dgo"]], ["cat", "dog"]), "row 1: 'dgo' .* did you mean 'dog'"),
        (lambda: Candidates.from_lists([["zebra"]], ["cat", "dog"]), r"known labels start with \['cat', 'dog'\]"),
        (lambda: Candidates.from_text(["a", 3]), "row 1 is 3, expected text"),
        (lambda: Candidates.from_text(["a"], sep=""), "sep is empty"),
        (lambda: Candidates.from_classes(np.ones((2, 2))), "one dimension"),
        (lambda: Candidates.from_classes([0.0, np.nan]), "row 1 of the class vector is nan"),
        (lambda: Candidates.from_classes([0.0, np.inf]), "row 1 of the class vector is inf"),
        (lambda: as_candidates(["a", np.nan, "b"]), "row 1 of the class vector is nan; give every row a class"),
        (lambda: as_candidates(["a", None, "b"]), "row 1 of the class vector is None"),
        (lambda: as_candidates(pd.Series(["a", np.nan, "b"])), "row 1 of the class vector is nan"),
        (lambda: as_candidates(pd.Series([1, None], dtype="Int64")), "row 1 of the class vector is <NA>"),
        (lambda: as_candidates(pl.Series(["a", None])), "row 1 of the class vector is None"),
        (lambda: as_candidates(np.ma.masked_array([1, 2], [False, True])), "row 1 of the class vector is None"),
        (
            lambda: as_candidates(pd.DataFrame({"a": [1, 0], "b": pd.array([1, None], "Int64")})),
            "row 1, label 'b' is nan; write -1",
        ),
        (lambda: as_candidates([[1, 0], [1, pd.NA]], ["a", "b"]), "row 1, label 'b' is nan; write -1"),
        (lambda: as_candidates({"a": [1, 0]}), "row by row, got a dict; give a list with one entry per row"),
        (lambda: as_candidates("abc"), "row by row, got a str"),
        (lambda: as_candidates({"a", "b"}), "row by row, got a set"),
        (lambda: Candidates.from_votes([1, 2], ["a"], ["x", "y"]), "2 items, 1 annotators and 2 labels"),
        (lambda: Candidates.from_votes([1], ["a"], ["x"], min_votes=0), "min_votes is 0"),
        (lambda: as_candidates(MATRIX).to_classes(), "row 0 has 2 candidates"),
        (lambda: Candidates.from_lists([["a;b"]]).to_text(), "contains the separator"),
    ],
)
def test_errors_name_the_place_and_the_fix(make, told):
    with pytest.raises(ValueError, match=told):
        make()


def test_many_labels_stay_sparse():
    made = Candidates.from_lists([[i, i + 1] for i in range(20_000)])
    assert made.shape == (20_000, 20_001)
    assert made.states.nnz == 40_000


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        (["beach;sunset", "city", "beach"], r"'beach;sunset' is one of 3.*from_text\(y, sep=';'\)"),
        (["a|b"], r"sep='\|'"),
        (["a, b", "b, c", "a", "a, c", "c"], "'a, b' is one of 5.*sep=','"),
    ],
)
def test_a_list_of_labels_that_is_taken_for_a_class_is_warned_of(classes, told):
    with pytest.warns(UserWarning, match=told):
        assert as_candidates(classes).shape == (len(classes), len(set(classes)))
    with pytest.warns(UserWarning, match=told):
        ProPMLClassifier("bce", hidden=(), effort="fast").fit(np.eye(len(classes)), np.array(classes))


@pytest.mark.filterwarnings("error")
def test_names_of_classes_may_hold_commas():
    assert as_candidates(["salt, pepper", "bread", "bread"]).labels == ("bread", "salt, pepper")
    assert as_candidates([3, 4]).labels == (3, 4)
