"""What every method is: a scikit-learn classifier of candidate labels.

A method is one file with one subclass, whose fields are its arguments. It brings two functions, ``_fit`` and
``_scores``; what is here makes a classifier of them: it validates, names labels, predicts, saves and loads.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from propml.file_errors import reading
from propml.messages import no_number_among
from propml.persistence import read_state, write_state
from propml.schema import Array, Schema, check_schema
from propml.target_checks import UNKNOWN, check_classes, form_of, names_array, warn_of_delimited
from propml.targets import Candidates, as_candidates

Features: TypeAlias = np.ndarray | sp.csr_array

# What every method learns.
LEARNED: Schema = {
    "labels_": [object],
    "classes_?": Array("biufOU", "labels"),
    "thresholds_": Array("f", "labels", least=0, most=1),
    "n_features_in_": int,
    "feature_names_in_?": Array("OU", "features"),
}
# What a saved model may call its class, and what the class is called now.
FORMER_NAMES = {"RidgeClassifier": "RidgeRegressionClassifier"}
# A model folder keeps what it needs beside the method in the same file.
STATE: Schema = {
    "params": {"device?": str, str: object},
    "learned": {str: object},
    "single_label": bool,
    "folder?": object,
}


class CandidateClassifier(ClassifierMixin, BaseEstimator):
    """Base of all methods.

    Attributes
    ----------
    labels_ : tuple
        The label names, one per column of the scores.
    classes_ : ndarray
        The same as an array; the classes, where the method was fitted on a 1-D class vector.
    thresholds_ : ndarray, shape (n_labels,)
        A label is predicted where its probability is above its threshold; 0.5 unless the method chose others.
    n_features_in_ : int

    Notes
    -----
    With candidate sets, ``decision_function`` and ``predict_proba`` give ``(n_samples, n_labels)`` and ``predict`` the
    same in 0/1. With a 1-D class vector the method is an ordinary classifier: probabilities sum to one and ``predict``
    gives classes.
    """

    #: Whether ``-1`` entries (unknown labels) may occur in the target.
    _takes_unknown = False
    #: Whether features may be missing (NaN).
    _takes_missing = False
    #: The rows, "train" or "test", whose true labels the code released with the method looks at; such a method has a
    #: ``fit_to_truth(X, truth)`` that does the same. For comparison with published numbers only.
    _truth_rows: ClassVar[Literal["train", "test"] | None] = None
    #: What the method learns beside this, for :func:`propml.schema.check_schema`: a file that holds anything else is
    #: refused. Known sizes are "labels" and "features".
    _learned: ClassVar[dict[str, Schema]] = {}

    # -- what a method brings ------------------------------------------------------------------------------------

    def _fit(self, X: Features, candidates: Candidates) -> None:
        """Learn from checked features and candidates; what is learned goes into attributes that end in ``_``."""
        raise NotImplementedError

    def _scores(self, X: Features) -> np.ndarray:
        """Scores ``(n_samples, n_labels)``, larger for more likely labels; 0.5 is where a label becomes likely."""
        raise NotImplementedError

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Strictly increasing from scores to (0, 1); by default a sigmoid with 0.5 and slope 1 at a score of 0.5."""
        return expit(4.0 * (scores - 0.5))

    # -- what is made of it --------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from features and candidate labels.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n_samples, n_features)
        y : candidate labels
            Anything that :func:`propml.targets.as_candidates` takes: a 0/1 matrix or DataFrame
            ``(n_samples, n_labels)``, sets of names, :class:`propml.targets.Candidates`; or a 1-D class vector.
        """
        features, candidates = self._validated(X, y)
        self._fit(features, candidates)
        return self

    def _validated(self, X: Any, y: Any) -> tuple[Features, Candidates]:
        """Checked features and candidates; sets ``labels_``, ``classes_``, ``thresholds_`` and how the answer looks."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        known = isinstance(y, Candidates) or hasattr(y, "ndim") or hasattr(y, "columns")
        y = np.asarray(y) if hasattr(y, "__array__") and not known else y
        if isinstance(y, np.ndarray) and y.ndim == 2 and y.shape[1] == 1 and not np.isin(y, (-1, 0, 1)).all():
            y = column_or_1d(y, warn=True)  # a column of classes; one of 0/1 is one label
        self._single_label = form_of(y) == "classes"
        if self._single_label:
            if type(y) is not np.ndarray or y.dtype.kind == "O":
                check_classes(y)  # scikit-learn makes text of what is missing here
            features, y = self._numbers(X, y)
            check_classification_targets(y)
            candidates = Candidates.from_classes(y)
            warn_of_delimited(candidates.labels)
            self.classes_ = np.unique(y)
        else:
            features = self._numbers(X)
            candidates = as_candidates(y, empty="ignore")
            self.classes_ = names_array(candidates.labels)
            check_consistent_length(features, candidates.states)
        if candidates.has_unknown and not self._takes_unknown:
            raise ValueError(
                f"{type(self).__name__} cannot learn from unknown labels (-1 in y); mark them excluded (0), or use a "
                f"method that can, such as ProPMLClassifier"
            )
        check_some(candidates)
        self.labels_ = candidates.labels
        self.thresholds_ = np.full(len(candidates.labels), 0.5)
        return sp.csr_array(features) if sp.issparse(features) else features, candidates

    def _numbers(self, X: Any, *y: Any, reset: bool = True) -> Any:
        """Features, and classes where they are given, as scikit-learn checks them; text and dates in them are named."""
        finite: Any = "allow-nan" if self._takes_missing else True
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": finite, "reset": reset}
        try:
            checked = validate_data(self, X, *y, **how)
        except (ValueError, TypeError) as error:
            # Of things in arrays that are not even text, scikit-learn's own message is expected.
            if (isinstance(error, ValueError) or hasattr(X, "columns")) and (message := no_number_among(X)):
                raise ValueError(message) from error
            raise
        if sp.issparse(X) and np.isnan((checked[0] if y else checked).data).any():
            raise ValueError("X is sparse and holds NaN; fill missing values in, or give dense features, X.toarray()")
        return checked

    def _checked(self, X: Any) -> Features:
        """Features of new rows."""
        check_is_fitted(self, "labels_")
        features = self._numbers(X, reset=False)
        return sp.csr_array(features) if sp.issparse(features) else features

    def _with_truth(self, X: Any, truth: Any) -> tuple[Features, np.ndarray]:
        """Checked features of a fitted method, and which of its labels are true in each row."""
        features, states = self._checked(X), self._states_of(truth)
        check_consistent_length(features, states)
        return features, states[:, : len(self.labels_)] > 0

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores ``(n_samples, n_labels)``; for two classes their difference, ``(n_samples,)``, as in scikit-learn."""
        scores = self._scores(self._checked(X))
        if self._single_label and scores.shape[1] == 2:
            return scores[:, 1] - scores[:, 0]
        return scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities ``(n_samples, n_labels)``, strictly between 0 and 1."""
        raw = self._probabilities(self._scores(self._checked(X)))
        inside = np.clip(raw, np.finfo(raw.dtype).tiny, 1 - np.finfo(raw.dtype).epsneg)
        # Classes exclude each other: a softmax of the logits sums to one and keeps the order of any two classes.
        return softmax(logit(inside), axis=1) if self._single_label else inside

    def predict(self, X: Any) -> np.ndarray:
        """0/1 ``(n_samples, n_labels)``, or classes ``(n_samples,)`` after a 1-D class vector."""
        scores = self._scores(self._checked(X))
        if self._single_label:
            return self.classes_[scores.argmax(axis=1)]
        return (self._probabilities(scores) > self.thresholds_).astype(np.int64)

    def predict_labels(self, X: Any) -> list[list[Any]]:
        """The names of the predicted labels of each row."""
        predicted = self.predict(X)
        if self._single_label:
            return [[name] for name in predicted.tolist()]
        return [[self.labels_[j] for j in np.flatnonzero(row)] for row in predicted]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of rows whose predicted labels are exactly those of ``y``; after a class vector, the accuracy.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n_samples, n_features)
        y : labels
            Anything that :meth:`fit` takes. Unknown entries (-1) are left out, and rows that hold nothing else. A row
            with a label that the model does not know is not predicted.
        sample_weight : array-like, shape (n_samples,), optional
        """
        predicted = self.predict(X)
        if self._single_label:
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        states = self._states_of(y)
        check_consistent_length(predicted, states)
        weight = _check_sample_weight(sample_weight, predicted)
        known = states != UNKNOWN
        if not known.any():
            raise ValueError("every entry of y is unknown (-1), so there is nothing to score by; give known labels")
        predicted = np.pad(predicted, [(0, 0), (0, states.shape[1] - predicted.shape[1])])
        right = ((states == predicted) | ~known).all(axis=1)
        return float(np.average(right, weights=weight * known.any(axis=1)))

    def _states_of(self, y: Any) -> np.ndarray:
        """Dense states with one column for each label of the model, followed by those of labels that it does not know.

        A matrix is read by position, everything that names its labels by name.
        """
        names = set(getattr(y, "columns", ()))
        by_position = not isinstance(y, Candidates) and form_of(y) == "matrix" and not names & set(self.labels_)
        given = as_candidates(y, self.labels_ if by_position else None, empty="ignore")
        if isinstance(y, Candidates) and not set(y.labels) & set(self.labels_):
            raise ValueError(
                f"y has none of the labels that the model was fitted on, such as {self.labels_[0]!r}; "
                f"name the labels alike, or give y.to_matrix()"
            )
        column = {name: j for j, name in enumerate(dict.fromkeys((*self.labels_, *given.labels)))}
        states = np.zeros((len(given), len(column)), dtype=np.int8)
        states[:, [column[name] for name in given.labels]] = given.to_matrix()
        return states

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._takes_missing
        tags.classifier_tags.multi_label = True
        return tags

    # -- saved and loaded ----------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the fitted method to one file: arrays and JSON, no pickle."""
        write_state(path, type(self).__name__, self._state())

    def _state(self) -> dict[str, Any]:
        check_is_fitted(self, "labels_")
        learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
        if not self._single_label:
            del learned["classes_"]  # the names of the labels once more
        self._check_learned(learned)
        return {"params": self._saved_params(), "learned": learned, "single_label": self._single_label}

    def _saved_params(self) -> dict[str, Any]:
        """The arguments as plain values: of a generator in the place of a seed nothing is kept."""
        params = self.get_params(deep=False)
        if not isinstance(params.get("random_state"), int | np.integer | None):
            params["random_state"] = None
        return params

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote; a file that is damaged, or holds another method, is refused."""
        with reading(path, "saved model", "save it again"):
            kind, state = read_state(path)
            if FORMER_NAMES.get(kind, kind) != cls.__name__:
                raise ValueError(f"{path} holds a {kind}, not a {cls.__name__}; load it with propml.load")
            return cls._from_state(state)

    @classmethod
    def _from_state(cls, state: dict[str, Any]) -> Self:
        """A fitted method from what :meth:`save` put together; whatever is wrong is said here, and not by `predict`."""
        check_schema(state, STATE, "the model")
        if state["params"].get("device", "auto") != "auto":
            import torch

            torch.device(state["params"]["device"])  # that need not be there here, but must have the name of one
        cls._check_learned(state["learned"])
        model = cls(**state["params"])
        for name, value in state["learned"].items():
            setattr(model, name, value)
        model._single_label = state["single_label"]
        if not model._single_label:
            model.classes_ = names_array(model.labels_)
        elif "classes_" not in state["learned"]:
            raise ValueError("it does not say which classes it predicts")
        with np.errstate(all="ignore"):
            scores = model._try_out()
            probabilities = model._probabilities(scores)
        if not scores.shape == probabilities.shape == (1, len(model.labels_)) or not np.isfinite(probabilities).all():
            raise ValueError(f"it gives {probabilities} for one row and {len(model.labels_)} labels")
        return model

    @classmethod
    def _check_learned(cls, learned: dict[str, Any]) -> None:
        sizes = {"labels": len(set(learned["labels_"])), "features": learned["n_features_in_"]}
        check_schema(learned, LEARNED | cls._learned, cls.__name__, sizes)

    def _try_out(self) -> np.ndarray:
        """The scores of one row of zeros: arrays of the right shapes may still not belong together."""
        return self._scores(np.zeros((1, self.n_features_in_)))


def check_some(candidates: Candidates) -> None:
    """Refuse candidates without any."""
    if not (candidates.states.data > 0).any():
        raise ValueError("no row has a candidate label, so there is nothing to learn; check how y was made")


def check_positive(model: CandidateClassifier, *names: str) -> None:
    """Refuse arguments that are not positive numbers."""
    for name in names:
        if not getattr(model, name) > 0:
            raise ValueError(f"{name} is {getattr(model, name)}; {type(model).__name__} needs a positive number")


def positive_int(name: str, value: Any) -> int:
    """The number, if it is a whole one of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} is {value!r}; give a whole number of at least 1")
    return int(value)


def number_within(name: str, value: Any, lowest: float, below: float, told: str = "") -> float:
    """The number, if it lies in [lowest, below); ``told`` says what else may be given."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not lowest <= value < below:
        told = told or f"a number of at least {lowest:g} and below {below:g}"
        raise ValueError(f"{name} is {value!r}; give {told}")
    return float(value)


def choice_of(name: str, value: Any, known: Iterable[str]) -> str:
    """The value, if it is one of those that are known."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(known)}")
    return value
