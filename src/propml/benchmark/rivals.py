"""Ordinary classifiers of scikit-learn that take candidates for true labels: what ours must beat.

They are for comparison only. Each label is cut at one half, their own threshold; a label that is a candidate in every
row, or in none, is answered as it was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from propml.methods import CandidateClassifier, method_class
from propml.methods.base import Features
from propml.targets import Candidates


class Rival(CandidateClassifier):
    """A classifier of scikit-learn, fitted on the matrix of candidates; scores are its probabilities."""

    _estimator: ClassVar[type]
    _together: ClassVar[bool] = False  # one estimator learns all labels
    _dense: ClassVar[bool] = False  # the estimator takes no sparse features

    def _fit(self, X: Features, candidates: Candidates) -> None:
        targets = candidates.to_matrix(np.int8)
        self.share_ = targets.mean(axis=0)
        self.known_ = (self.share_ > 0) & (self.share_ < 1)
        self.models_ = self._fitted(self._taken(X), targets[:, self.known_]) if self.known_.any() else []

    def _fitted(self, X: Features, targets: np.ndarray) -> list[Any]:
        # Of a single label scikit-learn wants a vector.
        columns = [targets] if self._together and targets.shape[1] > 1 else targets.T
        return [self._estimator(**self.get_params()).fit(X, column) for column in columns]

    def _scores(self, X: Features) -> np.ndarray:
        scores = np.tile(self.share_, (X.shape[0], 1))
        if self.models_:
            found = [model.predict_proba(self._taken(X)) for model in self.models_]
            # One estimator for several labels gives a list of them.
            labels = [each for part in found for each in (part if isinstance(part, list) else [part])]
            scores[:, self.known_] = np.column_stack([each[:, 1] for each in labels])
        return scores

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def _taken(self, X: Features) -> Features:
        return X.toarray() if self._dense and not isinstance(X, np.ndarray) else X


@dataclass(eq=False, repr=False)
class ExtraTreesRival(Rival):
    """Extremely randomised trees, one forest for all labels."""

    n_estimators: int = 300
    min_samples_leaf: int = 3
    random_state: int | None = 0
    _estimator, _together = ExtraTreesClassifier, True


@dataclass(eq=False, repr=False)
class RandomForestRival(Rival):
    """A random forest for all labels."""

    n_estimators: int = 200
    min_samples_leaf: int = 1
    random_state: int | None = 0
    _estimator, _together = RandomForestClassifier, True


@dataclass(eq=False, repr=False)
class BoostingRival(Rival):
    """Gradient boosting on histograms, one versus the rest; sparse features are made dense."""

    max_iter: int = 100
    learning_rate: float = 0.1
    random_state: int | None = 0
    _estimator, _dense = HistGradientBoostingClassifier, True


@dataclass(eq=False, repr=False)
class LogisticRival(Rival):
    """Logistic regression on scaled features, one versus the rest; sparse features are not centred."""

    C: float = 1.0
    max_iter: int = 1000
    _estimator = LogisticRegression

    def _fitted(self, X: Features, targets: np.ndarray) -> list[Any]:
        scaler = StandardScaler(with_mean=not sp.issparse(X)).fit(X)
        return [make_pipeline(scaler, model) for model in super()._fitted(scaler.transform(X), targets)]


RIVALS: dict[str, type[Rival]] = {
    "extra-trees": ExtraTreesRival,
    "random-forest": RandomForestRival,
    "boosting": BoostingRival,
    "logistic": LogisticRival,
}


def benchmark_class(name: str) -> type[CandidateClassifier]:
    """The class of a method that an experiment names: one of ours, or a rival."""
    return RIVALS[name] if name in RIVALS else method_class(name)
