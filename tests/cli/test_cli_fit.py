"""``propml fit`` on one's own files."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import LABELS, propml, told, write_photos

import propml as package
from propml.auditing.model_card import read_model


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_photos(tmp_path / "photos.csv")


def test_a_model_folder_with_its_card(photos, tmp_path):
    done = propml("fit", photos, "--candidates", "tags", "--ignore", "truth", "--id", "id", "--quick", "--out", "m")
    assert done.code == 0, done.err
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == [
        "card.json",
        "model.safetensors",
    ]
    assert "120 rows, 7 features, 5 labels; model: m" in done.out
    assert "11 missing became the median" in done.out
    card = json.loads((tmp_path / "m" / "card.json").read_text())
    assert card["method"] == "propml"
    assert card["data"]["rows"] == 120
    assert card["data"]["features"] == 7
    assert [label["name"] for label in card["labels"]] == list(LABELS)
    assert set(card["columns"]) == {"a", "b", "c", "camera"}
    assert set(card["lambda"]) == {"used", "chosen", "tried"}
    assert card["lambda"]["used"]["ProPML"] in card["lambda"]["tried"]
    assert set(card["thresholds"]["probability"]) == set(LABELS)
    assert card["versions"]["propml"] == package.__version__
    assert card["settings"]["seed"] == 0
    assert read_model(tmp_path / "m").model.lam_ == card["lambda"]["used"]


@pytest.mark.parametrize("method", ["ridge", "ml-knn"])
def test_other_methods(photos, method):
    done = propml("fit", photos, "--candidates", "tags", "--features", "a,b,camera", "--method", method)
    assert done.code == 0, done.err
    card = json.loads((photos.parent / "model" / "card.json").read_text())
    assert card["method"] == method
    assert card["lambda"] is None
    assert set(card["columns"]) == {"a", "b", "camera"}


def test_every_way_to_give_labels(photos, tmp_path):
    rng = np.random.default_rng(0)
    flags = (rng.random((30, 2)) < 0.6).astype(int) | np.eye(2, dtype=int)[np.arange(30) % 2]
    columns = {"x": rng.normal(size=30), "y_a": flags[:, 0], "y_b": flags[:, 1]}
    pq.write_table(pa.table(columns), tmp_path / "d.parquet")
    assert propml("fit", "d.parquet", "--label-columns", "y_*", "--method", "ridge").code == 0
    assert read_model(tmp_path / "model").model.labels_ == ("y_a", "y_b")
    np.savez(tmp_path / "d.npz", X=columns["x"].reshape(-1, 1), candidates=flags, label_names=["u", "v"])
    assert propml("fit", "d.npz", "--method", "ridge").code == 0
    assert read_model(tmp_path / "model").model.labels_ == ("u", "v")
    (tmp_path / "votes.tsv").write_text("photo\twho\ttag\np1\tann\tsea\np1\tbob\tsea\np2\tbob\tcity\np2\tann\t\n")
    done = propml("fit", photos, "--id", "id", "--votes", "votes.tsv", "--votes-columns", "photo,who,tag",
                  "--min-votes", 2, "--ignore", "tags,truth", "--method", "ridge", "--features", "a,b")  # fmt: skip
    assert done.code == 1  # one row is left, and its columns do not vary
    assert "no column is left" in done.err
    done = propml("fit", photos, "--id", "id", "--votes", "votes.tsv", "--votes-columns", "photo,who,tag",
                  "--method", "ridge", "--features", "a,b")  # fmt: skip
    assert done.code == 0, done.err
    assert "118 rows have no candidate label" in done.err
    assert read_model(tmp_path / "model").model.labels_ == ("city", "sea")


def test_the_same_seed_gives_the_same_model(photos, tmp_path):
    for out in ("one", "two"):
        assert propml("fit", photos, "--candidates", "tags", "--ignore", "truth,id", "--quick", "--out", out).code == 0
    one, two = (read_model(tmp_path / out).model for out in ("one", "two"))
    X = np.random.default_rng(0).normal(size=(5, 7))
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))


BAD_FILES = {
    "ragged.csv": (b"a,tags\n1,x;y\n2\n", "line 3 has 1 cells, the header has 2"),
    "latin.csv": (
        "a,tags\n1,caf\u00e9;x\n".encode("latin-1"),
        "byte 0xE9 at position 12 (line 2); it looks like Windows-1252",
    ),
    "empty.csv": (b"", "has no header"),
    "no_rows.csv": (b"a,tags\n", "has a header and no rows"),
    "twice.csv": (b"a,a,tags\n1,2,x;y\n", "has two columns named 'a'"),
    "missing.csv": (b"a,labels\n1,x;y\n", "has no column 'tags'; it has 'a', 'labels'"),
    "no_labels.csv": (b"a,tags\n1,\n2,\n", "column 'tags' names no label"),
    "other_sep.csv": (b'a,tags\n1,"x,y"\n2,"y,z"\n', "choose --sep ,"),
    "semicolons.csv": (b"a;tags\n1;x\n", "choose --delimiter ';'"),
    "constant.csv": (b"a,tags\n1,x;y\n1,y;z\n", "no column is left that a model could learn from"),
    "broken.parquet": (b"PAR1", "is not a readable Parquet file"),
    "broken.npz": (b"PK nonsense", "is not a readable npz file"),
    "data.doc": (b"PK", "is not a readable zip file"),
    "data.xlsx": (b"PK", "is not a readable xlsx file"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_bad_file_is_one_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content, sentence = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    options = [] if name.endswith("npz") else ["--candidates", "tags"]
    assert sentence in told(propml("fit", name, *options))
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "say where the candidate labels are"),
        (("--candidates", "tags", "--method", "rigde"), "did you mean 'ridge'"),
        (
            ("--candidates", "tags", "--method", "ridge", "--quick"),
            "--quick makes the networks of --method propml small",
        ),
        (("--candidates", "tags", "--method", "ridge", "--device", "cpu"), "--device is for networks"),
        (("--candidates", "tags", "--device", "abacus"), "device abacus cannot be used here"),
        (("--candidates", "tags", "--device", "meta"), "device meta cannot be used here"),
        (("--candidates", "tags", "--min-votes", "2"), "no votes were given"),
        (("--candidates", "tags", "--xml", "photos.xml"), "is no ARFF file"),
        (("--label-columns", ""), "say where the candidate labels are"),
        (("--candidates", "tags", "--categorical", "zip"), "has no column 'zip'"),
        (("--candidates", "tags", "--delimiter", ";"), "the delimiter ';' occurs nowhere in the first line"),
        (("--label-columns", "y_*"), "has no column 'y_*'"),
        (("--label-columns", "a"), "row 0 (line 2), column 'a' is"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(photos, options, sentence):
    assert sentence in told(propml("fit", photos, *options))


def test_numbers_as_somebody_writes_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"{i % 9},{'5' if i % 4 else '25'};{'sold' if i == 3 else f'{i * i},5'};{'a|b' if i % 3 else 'b'}"
        for i in range(30)
    ]
    (tmp_path / "d.csv").write_text("\n".join(["x;price;tags", *rows]) + "\n")
    how = ("d.csv", "--candidates", "tags", "--sep", "|", "--delimiter", ";", "--method", "ridge")
    said = told(propml("fit", *how))
    assert "d.csv: row 0 (line 2), column 'x' is '0,25', a number with a comma" in said
    assert "--decimal ," in said
    said = told(propml("fit", *how, "--decimal", ","))
    assert "d.csv: row 3 (line 5), column 'price' is 'sold'" in said
    assert "--missing sold" in said
    done = propml("fit", *how, "--decimal", ",", "--missing", "sold")
    assert done.code == 0, done.err
    assert "1 missing became the median" in done.out
    done = propml("predict", "model", "d.csv", "--delimiter", ";")  # decimals and words as in training
    assert done.code == 0, done.err
    assert propml("evaluate", "model", "d.csv", "--delimiter", ";", "--truth", "tags", "--sep", "|").code == 0
    (tmp_path / "d.csv").write_text("x;price\n0.25;gone\n")
    assert "column 'price' is 'gone'" in told(propml("predict", "model", "d.csv", "--delimiter", ";"))
    assert propml("predict", "model", "d.csv", "--delimiter", ";", "--missing", "gone").code == 0


@pytest.mark.parametrize("out", ["taken", "taken/model"])
def test_a_place_that_cannot_be_used_is_told_before_the_work(photos, tmp_path, monkeypatch, out):
    (tmp_path / "taken").write_text("mine")
    monkeypatch.setattr("propml.tables.files.read_table", None)
    said = told(propml("fit", photos, "--candidates", "tags", "--out", tmp_path / out))
    assert "taken is not a folder, so nothing can be written to" in said
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_missing_argument_is_a_usage_error():
    assert propml("fit").code == 2


def test_the_help_teaches_by_example():
    shown = propml("fit", "--help")
    assert shown.code == 0
    assert "propml fit photos.csv --candidates tags" in shown.out


def test_in_a_process_of_its_own(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"a,tags\n1,\xff\n")
    done = subprocess.run(
        [sys.executable, "-c", "from propml.cli import main; main()", "fit", "d.csv", "--candidates", "tags"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: d.csv is not UTF-8 text: byte 0xFF")


@pytest.mark.parametrize("text", ["x = " + "[" * 9999, '[methods.A]\nmethod = "propml"\nparams = { depth = 3 }\n'])
def test_a_file_of_arguments_that_cannot_be_used_is_named(photos, text):
    (photos.parent / "best.toml").write_text(text)
    said = told(propml("fit", photos, "--candidates", "tags", "--tuned", "best.toml"))
    assert said.startswith("best.toml is not a readable")
    assert not (photos.parent / "model").exists()
