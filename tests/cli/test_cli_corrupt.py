"""``propml corrupt`` as a user calls it."""

import csv
import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from propml.cli.corrupt import corrupt
from propml.corruption import add_most_probable, independent_flips, neighbour_labels, svm_probabilities
from propml.datasets import Dataset
from propml.targets import Candidates

app = typer.Typer(pretty_exceptions_enable=False)
app.command()(corrupt)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def clean(tmp_path):
    """A file of 40 rows, the first of which has no true label."""
    rng = np.random.default_rng(0)
    truth = (rng.random((40, 4)) < 0.3).astype(np.int8)
    truth[0], truth[1:, 0] = 0, 1
    path = tmp_path / "clean.npz"
    np.savez(path, X=rng.normal(size=(40, 3)), truth=truth, label_names=np.array(["cat", "dog", "eel", "fox"]))
    return path


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


def truth_of(path):
    with np.load(path) as stored:
        return stored["truth"]


def test_svm_confusions_into_an_npz(clean, tmp_path):
    result = run(clean, "--ratio", 0.5, "--rounding", "exact", "--seed", 2, "--jobs", 1, "--out", tmp_path / "c.npz")
    assert result.exit_code == 0
    with np.load(clean) as stored:
        X, truth = stored["X"][1:], stored["truth"][1:]
    expected = add_most_probable(truth, svm_probabilities(X, truth, random_state=2), 0.5, "exact")
    with np.load(tmp_path / "c.npz") as stored:
        assert (stored["candidates"] == expected.to_matrix()).all()
        assert stored["rows"].tolist() == list(range(1, 40))
        assert json.loads(str(stored["settings"]))["rounding"] == "exact"
        assert int(stored["seed"]) == 2
    assert "rows dropped (no true label)" in result.output
    assert "39 × 4" in result.output


def test_the_cache_lies_where_it_is_told_or_nowhere(clean, tmp_path):
    run(clean, "--no-cache")
    assert not (tmp_path / "cache").exists()
    run(clean)
    assert len(list((tmp_path / "cache").rglob("svm-*.npz"))) == 1
    run(clean, "--cache-dir", tmp_path / "mine")
    assert len(list((tmp_path / "mine").glob("svm-*.npz"))) == 1


def test_flips_into_a_csv_with_unlabelled_rows_kept(clean, tmp_path):
    result = run(clean, "--method", "flips", "--rate", 0.25, "--keep-unlabelled", "--out", tmp_path / "c.csv")
    assert result.exit_code == 0
    expected = independent_flips(truth_of(clean), 0.25, labels=["cat", "dog", "eel", "fox"]).to_text()
    with (tmp_path / "c.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["candidates"] for row in rows] == expected
    assert [int(row["row"]) for row in rows] == list(range(40))
    assert "dropped" not in result.output


def test_labels_of_near_rows_and_flips_by_class(clean, tmp_path):
    out = tmp_path / "c.npz"
    assert run(clean, "--method", "neighbours", "--ratio", 1, "--out", out).exit_code == 0
    with np.load(clean) as data, np.load(out) as made:
        assert (made["candidates"] == neighbour_labels(data["X"][1:], data["truth"][1:], 1.0).to_matrix()).all()
    assert "39 × 4" in run(clean, "--method", "class-flips", "--rate", 0.2).output
    np.savez(tmp_path / "bare.npz", truth=truth_of(clean))
    with pytest.raises(ValueError, match="--method neighbours looks at the features"):
        run(tmp_path / "bare.npz", "--method", "neighbours")


def test_counts_and_fractions_print_what_they_did(clean):
    truth = truth_of(clean)[1:]
    filled = run(clean, "--method", "count", "--count", 4, "--mode", "fill")
    assert f"{(4 * 39 - truth.sum()) / truth.sum():.3f}" in filled.output
    added = run(clean, "--method", "count", "--count", 1, "--mode", "add")
    assert f"{(truth.sum(axis=1) < 4).sum() / truth.sum():.3f}" in added.output
    assert "4.00" in run(clean, "--method", "fraction", "--fraction", 1).output


def test_annotators_with_their_votes(clean, tmp_path):
    result = run(
        clean, "--method", "annotators", "--sensitivity", 0.2, "--sensitivity", 0.4, "--false-positive-rate", 0.1,
        "--coverage", 0.9, "--min-votes", 2, "--out", tmp_path / "c.npz", "--votes-out", tmp_path / "v.csv",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "true labels lost" in result.output
    assert "rows without a candidate" in result.output
    with (tmp_path / "v.csv").open(newline="") as file:
        votes = list(csv.DictReader(file))
    assert {vote["annotator"] for vote in votes} == {"annotator-1", "annotator-2"}
    with np.load(tmp_path / "c.npz") as stored:
        assert stored["votes"].sum() == sum(bool(vote["label"]) for vote in votes)


def test_the_preview_tells_what_rounding_down_does(tmp_path):
    np.savez(tmp_path / "one.npz", truth=np.eye(10, 5, dtype=int) + np.eye(10, 5, k=-5, dtype=int))
    result = run(tmp_path / "one.npz", "--preview")
    # One true label in every row: 50 % adds nothing, 150 % is 100 %.
    lines = [line for line in result.output.splitlines() if "%" in line]
    assert "0.000" in lines[0]
    assert "100.0%" in lines[0]
    assert "1.000" in lines[1]
    assert "1.000" in lines[2]


def test_a_dataset_by_name():
    result = run("digits-mosaic", "--method", "flips", "--rate", 0.1)
    assert result.exit_code == 0
    assert "candidates of digits-mosaic" in result.output


def test_a_dataset_without_truth_is_told(monkeypatch):
    bare = Dataset("bare", np.eye(2), None, Candidates.from_matrix(np.eye(2)), ("a", "b"), ("x", "y"))
    monkeypatch.setattr("propml.datasets.load", lambda name, data_dir: bare)
    with pytest.raises(ValueError, match="bare has no true labels"):
        run("bare", "--method", "flips", "--rate", 0.1)


def test_the_papers_table_is_printed_for_a_real_file(data_dir):
    assert "0.068" in run("scene", "--preview", "--data-dir", data_dir).output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rate", 0.1], "--rate belongs to --method flips, and the method is svm"),
        (["--method", "flips"], "--method flips needs --rate"),
        (["--method", "annotators", "--sensitivity", 0.9], "needs --false-positive-rate"),
        (["--method", "flips", "--rate", 0.1, "--annotators", 3], "--annotators belongs to --method annotators"),
        (["--votes-out", "v.csv"], "--votes-out belongs to --method annotators"),
        (["--out", "candidates.txt"], "ends in '.txt'"),
        (["--preview", "--out", "c.csv"], "--preview .* does nothing with --out; leave that out"),
        (["--preview", "--method", "flips", "--rate", 0.1], "does nothing with --rate, --method flips"),
    ],
)
def test_options_that_do_not_fit_are_told(clean, options, message):
    with pytest.raises(ValueError, match=message):
        run(clean, *options)


def test_no_file_is_written_over_another_one(clean, tmp_path):
    before = clean.read_bytes()
    (tmp_path / "link.npz").symlink_to(clean)
    flips = ("--method", "flips", "--rate", 0.1)
    (tmp_path / "folder").mkdir()
    for out in (clean, tmp_path / "link.npz", tmp_path / "folder" / ".." / "clean.npz"):
        with pytest.raises(ValueError, match=r"is read here and would be overwritten; write to another place"):
            run(clean, *flips, "--out", out)
    with pytest.raises(ValueError, match=r"--votes-out is .*v\.csv, which is also --out; choose another"):
        run(clean, "--method", "annotators", "--sensitivity", 1, "--false-positive-rate", 0, "--annotators", 1,
            "--out", tmp_path / "v.csv", "--votes-out", tmp_path / "v.csv")  # fmt: skip
    assert clean.read_bytes() == before
    assert not (tmp_path / "v.csv").exists()


def test_a_cache_that_takes_nothing_is_no_obstacle(clean, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="nothing can be kept in the cache folder"):
        result = run(clean, "--out", tmp_path / "c.npz")
    assert result.exit_code == 0
    assert (tmp_path / "c.npz").exists()


def test_the_suffix_of_the_data_may_be_in_capitals(clean):
    assert run(clean.rename(clean.with_name("C.NPZ")), "--method", "flips", "--rate", 0.1).exit_code == 0


def test_data_that_does_not_fit_is_told(clean, tmp_path):
    with pytest.raises(ValueError, match="votes cannot be written"):
        run(clean, "--method", "annotators", "--sensitivity", 1, "--false-positive-rate", 0, "--annotators", 1,
            "--votes-out", tmp_path / "v.txt")  # fmt: skip
    np.savez(tmp_path / "flat.npz", truth=np.ones(3))
    with pytest.raises(ValueError, match=r"has shape \(3,\)"):
        run(tmp_path / "flat.npz")
    np.savez(tmp_path / "bare.npz", X=np.eye(3), truth=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="no row has a true label"):
        run(tmp_path / "bare.npz")
    np.savez(tmp_path / "short.npz", X=np.eye(2), truth=np.eye(5, 3))
    with pytest.raises(ValueError, match=r"X of .*short\.npz has shape \(2, 2\) and its truth \(5, 3\); give one row"):
        run(tmp_path / "short.npz", "--method", "flips", "--rate", 0.1)
    np.savez(tmp_path / "labels.npz", truth=np.eye(3))
    with pytest.raises(ValueError, match=r"features, and .*labels\.npz holds none"):
        run(tmp_path / "labels.npz")


@pytest.mark.parametrize("method", [("flips", "--rate", "0.5"), ("neighbours",)])
def test_a_file_of_ones_own_is_written_again_with_candidates(tmp_path, method):
    rng = np.random.default_rng(0)
    lines = [f"{i},{a:.2f},{'sea' if a > 0 else 'city'}" for i, a in enumerate(rng.normal(size=40))]
    (tmp_path / "photos.csv").write_text("\n".join(["id,size,checked", *lines, "40,0.1,"]) + "\n")
    out = tmp_path / "noisy.csv"
    told = run(tmp_path / "photos.csv", "--truth", "checked", "--ignore", "id", "--method", *method, "--out", out)
    assert "rows dropped (no true label)" in told.output
    with (tmp_path / "photos.csv").open() as before, out.open() as after:
        pairs = list(zip(csv.DictReader(before), csv.DictReader(after), strict=True))
    assert all({**old, "checked": ""} == {**new, "checked": ""} for old, new in pairs)
    sets = [(old["checked"], set(new["checked"].split(";"))) for old, new in pairs]
    assert all(true in given for true, given in sets[:-1])
    assert 0 < sum(len(given) == 2 for _, given in sets) <= 40
    assert pairs[-1][1]["checked"] == ""


def test_a_file_of_ones_own_needs_to_say_where_its_labels_are(tmp_path, clean):
    (tmp_path / "photos.csv").write_text("size,checked\n1,sea\n2,city\n")
    with pytest.raises(ValueError, match=r"say where the candidate labels are: one delimited column \(--truth\)"):
        run(tmp_path / "photos.csv", "--method", "flips", "--rate", "0.1")
    with pytest.raises(ValueError, match=r"--truth is for a file of yours, and .*clean\.npz is none"):
        run(clean, "--method", "flips", "--rate", "0.1", "--truth", "checked")


def test_the_help_teaches_by_example():
    result = run("--help")
    assert "propml corrupt scene --ratio 0.5" in result.output
