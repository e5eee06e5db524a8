"""Metrics against scikit-learn, candidate criteria by loops, and scores that stand in the order of rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, label_ranking_average_precision_score
from small_runs import mosaics, small_recipe

from propml.vision.backbone import make_network
from propml.vision.batches import Augment, Batches
from propml.vision.distributed import Process, choose_precision
from propml.vision.evaluation import Judge, judge_by_candidates, judge_by_truth, score_images
from propml.vision.training_data import prepare_data

HERE = Process(torch.device("cpu"))
RNG = np.random.default_rng(0)
TRUTH = (RNG.random((60, 5)) < 0.4).astype(int)
LOGITS = torch.tensor(RNG.normal(size=(60, 5)) + TRUTH)


def test_truth_is_judged_as_scikit_learn_does():
    found = judge_by_truth(TRUTH, LOGITS)
    assert found["mAP"] == pytest.approx(average_precision_score(TRUTH, LOGITS.numpy(), average="macro"))
    assert found["OF1"] == pytest.approx(f1_score(TRUTH, LOGITS.sigmoid().numpy() > 0.5, average="micro"))
    assert set(found) == {"mAP", "CF1", "OF1", "CF1@3", "OF1@3"}


@pytest.mark.parametrize("rule", ["", "@3"])
def test_f1_is_that_of_precision_and_recall_over_classes_and_over_all(rule):
    """CF1 of the classes' mean precision and mean recall, OF1 of all entries; from 0.5 on, or the three best."""
    right, predicted, true = np.zeros(5), np.zeros(5), np.zeros(5)
    for own, logits in zip(TRUTH, LOGITS.tolist(), strict=True):
        best = sorted(range(5), key=lambda j, logits=logits: -logits[j])[:3]
        for j in range(5):
            chosen = j in best if rule else 1 / (1 + np.exp(-logits[j])) > 0.5
            right[j] += chosen and own[j]
            predicted[j] += chosen
            true[j] += own[j]
    found = judge_by_truth(TRUTH, LOGITS)
    precision, recall = np.mean(right / predicted), np.mean(right / true)
    assert found[f"CF1{rule}"] == pytest.approx(2 * precision * recall / (precision + recall))
    assert found[f"OF1{rule}"] == pytest.approx(2 * right.sum() / (predicted.sum() + true.sum()))


def test_candidates_are_judged_as_truth_would_be():
    found = judge_by_candidates(torch.tensor(TRUTH), LOGITS)
    assert found["mAP"] == pytest.approx(average_precision_score(TRUTH, LOGITS.numpy(), average="macro"), abs=1e-6)
    mixed = (TRUTH.sum(axis=1) > 0) & (TRUTH.sum(axis=1) < 5)
    expected = label_ranking_average_precision_score(TRUTH[mixed], LOGITS.numpy()[mixed])
    assert found["average_precision"] == pytest.approx(expected, abs=1e-6)


def test_unknown_entries_are_left_out_of_the_judgement():
    states = TRUTH.copy()
    states[::3, 0] = -1
    found = judge_by_candidates(torch.tensor(states), LOGITS)["mAP"]
    per_class = [
        average_precision_score(states[states[:, j] >= 0, j], LOGITS.numpy()[states[:, j] >= 0, j]) for j in range(5)
    ]
    assert found == pytest.approx(np.mean(per_class), abs=1e-6)


def test_a_criterion_that_has_nothing_to_rank_is_left_out():
    assert judge_by_candidates(torch.ones(3, 2), torch.zeros(3, 2)) == {}
    assert judge_by_candidates(torch.tensor([[1], [0]]), torch.tensor([[1.0], [0.0]])) == {"mAP": 1.0}


def test_one_label_is_judged_too():
    """No image has both a true and a false label, which metrics over images would need."""
    found = judge_by_truth([[1], [0], [1]], torch.tensor([[2.0], [1.0], [-1.0]]))
    assert found["mAP"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["OF1"] == pytest.approx(2 * 1 / (2 + 2))


def test_scores_stand_in_the_order_of_rows_whatever_the_batches():
    source = mosaics(50)[0]
    network = make_network(small_recipe(), 10).train()
    precision = choose_precision("float32", HERE.device)
    plain = Augment((0.5,) * 3, (0.25,) * 3).plain
    rows = np.arange(0, 50, 3)
    found = score_images(
        network,
        Batches(source.items, source.truth, 7, shuffle=False, rows=rows),
        lambda images, _: plain(images),
        precision,
        HERE,
    )
    assert network.training
    with torch.no_grad():
        pixels = torch.from_numpy(np.array(source.items[rows])).permute(0, 3, 1, 2)
        expected = network.eval()(plain(pixels))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("select", "entry", "expected"),
    [
        ("candidates", {"held-out mAP raw": 0.3, "held-out mAP ema": 0.4, "mAP raw": 0.9}, ("ema", 0.4)),
        ("oracle", {"mAP raw": 0.5, "mAP ema": 0.4, "held-out mAP ema": 0.9}, ("raw", 0.5)),
        ("last", {"mAP raw": 0.1, "mAP ema": 0.4}, ("raw", 7.0)),
    ],
)
def test_which_weights_are_better(tmp_path, select, entry, expected):
    recipe = small_recipe(select=select)
    data, _ = prepare_data(*mosaics(30, 10), recipe, tmp_path, HERE, cache=None)
    judge = Judge(data.hold_out(0.5, seed=0), recipe, Augment(), choose_precision("float32", HERE.device), HERE)
    assert judge.better_weights({"epoch": 7, **entry}) == expected


def test_the_oracle_needs_something_to_see(tmp_path):
    recipe = small_recipe(select="oracle")
    data, _ = prepare_data(mosaics(30)[0], None, recipe, tmp_path, HERE, cache=None)
    with pytest.raises(ValueError, match="no validation images with true labels"):
        Judge(data, recipe, Augment(), choose_precision("float32", HERE.device), HERE)


@pytest.mark.parametrize(
    ("criterion", "held_out", "told"),
    [
        ("mAP", [], "0 of 30 images are held out"),
        ("mAP", [7], "1 of 30 images are held out, and no class has both"),
        ("average_precision", [], "0 of 30 images are held out"),
    ],
)
def test_held_out_images_that_rank_nothing_are_refused(tmp_path, criterion, held_out, told):
    recipe = small_recipe(criterion=criterion)
    data, _ = prepare_data(mosaics(30)[0], None, recipe, tmp_path, HERE, cache=None)
    chosen = replace(data, held_out=np.array(held_out, dtype=np.int64))
    with pytest.raises(ValueError, match=f"{told}.*; raise --hold-out, or use --select last with a --lam"):
        Judge(chosen, recipe, Augment(), choose_precision("float32", HERE.device), HERE)
    Judge(chosen, small_recipe(select="last"), Augment(), choose_precision("float32", HERE.device), HERE)


def test_validation_images_without_any_true_label_are_refused(tmp_path):
    learned, judged = mosaics(30, 10)
    bare = replace(judged, truth=np.zeros_like(judged.truth), candidates=None)
    data, _ = prepare_data(learned, bare, small_recipe(), tmp_path, HERE, cache=None)
    with pytest.raises(ValueError, match=r"none of the 10 validation images has a true label, .*--validation none"):
        Judge(data.hold_out(0.5, 0), small_recipe(), Augment(), choose_precision("float32", HERE.device), HERE)
