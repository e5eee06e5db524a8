"""The published updates as they are written: plain NumPy, no factorisation kept, no blocks, pairs in a Python loop.

``benchmarks/methods.py`` measures our methods against these; run as a script, this file does nothing. Where a method of
ours states a deviation that changes the answer (a bias, the settings), it is made here as well.
"""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import nnls


def with_ones(X: np.ndarray) -> np.ndarray:
    """Φ = [X, 1]."""
    return np.hstack([X, np.ones((len(X), 1))])


def soft(A: np.ndarray, t: float) -> np.ndarray:
    """Entries moved towards zero by t."""
    return np.sign(A) * np.maximum(np.abs(A) - t, 0)


def svt(A: np.ndarray, t: float) -> np.ndarray:
    """Singular values moved towards zero by t."""
    left, values, right = np.linalg.svd(A, full_matrices=False)
    return (left * np.maximum(values - t, 0)) @ right


def ml_knn_by_loops(X: np.ndarray, S: np.ndarray, test: np.ndarray, k: int = 10, s: float = 1.0) -> np.ndarray:
    """ML-kNN as it is defined, row by row and label by label."""

    def neighbours(x: np.ndarray, own: int | None = None) -> np.ndarray:
        distances = ((X - x) ** 2).sum(axis=1)
        if own is not None:
            distances[own] = np.inf
        return np.argsort(distances, kind="stable")[:k]

    n, n_labels = S.shape
    counts = [S[neighbours(X[i], i)].sum(axis=0) for i in range(n)]
    test_counts = [S[neighbours(x)].sum(axis=0) for x in test]
    scores = np.zeros((len(test), n_labels))
    for j in range(n_labels):
        seen = np.zeros((2, k + 1))
        for i in range(n):
            seen[S[i, j], counts[i][j]] += 1
        prior = (s + seen[1].sum()) / (2 * s + n)
        absent, present = ((s + row) / (s * (k + 1) + row.sum()) for row in seen)
        for t, count in enumerate(test_counts):
            for_it, against = prior * present[count[j]], (1 - prior) * absent[count[j]]
            scores[t, j] = for_it / (for_it + against)
    return scores


def cplst(X: np.ndarray, S: np.ndarray, test: np.ndarray, n_codes: int, lam: float = 0.1) -> np.ndarray:
    """CPLST with the n × n matrix H; scores of new rows."""
    phi, means = with_ones(X), S.mean(axis=0)
    Y = S - means
    inverse = np.linalg.inv(phi.T @ phi + lam * np.eye(phi.shape[1]))
    H = phi @ inverse @ phi.T
    V = np.linalg.svd(Y.T @ H @ Y)[2][:n_codes].T
    W = inverse @ phi.T @ (Y @ V)
    return with_ones(test) @ W @ V.T + means


def pml_ni(X: np.ndarray, S: np.ndarray, lam: float = 10.0, beta: float = 0.5, gamma: float = 0.5) -> Any:
    """PML-NI: a solve and a singular value decomposition in each iteration; weights, and how many there were."""
    phi = with_ones(X)
    gram, moments, identity = phi.T @ phi, phi.T @ S, np.eye(phi.shape[1])
    U, V, L = np.zeros((3, *moments.shape))
    mu = 1e-4
    for iteration in range(1, 501):
        before, n_iter = U, iteration
        W = np.linalg.solve(gram + (lam + mu) * identity, moments + mu * (U + V) + L)
        U = svt(W - V - L / mu, beta / mu)
        V = soft(W - U - L / mu, gamma / mu)
        settled = mu * np.linalg.norm(U - before) / np.linalg.norm(W) < 1e-5
        equal = np.linalg.norm(W - U - V) / np.linalg.norm(W) < 1e-7
        mu = min(1.1 * mu, 1e10) if settled else mu
        L = L + mu * (U + V - W)
        if settled and equal:
            break
    return U, n_iter


def fpml(X: np.ndarray, S: np.ndarray, rank: int, l1: float = 1.0, l2: float = 1.0, l3: float = 10.0) -> Any:
    """fPML, all blocks at their full size; weights, the objective, and the number of iterations."""
    phi = with_ones(X)
    G, W = np.random.default_rng(0).uniform(size=(len(X), rank)), np.zeros((phi.shape[1], S.shape[1]))
    objective = np.inf
    for iteration in range(1, 101):
        before, n_iter = objective, iteration
        A = S + l2 * phi @ W
        Q = A.T @ G @ np.linalg.pinv(G.T @ G) / (1 + l2)
        F = X.T @ G @ np.linalg.pinv(G.T @ G)
        G = (A @ Q + l1 * X @ F) @ np.linalg.pinv((1 + l2) * Q.T @ Q + l1 * F.T @ F)
        W = np.linalg.solve(phi.T @ phi + l3 / l2 * np.eye(phi.shape[1]), phi.T @ G @ Q.T)
        errors = (S - G @ Q.T, X - G @ F.T, phi @ W - G @ Q.T, W)
        objective = sum(weight * np.sum(error**2) for weight, error in zip((1, l1, l2, l3), errors, strict=True))
        if before - objective < 1e-4 * before < np.inf:
            break
    return W, objective, n_iter


def pml_lrs(X: np.ndarray, S: np.ndarray, eta: float, beta: float, gamma: float, n_iter: int) -> np.ndarray:
    """PML-LRS: a solve and two singular value decompositions in each iteration; the weights."""
    phi = with_ones(X)
    Q, L1 = np.zeros((2, *S.shape))
    W, Z, L2 = np.zeros((3, phi.shape[1], S.shape[1]))
    mu = 1e-2
    for _ in range(n_iter):
        P = svt((eta * phi @ W + mu * (S - Q) + L1) / (eta + mu), 1 / (eta + mu))
        Q = soft(S - P + L1 / mu, beta / mu)
        W = np.linalg.solve(eta * phi.T @ phi + mu * np.eye(phi.shape[1]), eta * phi.T @ P + mu * Z - L2)
        Z = svt(W + L2 / mu, gamma / mu)
        L1, L2 = L1 + mu * (S - P - Q), L2 + mu * (W - Z)
        mu = min(1.1 * mu, 1e6)
    return Z


def particle_propagation(
    X: np.ndarray, S: np.ndarray, folds: np.ndarray, k: int = 10, alpha: float = 0.95, threshold: float = 0.9
) -> np.ndarray:
    """Stage 1 of PARTICLE, fold by fold and row by row; the credible labels."""

    def neighbours(x: np.ndarray, pool: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distances = np.sqrt(((X[pool] - x) ** 2).sum(axis=1))
        nearest = np.argsort(distances, kind="stable")[:k]
        return pool[nearest], distances[nearest]

    credible = np.zeros(S.shape, dtype=bool)
    for fold in np.unique(folds):
        pool = np.flatnonzero(folds != fold)
        H = np.zeros((len(X), len(X)))
        for i in pool:
            around, _ = neighbours(X[i], pool[pool != i])
            weights = nnls(X[around].T, X[i])[0]
            H[i, around] = weights / max(weights.sum(), 1e-300)
        known = S * (folds != fold)[:, None]
        start = known / np.maximum(known.sum(axis=1, keepdims=True), 1)
        F, change = start, np.inf
        while change >= 1e-5:
            before, F = F, known * (alpha * H @ F + (1 - alpha) * start)
            F = F / np.maximum(F.sum(axis=1, keepdims=True), 1e-300)
            change = np.abs(F - before).max()
        F = F * known.sum(axis=0) / np.maximum(F.sum(axis=0), 1e-300)
        for t in np.flatnonzero(folds == fold):
            around, distances = neighbours(X[t], pool)
            ranks = (1 - distances / distances.sum()) @ F[around]
            ranks = (ranks - ranks.min()) / (ranks.max() - ranks.min())
            own = np.flatnonzero(S[t])
            # Where no candidate reaches the threshold, those that come nearest are taken.
            credible[t, own] = ranks[own] >= min(threshold, ranks[own].max(initial=0))
    return credible


def particle_votes(
    X: np.ndarray, credible: np.ndarray, candidates: np.ndarray, test: np.ndarray, machine: Callable[[], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Stage 2 of PARTICLE, one machine after the other: the votes of each label, and who won each pair, in new rows."""
    votes, first_won = np.zeros((len(test), credible.shape[1]), dtype=int), []
    for j, k in combinations(range(credible.shape[1]), 2):
        wins, loses = credible[:, j] & ~candidates[:, k], credible[:, k] & ~candidates[:, j]
        if not (wins.any() and loses.any()):
            continue
        first_won.append(machine().fit(X[wins | loses], wins[wins | loses]).predict(test))
        votes[:, j] += first_won[-1]
        votes[:, k] += ~first_won[-1]
    return votes, np.array(first_won)


def ranking_by_pairs(
    phi: np.ndarray, W: np.ndarray, candidates: np.ndarray, confidences: np.ndarray
) -> tuple[float, np.ndarray]:
    """The ranking loss of PML-lc and PML-fp and its gradient in W, from every pair of every row."""
    scores = phi @ W
    value, slopes = 0.0, np.zeros_like(scores)
    for i in range(len(phi)):
        inside, outside = np.flatnonzero(candidates[i]), np.flatnonzero(~candidates[i])
        per_pair = 1 / max(len(inside) * len(outside), 1)
        short = np.maximum(0, 1 - (scores[i, inside][:, None] - scores[i, outside]))
        weighted = per_pair * confidences[i, inside][:, None] * short
        value += np.sum(weighted * short)
        slopes[i, inside], slopes[i, outside] = -2 * weighted.sum(axis=1), 2 * weighted.sum(axis=0)
    return value, phi.T @ slopes
