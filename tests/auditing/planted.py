"""A small problem whose truth is known: each label has its own feature, false candidates are drawn at random."""

import numpy as np

from propml.targets import Candidates


def planted(n_rows=300, n_labels=6, noise=1.0, false_rate=0.25, seed=0):
    """Features ``(n, n_labels)``, truth and candidates; a row has one or two true labels."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((n_rows, n_labels), dtype=np.int8)
    rows = np.arange(n_rows)
    truth[rows, rng.integers(n_labels, size=n_rows)] = 1
    truth[rows, rng.integers(n_labels, size=n_rows)] = 1
    X = 3.0 * truth + noise * rng.normal(size=truth.shape)
    false = (rng.random(truth.shape) < false_rate) & (truth == 0)
    labels = [f"label {j}" for j in range(n_labels)]
    return X, truth, Candidates.from_matrix(np.where(false, 1, truth).astype(np.int8), labels)
