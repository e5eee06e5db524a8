"""An audit of very many labels: what it takes, and what it refuses before anything is trained."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import average_precision_score

import propml
from propml.auditing import crossfit
from propml.methods.many_labels import ManyLabelClassifier


def test_more_cells_than_an_audit_can_hold_are_refused_at_once():
    n_rows, n_labels = 20_000, 100_000
    candidates = sp.csr_array((np.ones(n_rows), np.arange(n_rows), np.arange(n_rows + 1)), shape=(n_rows, n_labels))
    with pytest.raises(ValueError, match=r"20000 rows and 100000 labels make 2.0e\+09 cells.* up to 1e\+09"):
        propml.audit(np.zeros((n_rows, 1)), candidates)


def test_thousands_of_labels_are_scored_in_blocks(monkeypatch):
    rng, n_rows, n_labels = np.random.default_rng(0), 300, 2000
    true, false = rng.integers(20, size=n_rows), rng.integers(20, size=n_rows)
    rows = np.tile(np.arange(n_rows), 2)
    cells = 100 * np.concatenate([true, false])
    candidates = sp.csr_array((np.ones(2 * n_rows), (rows, cells)), shape=(n_rows, n_labels))
    candidates.data[:] = 1
    asked = []
    original = ManyLabelClassifier.decision_function
    monkeypatch.setattr(
        ManyLabelClassifier, "decision_function", lambda self, X: asked.append(X.shape[0]) or original(self, X)
    )
    monkeypatch.setattr(crossfit, "BLOCK_SCORES", 25 * n_labels)
    model = ManyLabelClassifier(hidden=(32,), n_sampled=100, epochs=40, random_state=0)
    report = propml.audit(np.eye(20)[true] + 0.1 * rng.normal(size=(n_rows, 20)), candidates, model=model, cv=2)
    assert max(asked) == 25
    assert sum(asked) == n_rows
    different = true != false
    shown = np.concatenate([report.probabilities[np.arange(n_rows), 100 * each][different] for each in (true, false)])
    wrong = np.repeat([0, 1], different.sum())
    assert average_precision_score(wrong, -shown) > 0.8  # chance is 0.5
