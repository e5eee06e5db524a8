"""The table of thresholds: values worked out by hand, and the model's own predictions at its own threshold."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from propml import ProPMLClassifier
from propml.corruption import corrupt
from propml.datasets import digits_mosaic
from propml.metrics import f1_scores, hamming_loss
from propml.neural.judgement import HALF_WAY

PAPER = Path(__file__).parents[2] / "paper"


@pytest.fixture
def choice(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPER))
    for name in ("threshold_choice", "ground_choice", "kept"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("threshold_choice")


def test_values_by_hand(choice):
    scores, truth = np.array([[3.0, 2.0, 0.0], [1.0, -1.0, -2.0]]), np.array([[1, 0, 0], [1, 0, 0]])
    found = choice.at_thresholds(scores, truth, {"auto": 1.5, "f1": 0.5, "hamming": 2.5})
    # Predicted are 2 labels of which 1 is true, 3 with 2, 1 with 1; the best cut for either is the second or third.
    assert found == pytest.approx([50, 80, 200 / 3, 80, 200 / 6, 100 / 6, 100 / 6, 100 / 6])


@pytest.fixture
def kept(choice, tmp_path):
    """Values by dataset, noise and column; those that are not given are 0."""

    def write(given):
        lines = [f"{choice.CODE}{choice.fingerprint(choice.MODULES)}", ",".join(["dataset", "noise", *choice.COLUMNS])]
        for dataset, noise, values in given:
            assert set(values) <= set(choice.COLUMNS)
            lines.append(",".join([dataset, noise, *(str(values.get(name, 0)) for name in choice.COLUMNS)]))
        path = tmp_path / "threshold_choice.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def cells_of(text):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]


def test_the_table_has_means_over_noises_and_says_its_age(choice, kept):
    columns = ["OF1 auto", "OF1 f1", "OF1 best", "Hamming loss auto", "Hamming loss hamming", "Hamming loss best"]
    settings = ("scene", "none"), ("scene", "flips"), ("yeast", "none")
    values = (70, 72, 80, 10, 9, 8), (60, 62, 70, 20, 19, 18), (50, 50, 60, 30, 30, 20)
    text = choice.threshold_table(
        kept([(*setting, dict(zip(columns, own, strict=True))) for setting, own in zip(settings, values, strict=True)])
    )
    lines = cells_of(text)
    assert lines[0][1:4] == ['OF1, "auto"', 'OF1, "f1"', "OF1, best"]
    assert lines[2:5] == [
        ["scene", "65.0", "67.0", "75.0", "15.0", "14.0", "13.0"],
        ["yeast", "50.0", "50.0", "60.0", "30.0", "30.0", "20.0"],
        ["mean", "57.5", "58.5", "67.5", "22.5", "22.0", "16.5"],
    ]
    assert text.endswith("None of these numbers is older than the code.")


def test_the_rule_is_what_the_other_datasets_choose(choice, kept):
    """Three labels are best on one dataset, the F1 threshold on two: each is judged by what the others would take."""
    three = {"OF1 3 labels": 20, "OF1 f1": 0, "OF1 auto": 7, "Hamming loss 3 labels": 1, "Hamming loss auto": 2}
    f1 = {"OF1 3 labels": 10, "OF1 f1": 16, "OF1 auto": 8, "Hamming loss f1": 4, "OF1 always half-way": 9}
    text = choice.rule_table(kept([("scene", "none", three), ("yeast", "none", f1), ("birds", "none", f1)]))
    lines = cells_of(text)
    assert lines[2:] == [
        ["scene", "f1", "0.0", "7.0", "0.0", "0.0", "2.0", "0.0"],
        ["yeast", "3 labels", "10.0", "8.0", "9.0", "0.0", "0.0", "0.0"],
        ["birds", "3 labels", "10.0", "8.0", "9.0", "0.0", "0.0", "0.0"],
        ["mean", "", "6.7", "7.7", "6.0", "0.0", "0.7", "0.0"],
    ]
    assert "f1: 8.0; hamming: 0.0; always half-way: 6.0; 1 labels: 0.0; 2 labels: 0.0; 3 labels: 13.0;" in text
    assert text.endswith("None of these numbers is older than the code.")


def test_at_its_own_threshold_it_is_what_the_model_predicts(choice, monkeypatch):
    def quick(**arguments):
        return ProPMLClassifier(effort="fast", hidden=(16,), **arguments)

    data = digits_mosaic(150)
    monkeypatch.setattr(choice, "load", lambda _: data)
    monkeypatch.setattr(choice, "ProPMLClassifier", quick)
    values = dict(zip(choice.COLUMNS, choice.on_setting("mosaic", "flips", {"rate": 0.2}, 150), strict=True))
    rows = np.random.default_rng(0).permutation(150)
    X, truth = data.X[rows], np.asarray(data.truth)[rows]
    candidates = corrupt("flips", X, truth, rate=0.2)
    predicted = quick(random_state=0).fit(X[30:], candidates[30:]).predict(X[:30])
    assert values["OF1 auto"] == pytest.approx(100 * f1_scores(truth[:30], predicted).OF1)
    assert values["Hamming loss auto"] == pytest.approx(100 * hamming_loss(truth[:30], predicted))
    assert values["OF1 auto"] == values[f"OF1 {HALF_WAY:g} labels"]
    assert values["OF1 best"] >= max(values[f"OF1 {cut}"] for cut in ("auto", *choice.RULES))
    assert values["Hamming loss best"] <= min(values[f"Hamming loss {cut}"] for cut in ("auto", *choice.RULES))
