"""λ: where it is looked for, and that the best one is kept."""

import json

import pytest

from propml.targets import Candidates
from propml.vision.lam_choice import choose_lam, lams_to_try
from propml.vision.recipe import Recipe

CANDIDATES = Candidates.from_matrix([[1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]])


def test_lams_lie_around_the_balanced_one():
    assert lams_to_try(CANDIDATES, Recipe()) == pytest.approx([1 / 24, 1 / 8, 3 / 8, 9 / 8], rel=1e-3)
    power = lams_to_try(CANDIDATES, Recipe(loss="power", order=0.5))  # four candidates pull twice as hard
    assert power == pytest.approx([1 / 12, 1 / 4, 3 / 4, 9 / 4], rel=1e-3)


def test_the_best_lam_is_kept_and_not_tried_again(tmp_path):
    asked = []

    def try_lam(lam):
        asked.append(lam)
        return {"worth": -abs(lam - 0.4), "held_out": {"mAP": 0.5}}

    path = tmp_path / "lam.json"
    assert choose_lam(CANDIDATES, Recipe(), path, try_lam) == 0.375
    assert len(asked) == 4
    kept = json.loads(path.read_text())
    assert kept["lam"] == 0.375
    assert [entry["lam"] for entry in kept["tried"]] == asked
    assert choose_lam(CANDIDATES, Recipe(), path, try_lam) == 0.375
    assert len(asked) == 4


def test_only_one_process_writes(tmp_path):
    assert choose_lam(CANDIDATES, Recipe(), tmp_path / "lam.json", lambda lam: {"worth": lam}, writes=False) == 1.125
    assert not (tmp_path / "lam.json").exists()
