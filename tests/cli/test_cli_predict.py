"""``propml predict`` with a model of one's own."""

import csv

import numpy as np
import pytest
from command_line import LABELS, propml, told, write_photos

from propml.auditing.model_card import read_model
from propml.tables.sources import open_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a ridge model of some photos."""
    made = tmp_path_factory.mktemp("predict")
    write_photos(made / "photos.csv")
    done = propml("fit", made / "photos.csv", "--candidates", "tags", "--ignore", "truth", "--id", "id",
                  "--method", "ridge", "--out", made / "model")  # fmt: skip
    assert done.code == 0, done.err
    return made


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_labels_as_the_model_predicts_them(folder, here, monkeypatch):
    monkeypatch.setattr("propml.cli.models.BLOCK_ROWS", 7)
    write_photos(here / "new.csv", n=30, seed=5)
    done = propml("predict", folder / "model", "new.csv")
    assert done.code == 0, done.err
    rows = rows_of(here / "predictions.csv")
    assert list(rows[0]) == ["id", "predicted"]
    assert [row["id"] for row in rows] == [f"p{i}" for i in range(30)]
    saved = read_model(folder / "model")
    X, _ = saved.features.apply(open_table(here / "new.csv"))
    expected = [set(names) for names in saved.model.predict_labels(X)]
    assert [set(row["predicted"].split(";")) - {""} for row in rows] == expected
    assert any(len(names) > 1 for names in expected)


def test_probabilities_and_the_best_labels(folder, here):
    write_photos(here / "new.csv", n=10, seed=5)
    assert propml("predict", folder / "model", "new.csv", "--probabilities", "--top", 2, "--out", "p.csv").code == 0
    rows = rows_of(here / "p.csv")
    assert list(rows[0]) == ["id", "predicted", *(f"p({label})" for label in LABELS)]
    for row in rows:
        best = sorted(LABELS, key=lambda label: -float(row[f"p({label})"]))
        assert row["predicted"].split(";") == best[:2]


def test_columns_may_come_in_another_order_and_labels_may_lack(folder, here):
    (here / "new.csv").write_text("camera,extra,c,b,a\nphone,7,1,0.5,-1\nCanon,8,,0.1,2\n")
    done = propml("predict", folder / "model", "new.csv")
    assert done.code == 0, done.err
    assert [row["row"] for row in rows_of(here / "predictions.csv")] == ["0", "1"]


def test_values_never_seen_are_noted(folder, here):
    (here / "new.csv").write_text("id,camera,c,b,a\nx,Leica,1,0.5,-1\n")
    done = propml("predict", folder / "model", "new.csv")
    assert done.code == 0
    assert "column 'camera': 1 rows have values never seen in training, such as 'Leica'" in done.err


def test_identifiers_that_are_formulas_are_neutralised(folder, here):
    (here / "new.csv").write_text("name,camera,c,b,a\n=cmd|' /C calc'!A0,phone,1,0.5,-1\n-7,phone,1,0.5,-1\n")
    assert propml("predict", folder / "model", "new.csv", "--id", "name").code == 0
    assert [row["name"] for row in rows_of(here / "predictions.csv")] == ["'=cmd|' /C calc'!A0", "-7"]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("camera,c,b\nphone,1,2\n", (), "has no column 'a', from which the model learned"),
        (
            "camera,c,b,a\nphone,1,2,much\n",
            (),
            "row 0 (line 2), column 'a' is 'much', and the column held numbers in training",
        ),
        ("camera,c,b,a\nphone,1,2\n", (), "line 2 has 3 cells, the header has 4"),
        ("camera,c,b,a\n", (), "has a header and no rows"),
        ("camera,c,b,a\nphone,1,2,3\n", ("--id", "name"), "has no column 'name'"),
        ("camera,c,b,a\nphone,1,2,3\n", ("--out", "p.doc"), "choose a name in .csv"),
        ("camera,c,b,a\nphone,1,2,3\n", ("--delimiter", ";"), "choose --delimiter ,"),
        ("camera,c,b,a\nphone,1,2,3\n", ("--device", "cuda"), "--device is for networks, and the model in"),
        ("camera,c,b,a\nphone,1,2,3\n", ("--out", "new.csv/p.csv"), "new.csv is not a folder"),
    ],
)
def test_a_mistake_is_one_sentence(folder, here, text, options, sentence):
    (here / "new.csv").write_text(text)
    assert sentence in told(propml("predict", folder / "model", "new.csv", *options))
    assert not (here / "predictions.csv").exists()


@pytest.mark.parametrize("name", ["new.csv", "./new.csv", "link.csv", "hard.csv"])
def test_the_file_that_is_read_is_not_written_over(folder, here, name):
    write_photos(here / "new.csv", n=5)
    (here / "link.csv").symlink_to("new.csv")
    (here / "hard.csv").hardlink_to("new.csv")
    before = (here / "new.csv").read_bytes()
    said = told(propml("predict", folder / "model", "new.csv", "--out", name))
    assert "is read here and would be overwritten; write to another place" in said
    assert (here / name).read_bytes() == before


def test_a_folder_is_no_place_for_predictions(folder, here):
    write_photos(here / "new.csv", n=5)
    (here / "p.csv").mkdir()
    assert "p.csv is a folder" in told(propml("predict", folder / "model", "new.csv", "--out", "p.csv"))


def test_folders_without_a_model_are_told(folder, here):
    (here / "new.csv").write_text("a\n1\n")
    assert "there is no model in nowhere" in told(propml("predict", "nowhere", "new.csv"))
    np.savez(here / "new.npz", X=np.eye(3))
    assert "trained on columns, and new.npz holds a matrix" in told(propml("predict", folder / "model", "new.npz"))


def test_labels_that_contain_the_separator_are_told(here):
    candidates = [[1, 0], [1, 1], [1, 1]]
    np.savez(here / "d.npz", X=np.arange(6.0).reshape(3, 2), candidates=candidates, label_names=["a;b", "c"])
    assert propml("fit", "d.npz", "--method", "ridge").code == 0
    assert "label 'a;b' contains ';'" in told(propml("predict", "model", "d.npz"))
    assert "leave out --id" in told(propml("predict", "model", "d.npz", "--id", "x"))


def test_a_model_trained_elsewhere_runs_here(here):
    write_photos(here / "photos.csv", n=40)
    assert propml("fit", "photos.csv", "--candidates", "tags", "--ignore", "truth,id", "--quick").code == 0
    assert propml("predict", "model", "photos.csv", "--device", "cpu").code == 0
    assert "device abacus cannot be used here" in told(propml("predict", "model", "photos.csv", "--device", "abacus"))
