"""Many linear support vector machines, each on its own few rows of the same data, by LIBSVM.

    min ½ ‖w‖² + C Σ_i max(0, 1 − y_i (w'x_i + b)),      w = Σ_i α_i y_i x_i,  0 ≤ α_i ≤ C

The inner products of all rows are known already, so LIBSVM is given those instead of the rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.svm import SVC

from propml.methods.inner_products import InnerProducts
from propml.progress import Bar


class Problems(NamedTuple):
    """The rows of each machine, one machine after the other.

    Attributes
    ----------
    start : ndarray of int, shape (n_machines + 1,)
        Machine m has the entries from ``start[m]`` up to ``start[m + 1]``.
    rows : ndarray of int, shape (n_entries,)
    signs : ndarray of -1.0 and 1.0, shape (n_entries,)
    """

    start: np.ndarray
    rows: np.ndarray
    signs: np.ndarray


class Machines(NamedTuple):
    """Machines as sums over training rows.

    Attributes
    ----------
    weights : csr_array, shape (n_machines, n_samples)
        α_i y_i.
    bias : ndarray, shape (n_machines,)
    accuracy : ndarray, shape (n_machines,)
        The part of its own rows that a machine gets right.
    """

    weights: sp.csr_array
    bias: np.ndarray
    accuracy: np.ndarray


def train_machines(products: InnerProducts, problems: Problems, C: float, tol: float, bar: Bar) -> Machines:
    """Train one machine per problem; each has rows of both signs."""
    n_machines = len(problems.start) - 1
    weights = np.zeros(len(problems.rows))
    bias, accuracy = np.zeros((2, n_machines))
    svm = SVC(C=C, kernel="precomputed", tol=tol)
    for machine in range(n_machines):
        place = slice(problems.start[machine], problems.start[machine + 1])
        signs, kernel = problems.signs[place], products.among(problems.rows[None, place])[0]
        svm.fit(kernel, signs)
        own = np.zeros(len(signs))
        own[svm.support_] = svm.dual_coef_[0]
        weights[place], bias[machine] = own, svm.intercept_[0]
        accuracy[machine] = (signs * (kernel @ own + bias[machine]) > 0).mean()
        bar.advance()
    matrix = sp.csr_array((weights, problems.rows, problems.start), shape=(n_machines, products.n_rows), copy=True)
    matrix.eliminate_zeros()
    return Machines(matrix, bias, accuracy)
