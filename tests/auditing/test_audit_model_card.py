"""A model folder: switched at once, whatever happens, with a card that tells the truth about the model."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

import propml
from filling_disk import FillingDisk
from killed_writers import killed_after
from propml.auditing.model_card import make_card, read_model, write_model
from propml.file_errors import FileError
from propml.methods.propml import ProPMLClassifier
from propml.methods.ridge import RidgeRegressionClassifier as RidgeClassifier
from propml.tables.features import Features, learn_features
from propml.tables.files import read_table
from propml.tables.treatments import Matrix


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    lines = [f"{x:.3f},{y:.3f},{'a;b' if x > 0 else 'b;c'}" for x, y in rng.normal(size=(40, 2))]
    (tmp_path / "d.csv").write_text("\n".join(["x,y,tags", *lines, "1,1,"]) + "\n")
    return read_table(tmp_path / "d.csv", candidates="tags")


def made(table, model):
    learned = learn_features(table)
    return learned, model.fit(learned.X, table.candidates)


def test_the_card_of_a_network(table):
    learned, model = made(table, ProPMLClassifier("propml", hidden=(8,), epochs=3, random_state=3))
    card = json.loads(json.dumps(make_card(model, table, learned.features, seed=3)))
    assert card["method"] == "propml"
    assert card["parameters"]["hidden"] == [8]
    assert card["data"]["file"] == "d.csv"
    assert card["data"]["sha256"] == hashlib.sha256(table.path.read_bytes()).hexdigest()
    assert (card["data"]["rows"], card["data"]["rows_in_file"]) == (40, 41)
    assert card["data"]["candidates_per_row"] == 2
    assert card["data"]["notes"] == table.notes
    counts = {label["name"]: label["candidate_in_rows"] for label in card["labels"]}
    assert counts["b"] == 40
    assert counts["a"] + counts["c"] == 40
    assert card["columns"] == {"x": "number, standardised", "y": "number, standardised"}
    assert card["lambda"]["used"] == model.lam_
    assert card["lambda"]["chosen"].startswith("average_precision on held-out candidate labels, 5 folds")
    assert len(card["lambda"]["tried"]) == 3
    assert card["thresholds"]["logit"] == model.threshold_
    assert card["thresholds"]["probability"] == {"a": 0.5, "b": 0.5, "c": 0.5}
    assert card["settings"] == {"seed": 3}
    assert card["versions"]["propml"] == propml.__version__
    assert {"python", "numpy", "scipy", "scikit-learn", "torch"} < set(card["versions"])


def test_what_was_given_is_not_called_chosen(table):
    given = ProPMLClassifier(hidden=(8,), epochs=3, lam=0.2, threshold=0.4, random_state=3)
    learned, model = made(table, given)
    card = make_card(model, table, learned.features)
    assert card["lambda"]["chosen"] == "given by the user"
    assert card["thresholds"]["chosen"] == "given by the user"
    assert card["thresholds"]["probability"]["a"] == 0.4


def test_few_rows_choose_nothing(tmp_path):
    (tmp_path / "d.csv").write_text("x,tags\n1,a\n2,b\n4,a;b\n")
    table = read_table(tmp_path / "d.csv", candidates="tags")
    learned, model = made(table, ProPMLClassifier(hidden=(4,), epochs=2, order=1.0, random_state=0))
    assert "balances the two terms" in make_card(model, table, learned.features)["lambda"]["chosen"]


def test_the_card_of_another_method(table):
    learned, model = made(table, RidgeClassifier())
    card = make_card(model, table, learned.features)
    assert card["method"] == "ridge"
    assert card["lambda"] is None
    assert card["thresholds"]["chosen"].startswith("by the method")


def test_a_folder_and_back(table, tmp_path):
    learned, model = made(table, RidgeClassifier())
    write_model(tmp_path / "deep" / "model", model, learned.features, make_card(model, table, learned.features))
    saved = read_model(tmp_path / "deep" / "model")
    X, _ = saved.features.apply(table.source, rows=table.rows)
    assert np.array_equal(X, learned.X)
    assert np.array_equal(saved.model.predict_proba(X), model.predict_proba(learned.X))
    assert saved.card["method"] == "ridge"


def test_files_that_do_not_belong_together_are_refused(table, tmp_path):
    learned, model = made(table, RidgeClassifier())
    folder = write_model(tmp_path / "model", model, learned.features, make_card(model, table, learned.features))
    (folder / "card.json").write_text("{}")
    with pytest.raises(FileError, match=r"card\.json is not a readable card of a model .*has no 'model_sha256'"):
        read_model(folder)
    other = RidgeClassifier(alpha=3.0).fit(learned.X, table.candidates)
    write_model(tmp_path / "other", other, learned.features, make_card(other, table, learned.features))
    (folder / "card.json").write_bytes((tmp_path / "other" / "card.json").read_bytes())
    with pytest.raises(FileError, match="describes another model than"):
        read_model(folder)
    (folder / "card.json").unlink()
    assert read_model(folder).card["method"] == "ridge"
    other.save(folder / "model.safetensors")
    with pytest.raises(FileError, match="saved without what becomes of columns"):
        read_model(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match="there is no model in"):
        read_model(folder)


def test_columns_that_do_not_fit_the_model_are_refused(table, tmp_path):
    learned, model = made(table, RidgeClassifier())
    for treatments in (learned.features.treatments[:1], [Matrix("X", 10**12)]):
        folder = write_model(tmp_path / "m", model, Features(treatments), make_card(model, table, learned.features))
        with pytest.raises(FileError, match="features and the model takes 2"):
            read_model(folder)


def test_a_fit_that_is_killed_anywhere_leaves_the_model_before_or_the_new_one(table, tmp_path):
    learned, model = made(table, RidgeClassifier())
    other_table = read_table(table.path, candidates="tags", ignore=["x"])
    other_learned, other = made(other_table, RidgeClassifier(alpha=7.0))
    seen, ended = [], False
    while not ended:
        folder = write_model(tmp_path / "m", model, learned.features, make_card(model, table, learned.features))
        card = make_card(other, other_table, other_learned.features)
        ended = killed_after(
            len(seen), lambda card=card, folder=folder: write_model(folder, other, other_learned.features, card)
        )
        saved = read_model(folder)
        seen.append((saved.model.alpha, len(saved.features.names)))
    assert set(seen) == {(10.0, 2), (7.0, 1)}
    assert seen == sorted(seen, reverse=True)
    assert sorted(path.name for path in folder.iterdir()) == ["card.json", "model.safetensors"]


@pytest.mark.parametrize("room", [0, 100, 1500, 3000])
def test_a_full_disk_leaves_the_model_before_and_names_a_file_of_the_folder(table, tmp_path, monkeypatch, room):
    learned, model = made(table, RidgeClassifier())
    folder = write_model(tmp_path / "m", model, learned.features, make_card(model, table, learned.features))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = RidgeClassifier(alpha=3.0).fit(learned.X, table.candidates)
    monkeypatch.setattr(os, "write", FillingDisk(room))
    with pytest.raises(OSError, match="No space left") as caught:
        write_model(folder, other, learned.features, make_card(other, table, learned.features))
    assert Path(caught.value.filename).parent == folder
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_two_fits_of_the_same_file_write_the_same_model(table, tmp_path):
    for name in ("a", "b"):
        learned, model = made(table, ProPMLClassifier(hidden=(4,), epochs=2, random_state=0))
        write_model(tmp_path / name, model, learned.features, make_card(model, table, learned.features))
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("a", "b"))
    assert first == second
