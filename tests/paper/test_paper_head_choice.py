"""The table of the λ that heads take: means worked out by hand, and whether heads have changed since."""

import importlib
import sys
from pathlib import Path

import pytest

from propml.datasets import digits_mosaic
from propml.vision import VisionRecipe

PAPER = Path(__file__).parents[2] / "paper"


@pytest.fixture
def choice(monkeypatch):
    monkeypatch.syspath_prepend(str(PAPER))
    for name in ("head_choice", "ground_choice", "kept"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module("head_choice")


def test_the_table_has_means_over_flip_rates_and_says_its_age(choice, tmp_path):
    path = tmp_path / "head_choice.csv"
    path.write_text(
        f"{choice.CODE}{choice.fingerprint(choice.MODULES)}\n"
        "dataset,flips,rule,lam,mAP,average_precision\n"
        "scene,0.1,best,0.1,70,80\nscene,0.1,largest,0.3,72,80\n"
        "scene,0.4,best,0.1,60,60\nscene,0.4,largest,0.1,60,61\n"
        "yeast,0.1,best,0.1,40,70\nyeast,0.1,largest,0.1,40,70\n"
    )
    text = choice.head_table(path)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert lines[2:5] == [
        ["scene", "65.0", "66.0", "70.0", "70.5"],
        ["yeast", "40.0", "40.0", "70.0", "70.0"],
        ["mean", "52.5", "53.0", "70.0", "70.2"],
    ]
    assert text.endswith("None of these numbers is older than the code.")
    path.write_text(path.read_text().replace(choice.fingerprint(choice.MODULES), "another"))
    assert "have changed since" in choice.head_table(path)


def test_both_rules_see_the_same_candidates(choice, monkeypatch):
    """Of two heads that take the same λ the numbers are the same."""
    monkeypatch.setattr(choice, "load", lambda _: digits_mosaic(80))
    monkeypatch.setattr(choice, "VisionRecipe", lambda: VisionRecipe(lam=0.2))
    best, largest = choice.on_setting("mosaic", 0.2, 60)
    assert [best[0], largest[0]] == ["best", "largest"]
    assert best[1:] == largest[1:]
