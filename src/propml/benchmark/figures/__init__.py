"""Figures of the benchmark, after those of the paper: each returns ``(figure, axes)``.

:func:`critical_difference` draws mean ranks and which methods do not differ, :func:`critical_difference_stack` the same
for several noise levels, both from a comparison; :func:`noise_curves` methods against noise (the paper's Fig. 2), whose
numbers :func:`noise_curve_data` gives; :func:`lambda_metrics` all metrics against λ (Fig. 3), whose numbers
:func:`lambda_means` gives. :func:`save` writes SVG, PNG or PDF; :func:`svg_text` gives SVG for an HTML page.
"""

from propml.benchmark.figures.critical_difference import critical_difference, critical_difference_stack
from propml.benchmark.figures.curves import lambda_means, lambda_metrics, noise_curve_data, noise_curves
from propml.benchmark.figures.style import save, svg_text

__all__ = [
    "critical_difference",
    "critical_difference_stack",
    "lambda_means",
    "lambda_metrics",
    "noise_curve_data",
    "noise_curves",
    "save",
    "svg_text",
]
