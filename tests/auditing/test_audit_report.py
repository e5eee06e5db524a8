"""The report: tables in pandas and polars, files that survive or are refused, and what it says of itself."""

import pickle

import numpy as np
import polars as pl
import pytest
from planted import planted

import propml
from forged_states import forge
from propml.auditing import AuditReport
from propml.auditing.verdicts import give_verdicts
from propml.corruption.annotators import simulated_annotators
from propml.file_errors import FileError
from propml.methods.ridge import RidgeRegressionClassifier as RidgeClassifier
from propml.persistence import from_json_array, json_array
from propml.targets import Candidates

RIDGE = RidgeClassifier(1.0)


@pytest.fixture(scope="module")
def voted():
    X, truth, _ = planted(80)
    votes = simulated_annotators(truth, [0.9, 0.8, 0.7], [0.1, 0.1, 0.2], labels=list("abcdef"))
    named = Candidates(votes.states, votes.labels, tuple(f"item {i}" for i in range(80)), votes.annotations)
    return propml.audit(X, named, model=RIDGE)


@pytest.fixture(scope="module")
def plain():
    X, _, candidates = planted(80)
    states = candidates.to_matrix()
    states[::9, 4] = -1
    return propml.audit(X, Candidates.from_matrix(states))


@pytest.fixture(scope="module")
def incomplete():
    X, _, candidates = planted(80)
    return propml.audit(X, candidates, incomplete=True, model=RIDGE)


# -- tables -----------------------------------------------------------------------------------------------------------


def test_frames_say_what_the_verdicts_say(voted):
    frame, told = voted.to_frame(), voted.verdicts()
    assert list(frame.columns) == ["item", "label", "verdict", "confidence", "probability", "votes", "voters"]
    for place in (0, 17, len(told) - 1):
        line = frame.iloc[place]
        assert line["item"] == f"item {told.row[place]}"
        assert line["label"] == "abcdef"[told.label[place]]
        assert line["verdict"] == told.verdict[place]
        assert line["votes"] == voted.candidates.votes.toarray()[told.row[place], told.label[place]]
        assert line["voters"] == 3


@pytest.mark.parametrize("name", ["to_frame", "worst", "labels", "annotators"])
def test_polars_has_the_same_tables(voted, plain, name):
    for report in (voted, plain):
        one, other = getattr(report, name)(), getattr(report, name)(library="polars")
        assert isinstance(other, pl.DataFrame)
        assert list(one.columns) == other.columns
        for column in one.columns:
            values = other[column].to_numpy()
            if one[column].dtype.kind == "f":
                np.testing.assert_allclose(one[column], values)
            else:
                assert one[column].tolist() == values.tolist()


def test_an_unknown_library_is_named(plain):
    with pytest.raises(ValueError, match=r'library is .*; choose "pandas", "polars" or "columns"'):
        plain.to_frame("dask")


def test_the_worst_come_first_and_are_candidates(incomplete):
    worst = incomplete.worst(30)
    assert len(worst) == 30
    assert worst["probability"].is_monotonic_increasing
    told = incomplete.verdicts()
    assert worst["probability"].max() <= np.sort(told.probability[told.verdict != "missing"])[29]
    assert len(incomplete.worst(0)) == 0
    assert len(incomplete.worst(10**6)) == int(incomplete.candidates.sizes().sum())


def test_labels_count_candidates_and_verdicts(voted, incomplete):
    frame = voted.labels()
    counted = np.asarray((voted.candidates.states > 0).sum(axis=0)).ravel()
    assert frame["candidates"].tolist() == counted.tolist()
    assert (frame["keep"] + frame["doubtful"] + frame["drop"]).tolist() == counted.tolist()
    marked = voted.candidates.to_matrix() > 0
    expected = [voted.probabilities[marked[:, j], j].mean() for j in range(6)]
    np.testing.assert_allclose(frame["share_true"], expected, rtol=1e-5)
    assert "missing" not in frame
    assert incomplete.labels()["missing"].sum() == incomplete.verdicts().counts()["missing"]


def test_annotators_without_votes_are_an_empty_table(plain):
    assert plain.annotators().empty
    assert plain.annotators("polars").columns == list(plain.annotators().columns)


def test_cleaned_never_empties_a_row():
    candidates = Candidates.from_matrix([[1, 1], [1, 0]])
    report = AuditReport(candidates, np.array([[0.1, 0.05], [0.2, 0.0]], dtype=np.float32))
    assert report.cleaned().to_matrix().tolist() == [[1, 0], [1, 0]]
    assert report.cleaned(drop_below=0.01).to_matrix().tolist() == [[1, 1], [1, 0]]


def test_cleaned_keeps_names_and_votes(voted):
    cleaned = voted.cleaned()
    assert cleaned.labels == voted.candidates.labels
    assert list(cleaned.index) == list(voted.candidates.index)
    assert cleaned.annotations is voted.candidates.annotations


def test_other_cuts_give_other_verdicts(voted):
    strict = voted.verdicts(drop_below=0.05, keep_above=0.95)
    expected = give_verdicts(voted.probabilities, voted.candidates, drop_below=0.05, keep_above=0.95)
    assert strict.verdict.tolist() == expected.verdict.tolist()
    assert strict.counts()["drop"] < voted.verdicts().counts()["drop"]


def test_probabilities_must_fit_the_candidates():
    with pytest.raises(ValueError, match=r"probabilities have shape \(2, 3\), the candidates \(2, 2\)"):
        AuditReport(Candidates.from_matrix(np.eye(2)), np.zeros((2, 3)))


def test_it_says_the_essentials_in_a_few_lines(voted, incomplete):
    lines = repr(voted).splitlines()
    assert len(lines) == 3 + min(4, len(voted.notes()))
    found = voted.verdicts().counts()
    assert "80 rows, 6 labels" in lines[0]
    assert "3 annotators" in lines[0]
    assert f"{found['keep']} keep, {found['doubtful']} doubtful, {found['drop']} drop" in lines[1]
    assert "RidgeRegressionClassifier, 5 folds" in lines[-1]
    assert "missing" in repr(incomplete)
    assert "missing" not in repr(voted)
    nothing = AuditReport(Candidates.from_matrix([[0]], empty="ignore"), np.zeros((1, 1)))
    assert "0 candidates" in repr(nothing)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["voted", "plain", "incomplete"])
def test_what_was_saved_comes_back(name, request, tmp_path):
    report = request.getfixturevalue(name)
    report.save(tmp_path / "deep" / "report")
    again = AuditReport.load(tmp_path / "deep" / "report")
    np.testing.assert_array_equal(again.probabilities, report.probabilities)
    assert again.candidates == report.candidates
    assert again.item_ids == report.item_ids
    assert again.label_names == report.label_names
    assert repr(again) == repr(report)
    assert again.settings == report.settings
    assert again.to_frame().equals(report.to_frame())
    assert again.annotators().equals(report.annotators())
    assert again.labels().equals(report.labels())


def test_names_keep_their_type_where_json_has_it(tmp_path):
    labels = (1, "two", 3.5, ("a", "tuple"))
    candidates = Candidates(Candidates.from_matrix(np.eye(4)).states, labels, ("x", np.int64(5), 7, None))
    AuditReport(candidates, np.eye(4, dtype=np.float32)).save(tmp_path)
    again = AuditReport.load(tmp_path)
    assert again.candidates.labels == (1, "two", 3.5, "('a', 'tuple')")
    assert again.candidates.index == ("x", 5, 7, "None")


def test_saving_twice_replaces_the_report(voted, plain, tmp_path):
    voted.save(tmp_path)
    plain.save(tmp_path)
    assert repr(AuditReport.load(tmp_path)) == repr(plain)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.safetensors"]


def spoiled(path, change):
    content = path.read_bytes()
    path.write_bytes(change(content))


@pytest.mark.parametrize(
    "change",
    [lambda b: b[:-50], lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:], lambda b: b.replace(b"Report", b"Repurt"),
     lambda b: b"", lambda b: b"{}", lambda b: pickle.dumps(Bomb())],
)  # fmt: skip
def test_files_that_were_cut_short_or_changed_are_refused_in_a_sentence(voted, tmp_path, change):
    voted.save(tmp_path)
    spoiled(tmp_path / "report.safetensors", change)
    with pytest.raises(FileError, match=r"report\.safetensors .*; save it again"):
        AuditReport.load(tmp_path)


def test_a_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no report in"):
        AuditReport.load(tmp_path / "nowhere")


def told(change):
    """Edit what a report says beside its arrays."""

    def forged(arrays, outline):
        arrays["/told"] = json_array(from_json_array(arrays["/told"]) | change)

    return forged


def put(name, value):
    def forged(arrays, outline):
        arrays[name][-1] = value

    return forged


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put("/states/indptr", 0), "indptr falls"),
        (put("/states/indices", 99), "indices go from 0 to 99"),
        (put("/states/data", 9), "states is an array"),
        (put("/probabilities", 2.0), "probabilities is an array"),
        (put("/votes/row", 10**6), "votes name row 1000000"),
        (put("/votes/annotator", 10**6), "votes name annotator 1000000"),
        (put("/votes/label", -7), "votes.label is an array"),
        (told({"labels": ["a"]}), "states is an array"),
        (told({"labels": 3}), "labels is 3, expected a list"),
        (told({"index": ["a"]}), "states is an array"),
        (told({"annotators": [["eve"]]}), r"annotators\[0\] is"),
        (told({"incomplete": "no"}), "incomplete is 'no'"),
        (lambda arrays, outline: outline["dict"].pop("told"), "KeyError: 'told'"),
        (lambda arrays, outline: outline["dict"].update(votes=None), "TypeError"),
    ],
)
def test_a_forged_report_is_refused(voted, tmp_path, change, words):
    voted.save(tmp_path)
    forge(tmp_path / "report.safetensors", change)
    with pytest.raises(FileError, match=words) as caught:
        AuditReport.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a pickle was opened')",))
