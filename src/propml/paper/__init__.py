"""What exists only to reproduce *ProPML: Probability Partial Multi-label Learning* (Struski et al., DSAA 2023).

:func:`load_published` and :func:`published_lams` are what the paper printed, :func:`evaluate_metrics` measures by its
conventions where the name of a metric ends in ``:paper``, and :mod:`propml.paper.oracle` picks λ and epoch on the true
labels of test rows, as it did. The benchmark puts all of them beside our own.
"""

from propml.paper.published import METRIC_NAMES, Mean, evaluate_metrics, load_published, published_lams

__all__ = ["METRIC_NAMES", "Mean", "evaluate_metrics", "load_published", "published_lams"]
