"""What a trial is worth: how well it ranks the labels of rows that it did not see.

By default these rows are judged by their *candidate* labels, so that a search needs no clean label. ``"oracle"`` judges
them by their true labels, as the paper did; nobody gets there by accident.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from propml.neural.criteria import CRITERIA, get_criterion
from propml.neural.fitting import make_folds
from propml.neural.training import Fold
from propml.targets import Candidates, as_candidates

__all__ = ["OBJECTIVES", "TableData"]

OBJECTIVES = ("candidates", "oracle")


@dataclass(frozen=True, eq=False)
class TableData:
    """Features, what is learned from and what is judged by; one fold per network.

    Attributes
    ----------
    X : ndarray or csr_array, shape (n_samples, n_features)
    candidates : Candidates
        What every trial learns from.
    answers : ndarray of int8, shape (n_samples, n_labels)
        What held-out rows are judged by: the candidates, or the truth.
    folds : list of Fold
    objective : {"candidates", "oracle"}
    criterion : str
        A name of :data:`propml.neural.criteria.CRITERIA`.
    seed : int
        Of the folds.
    """

    X: Any
    candidates: Candidates
    answers: np.ndarray
    folds: list[Fold] = field(repr=False)
    objective: str = "candidates"
    criterion: str = "average_precision"
    seed: int = 0

    @classmethod
    def of(
        cls,
        X: Any,
        candidates: Any,
        truth: Any = None,
        *,
        objective: str = "candidates",
        criterion: str = "average_precision",
        cv: int = 3,
        seed: int = 0,
    ) -> TableData:
        """Checked data; ``truth`` is looked at by the objective "oracle" only.

        >>> data = TableData.of([[0.0], [1.0], [2.0]], [[1, 0], [0, 1], [1, 1]])
        >>> data.n_rows, len(data.folds), data.objective
        (3, 3, 'candidates')
        """
        if objective not in OBJECTIVES:
            raise ValueError(f'objective is {objective!r}; choose "candidates", or "oracle" to judge by true labels')
        if criterion not in CRITERIA:
            raise ValueError(f"criterion is {criterion!r}; choose one of {', '.join(CRITERIA)}")
        target = as_candidates(candidates, empty="ignore")
        features = sp.csr_array(X).astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        if features.ndim != 2 or features.shape[0] != len(target):
            raise ValueError(
                f"X has shape {features.shape} and there are {len(target)} rows of candidates; give a row each"
            )
        if not np.isfinite(features.data if sp.issparse(features) else features).all():
            raise ValueError("X has values that are not finite numbers; fill or drop them before the search")
        if not 2 <= cv <= len(target):
            raise ValueError(f"cv is {cv} and there are {len(target)} rows; give between 2 and {len(target)} folds")
        answers = target.to_matrix()
        if objective == "oracle":
            answers = _true_labels(truth, target)
        return cls(features, target, answers, make_folds(len(target), cv, seed), objective, criterion, seed)

    @property
    def n_rows(self) -> int:
        return len(self.candidates)

    def value(self, losses: Any) -> Any:
        """What is maximised, from the criterion, of which less is better."""
        return -losses if self.criterion == "bce" else 1 - losses

    def judged(self, probabilities: np.ndarray, fold: Fold) -> float:
        """The value of probabilities ``(len(fold.held), n_labels)``; NaN where they are not all numbers."""
        if not np.isfinite(probabilities).all():
            return float("nan")
        logits: Tensor = torch.logit(torch.from_numpy(np.asarray(probabilities, dtype=np.float64)))
        losses = get_criterion(self.criterion)(logits, torch.from_numpy(self.answers[fold.held]))
        return float(self.value(losses.mean()))

    def facts(self) -> dict[str, Any]:
        """What makes two searches comparable, as plain values."""
        digest = hashlib.sha256()
        parts = (self.X.data, self.X.indices, self.X.indptr) if sp.issparse(self.X) else (self.X,)
        for array in (*parts, self.candidates.to_matrix(), self.answers):
            digest.update(np.ascontiguousarray(array).data)
        return {
            "objective": self.objective,
            "criterion": self.criterion,
            "folds": len(self.folds),
            "seed": self.seed,
            "data": f"{self.n_rows} × {self.X.shape[1]}, {self.answers.shape[1]} labels, {digest.hexdigest()[:16]}",
        }


def _true_labels(truth: Any, candidates: Candidates) -> np.ndarray:
    if truth is None:
        raise ValueError('objective="oracle" judges by true labels, and none were given; pass truth, or leave it out')
    matrix = truth.to_matrix() if isinstance(truth, Candidates) else np.asarray(truth)
    if matrix.shape != candidates.shape:
        raise ValueError(f"truth has shape {matrix.shape} and the candidates {candidates.shape}; they must be alike")
    return (matrix > 0).astype(np.int8)
