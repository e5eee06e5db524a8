"""Metrics by name: our conventions, the paper's, and the slips in two of its columns."""

import numpy as np
import pytest

from propml.metrics import METRICS
from propml.paper.published import METRIC_NAMES, evaluate_metrics, metric_of


def test_paper_variants_know_their_title_and_direction():
    assert set(METRIC_NAMES) == {*METRICS, "example_F1", *(f"{name}:paper" for name in METRICS)}
    assert metric_of("example_F1") == ("Example F1", True)
    for name in METRICS:
        assert metric_of(name) == METRICS[name]
        assert metric_of(f"{name}:paper").higher_is_better == METRICS[name].higher_is_better
        assert metric_of(f"{name}:paper").title != METRICS[name].title


def test_f1_by_example_judges_what_was_predicted():
    truth, scores = np.array([[1, 0, 1], [0, 1, 0]]), np.array([[0.9, 0.4, 0.2], [0.3, 0.8, 0.1]])
    found = evaluate_metrics(truth, scores, scores > 0.5, ["example_F1", "one_error"], "Ridge")
    assert found == pytest.approx({"example_F1": (2 / 3 + 1) / 2, "one_error": 0.0})


def test_the_published_hamming_losses_of_two_methods_follow_their_slips():
    truth, scores = np.array([[1, 0, 0, 1]]), np.array([[0.9, 0.6, 0.2, 0.1]])
    predicted = scores > 0.5

    def loss(method):
        return evaluate_metrics(truth, scores, predicted, ["hamming_loss", "hamming_loss:paper"], method)

    assert loss("ML-kNN") == {"hamming_loss": 0.5, "hamming_loss:paper": 0.75}
    assert loss("CPLST") == {"hamming_loss": 0.5, "hamming_loss:paper": 0.5}
    assert loss("Ridge") == {"hamming_loss": 0.5, "hamming_loss:paper": 0.5}
