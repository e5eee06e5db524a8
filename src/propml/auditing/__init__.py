"""Audit: which candidate labels are wrong? ``propml.audit(X, candidates)`` answers with an :class:`AuditReport`.

Cross-fitted scores (:mod:`~propml.auditing.crossfit`) become P(true) (:mod:`~propml.auditing.noise`; with votes
:mod:`~propml.auditing.annotator_model`), these become verdicts (:mod:`~propml.auditing.verdicts`), and those a report.
"""

from propml.auditing.process import audit
from propml.auditing.report import AuditReport
from propml.auditing.verdicts import Verdicts

__all__ = ["AuditReport", "Verdicts", "audit"]
