"""Figures of the benchmark, after those of the paper: each returns ``(figure, axes)``, and its numbers as plain rows.

===================================  ===========================================  ================================
drawn by                             shows                                        its numbers
===================================  ===========================================  ================================
:func:`critical_difference`          mean ranks, and which methods do not differ  :func:`critical_difference_data`
:func:`critical_difference_stack`    the same for several noise levels            (of each)
:func:`lambda_curves`                one metric against λ, for noise levels       :func:`lambda_curve_data`
:func:`lambda_metrics`               all metrics against λ (the paper's Fig. 3)   :func:`lambda_curve_data`
:func:`noise_curves`                 methods against noise (the paper's Fig. 2)   :func:`noise_curve_data`
:func:`lambda_choice`                the oracle's λ against the chosen one        :func:`lambda_choice_data`
===================================  ===========================================  ================================

:func:`save` writes SVG, PNG or PDF; :func:`svg_text` gives SVG to put into an HTML page.
"""

from propml.benchmark.figures.against_noise import noise_curve_data, noise_curves
from propml.benchmark.figures.critical_difference import (
    critical_difference,
    critical_difference_data,
    critical_difference_stack,
)
from propml.benchmark.figures.lambdas import (
    given_lambda_points,
    lambda_choice,
    lambda_choice_data,
    lambda_curve_data,
    lambda_curves,
    lambda_metrics,
    lambda_points,
)
from propml.benchmark.figures.style import save, svg_text

__all__ = [
    "critical_difference",
    "critical_difference_data",
    "critical_difference_stack",
    "given_lambda_points",
    "lambda_choice",
    "lambda_choice_data",
    "lambda_curve_data",
    "lambda_curves",
    "lambda_metrics",
    "lambda_points",
    "noise_curve_data",
    "noise_curves",
    "save",
    "svg_text",
]
