"""Audit: which candidate labels are wrong? ``propml.audit(X, candidates)`` answers with an :class:`AuditReport`.

Cross-fitted scores (:mod:`~propml.audit.crossfit`) become P(true) (:mod:`~propml.audit.noise`; with votes
:mod:`~propml.audit.annotator_model`), these become verdicts (:mod:`~propml.audit.verdicts`), and those a report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import ModuleType
from typing import Any, Literal

from propml.audit.noise import AssumedNoise
from propml.audit.report import AuditReport
from propml.audit.verdicts import Verdicts

__all__ = ["AuditReport", "Verdicts", "audit"]


def audit(
    X: Any,
    candidates: Any,
    *,
    noise: AssumedNoise = "auto",
    incomplete: bool = False,
    votes: Any = None,
    model: Any = None,
    cv: int | Iterable[tuple[Any, Any]] = 5,
    train_rows: int | Literal["auto"] | None = "auto",
    random_state: int = 0,
    verbose: bool = False,
) -> AuditReport:
    """Find out which candidate labels are wrong; no row is judged by a model that saw it, or a copy of it.

    Parameters
    ----------
    X : array-like, sparse matrix or DataFrame of numbers, shape (n_samples, n_features)
        For columns of text and categories see ``propml audit`` and :mod:`propml.tables.features`.
    candidates : candidate labels
        Anything that :func:`propml.targets.as_candidates` takes. Votes are used where there are some
        (:meth:`Candidates.from_votes <propml.targets.Candidates.from_votes>`).
    noise : {"auto", "uniform", "by-label", "confusions"}, float or mapping
        What you know about false candidates. "auto" assumes little and drops only what is false under all of these:
        "uniform", each false label is proposed at the same rate; "by-label", at a rate of its own; "confusions", false
        labels look like true ones. A number is the share of candidates that is false, a mapping has one for each
        label. See :mod:`propml.audit.noise`.
    incomplete : bool
        Whether true labels may be missing from the candidates; then labels that probably are missing are named.
        By default every true label of a row is among its candidates.
    votes : table, optional
        Who proposed what, where ``candidates`` does not hold it: a DataFrame or mapping with the columns ``item``,
        ``annotator`` and ``label`` (none where somebody looked and saw nothing), or
        :class:`~propml.targets.Annotations`.
    model : classifier, optional
        Gives the scores; cloned. By default :class:`~propml.ProPMLClassifier`, with little effort. Any method of this
        package will do, and any multi-label classifier of scikit-learn's kind, forests included.
    cv : int, or iterable of (train, held-out) index pairs
        Folds. Rows with the same features are held out together.
    train_rows : int, "auto" or None
        Rows that each model learns from, drawn from those that it does not judge. "auto": all of them up to 100 000,
        fewer where rows are long (see :func:`propml.audit.crossfit.rows_to_learn_from`); None: all of them. Every row
        is judged either way. The number is in the report's settings where it is not all.
    random_state : int
        For the folds and the default model.
    verbose : bool
        Show progress.

    Examples
    --------
    >>> from propml.datasets import digits_mosaic
    >>> data = digits_mosaic(200)
    >>> report = audit(data.X, data.candidates)
    >>> report.cleaned().shape
    (200, 10)
    """
    from propml.audit.process import run_audit

    return run_audit(
        X,
        candidates,
        noise=noise,
        incomplete=incomplete,
        votes=votes,
        model=model,
        cv=cv,
        train_rows=train_rows,
        random_state=random_state,
        verbose=verbose,
    )


class _CallableModule(ModuleType):
    """Importing ``propml.audit.report`` binds this module to the name ``propml.audit``, which is to be the function."""

    __call__ = staticmethod(audit)


sys.modules[__name__].__class__ = _CallableModule
