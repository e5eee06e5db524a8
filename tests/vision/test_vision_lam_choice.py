"""λ: where it is looked for, and that the best one is kept."""

import json

import numpy as np
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


def choose(tmp_path, values, noise, seed=0):
    """Which of the four is chosen, if each has these mean precisions and classes scatter by so much."""
    scatter = np.random.default_rng(seed).normal(0, noise, (4, 30))
    found = iter(value + own - own.mean() for value, own in zip(values, scatter, strict=True))

    def try_lam(lam):
        precisions = next(found)
        return {"worth": float(precisions.mean()), "precisions": precisions}

    path = tmp_path / "lam.json"
    chosen = choose_lam(CANDIDATES, Recipe(), path, try_lam)
    kept = json.loads(path.read_text())["tried"]
    assert all(set(entry) == {"lam", "worth", "behind", "error"} for entry in kept)
    return [entry["lam"] for entry in kept].index(chosen)


@pytest.mark.parametrize("best", range(4))
def test_a_lam_that_is_clearly_best_is_taken(tmp_path, best):
    assert choose(tmp_path, [0.4 + 0.1 * (index == best) for index in range(4)], noise=0.01) == best


@pytest.mark.parametrize("best", range(4))
def test_what_cannot_be_told_apart_is_settled_by_the_typical_lam(tmp_path, best):
    assert choose(tmp_path, [0.4 + 0.001 * (index == best) for index in range(4)], noise=0.1) == 2


def test_an_equal_near_the_typical_lam_is_taken_when_that_one_is_worse(tmp_path):
    assert choose(tmp_path, [0.45, 0.449, 0.3, 0.2], noise=0.05) == 1


@pytest.mark.parametrize("n_classes", [0, 1])
def test_without_classes_to_compare_the_best_is_taken(tmp_path, n_classes):
    def try_lam(lam):
        precisions = np.full(n_classes, 0.5 if lam < 1 else 0.6)
        return {"worth": float(precisions.sum()), "precisions": precisions}

    assert choose_lam(CANDIDATES, Recipe(), tmp_path / "lam.json", try_lam) == (1.125 if n_classes else 0.375)


def test_only_one_process_writes(tmp_path):
    assert choose_lam(CANDIDATES, Recipe(), tmp_path / "lam.json", lambda lam: {"worth": lam}, writes=False) == 1.125
    assert not (tmp_path / "lam.json").exists()
