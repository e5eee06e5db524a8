"""A random forest on candidates, as arrays: fitted by scikit-learn, then a plain module that can be saved and exported.

Trees see what networks cannot: single columns that matter alone, thresholds, labels that hang on one word. Held-out
opinions cost nothing, since each tree leaves a third of the rows out (out-of-bag).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.ensemble import RandomForestRegressor
from torch import Tensor, nn

# Shares of trees are cut to [0.005, 0.995] before they become logits.
SMALLEST = 0.005


class Trees(NamedTuple):
    """How many trees, and how they grow; ``paper/ground_choice.py`` judges it, leaving datasets out."""

    number: int
    leaf: int = 1  # rows of a leaf, at least
    columns: float = 1.0  # that a split looks at: so many times the root of their number


class Forest(nn.Module):
    """Scaled features ``(n, D)`` → logits of the mean share of candidates in the leaves, ``(n, C)``.

    Parameters
    ----------
    feature, left, right : array of int, shape (n_nodes,)
        The column that a node looks at and the numbers of its children; a leaf is its own child.
    threshold : array of float, shape (n_nodes,)
        Rows with at most this value go left.
    leaf : array of int, shape (n_nodes,)
        The row of ``values`` of a leaf.
    values : array of float16, shape (n_leaves, C)
    roots : array of int, shape (n_trees,)
    depth : int
        The longest way from a root to a leaf.
    """

    feature: Tensor
    left: Tensor
    right: Tensor
    threshold: Tensor
    leaf: Tensor
    values: Tensor
    roots: Tensor

    ARRAYS = ("feature", "left", "right", "threshold", "leaf", "values", "roots")

    def __init__(self, arrays: dict[str, np.ndarray], depth: int) -> None:
        super().__init__()
        self.depth = depth
        for name in self.ARRAYS:
            value = torch.as_tensor(arrays[name])
            self.register_buffer(name, value.long() if value.dtype in (torch.int32, torch.int64) else value)

    def forward(self, X: Tensor) -> Tensor:
        X = X.float().double()  # scikit-learn compares single-precision features with double-precision thresholds
        node = self.roots.unsqueeze(0).expand(X.shape[0], -1)
        for _ in range(self.depth):
            goes_left = X.gather(1, self.feature[node]) <= self.threshold[node]
            node = torch.where(goes_left, self.left[node], self.right[node])
        share = self.values[self.leaf[node]].float().mean(dim=1)
        return torch.logit(share.clamp(SMALLEST, 1 - SMALLEST))


def fit_forest(
    X: Any, states: np.ndarray, weight: np.ndarray | None, *, trees: Trees, seed: int
) -> tuple[Forest, np.ndarray]:
    """A forest and its out-of-bag logits ``(n, C)``; NaN for rows that every tree saw.

    A regression forest on the 0/1 matrix: its squared error splits as the Gini index does, for all labels at once.
    Features are scaled; an unknown state (-1) is taken for the label's mean.
    """
    known = states >= 0
    mean = (states > 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    targets = np.where(known, states > 0, mean).astype(np.float64)
    model = RandomForestRegressor(
        trees.number,
        min_samples_leaf=trees.leaf,
        max_features=min(max(1, int(trees.columns * X.shape[1] ** 0.5)), X.shape[1]),
        n_jobs=-1,
        random_state=seed % 2**32,
    )
    features = _narrow(X) if sp.issparse(X) else np.asarray(X, dtype=np.float32)
    equal = weight is None or np.allclose(weight, weight[0])  # equal weights draw other rows than none do
    model.fit(features, targets if targets.shape[1] > 1 else targets[:, 0], sample_weight=None if equal else weight)
    forest = _as_arrays(model, states.shape[1])
    return forest, _out_of_bag(model, features, states.shape)


def _narrow(X: Any) -> Any:
    """A sparse matrix with the 32-bit indices that scikit-learn's trees want."""
    rows = sp.csr_array(X)
    return sp.csr_matrix((rows.data, rows.indices.astype(np.int32), rows.indptr.astype(np.int32)), shape=rows.shape)


def _as_arrays(model: RandomForestRegressor, n_labels: int) -> Forest:
    parts: dict[str, list[np.ndarray]] = {name: [] for name in Forest.ARRAYS}
    nodes = leaves = depth = 0
    for estimator in model.estimators_:
        tree = estimator.tree_
        own = np.arange(tree.node_count)
        is_leaf = tree.children_left < 0
        parts["roots"].append(np.array([nodes]))
        parts["feature"].append(np.where(is_leaf, 0, tree.feature))
        parts["threshold"].append(np.where(is_leaf, 0.0, tree.threshold))
        parts["left"].append(nodes + np.where(is_leaf, own, tree.children_left))
        parts["right"].append(nodes + np.where(is_leaf, own, tree.children_right))
        parts["leaf"].append(np.where(is_leaf, leaves + np.cumsum(is_leaf) - 1, 0))
        parts["values"].append(tree.value[is_leaf].reshape(-1, n_labels).astype(np.float16))
        nodes, leaves, depth = nodes + tree.node_count, leaves + int(is_leaf.sum()), max(depth, tree.max_depth)
    arrays = {name: np.concatenate(part) for name, part in parts.items()}
    for name in ("feature", "left", "right", "leaf", "roots"):
        arrays[name] = arrays[name].astype(np.int32)
    return Forest(arrays, depth)


def _out_of_bag(model: RandomForestRegressor, X: Any, shape: tuple[int, int]) -> np.ndarray:
    total, votes = np.zeros(shape), np.zeros((shape[0], 1))
    everyone = np.arange(shape[0])
    for estimator, seen in zip(model.estimators_, model.estimators_samples_, strict=True):
        left_out = np.setdiff1d(everyone, seen)
        if len(left_out):
            total[left_out] += estimator.predict(X[left_out], check_input=False).reshape(len(left_out), -1)
            votes[left_out] += 1
    share = np.clip(total / np.where(votes > 0, votes, np.nan), SMALLEST, 1 - SMALLEST)
    return (np.log(share) - np.log1p(-share)).astype(np.float32)
