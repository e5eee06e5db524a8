"""What a person who decides is shown of an item: its text or first features, telling words, and true examples alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["clipped_texts", "feature_lines", "nearest_true", "telling_words"]

# Words that are told of each label, how much more often they stand where it is true, and in how many other texts.
MOST_WORDS, TELLING, FEWEST_TEXTS = 4, np.log(2), 2
# Cells of the table of words and labels, texts that it is counted on, and verdicts that are looked up at once.
MOST_CELLS, MOST_TEXTS, BLOCK = 20_000_000, 50_000, 20_000
# True examples of each label that are told and looked among, and verdicts that get some.
N_EXAMPLES, MOST_TRUE, MOST_VERDICTS = 3, 2_000, 20_000
# Characters of all items together, of one item at least and at most; features that are shown, and characters of one.
BUDGET, SHORTEST, LONGEST, N_FEATURES, CELL = 20_000_000, 300, 20_000, 6, 60


def telling_words(
    texts: Sequence[str], probabilities: np.ndarray, row: np.ndarray, label: np.ndarray
) -> list[list[str]] | None:
    """For each verdict the words of its text that speak for its label, the most telling first.

    A word speaks for a label by the log ratio of its shares in texts with and without the label, as in naive Bayes;
    texts count by P(true), and the text itself does not count.

    Parameters
    ----------
    texts : sequence of str, one per item
    probabilities : ndarray, shape (n_items, n_labels)
        P(true); NaN where nothing is known.
    row, label : ndarray of int
        Item and label of each verdict.

    Returns
    -------
    list of list of str, or None
        None where texts have no words in common.

    Examples
    --------
    >>> true = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> texts = ["snow falls", "deep snow", "snow today", "sand today", "hot sand", "sand falls"]
    >>> telling_words(texts, true, np.array([0, 0]), np.array([0, 1]))
    [['snow'], []]
    """
    from sklearn.feature_extraction.text import CountVectorizer

    truth = np.nan_to_num(probabilities.astype(np.float32))
    step = len(texts) // MOST_TEXTS + 1
    most = max(1, MOST_CELLS // max(truth.shape[1], 1))
    counter = CountVectorizer(binary=True, min_df=FEWEST_TEXTS + 1, max_features=min(20_000, most), dtype=np.float32)
    try:
        counted = sp.csr_array(counter.fit_transform(texts[::step]))
    except ValueError:  # no word stands in several texts, or there are no words as blanks part them
        return None
    held = sp.csr_array(counter.transform(texts)) if step > 1 else counted
    words = counter.get_feature_names_out()
    learned = truth[::step]
    n, with_word, with_label = len(learned), np.asarray(counted.sum(axis=0)).ravel(), learned.sum(axis=0)
    both = counted.T @ learned
    telling: list[list[str]] = []
    for start in range(0, len(row), BLOCK):
        own, its = row[start : start + BLOCK], label[start : start + BLOCK]
        at, word = held[own].tocoo().coords
        itself = np.where(own % step == 0, truth[own, its], 0.0)[at]  # it does not speak for itself
        seen = (own % step == 0).astype(np.float32)[at]
        true, yes = with_label[its[at]] - itself, np.maximum(both[word, its[at]] - itself, 0)
        no = np.maximum(with_word[word] - seen - yes, 0)
        score = np.log((yes + 0.5) / (true + 1)) - np.log((no + 0.5) / (n - true + 1))
        good = np.flatnonzero((score > TELLING) & (yes >= 1))
        of_block: list[list[str]] = [[] for _ in own]
        for k in good[np.lexsort((-score[good], at[good]))].tolist():
            if len(of_block[at[k]]) < MOST_WORDS:
                of_block[at[k]].append(str(words[word[k]]))
        telling += of_block
    return telling


def nearest_true(
    vectors: Any, row: np.ndarray, label: np.ndarray, kept: np.ndarray, suspicion: np.ndarray
) -> dict[int, list[int]]:
    """For each suspicious verdict the items that surely have its label and are most like its own (cosine).

    Parameters
    ----------
    vectors : ndarray or sparse matrix, shape (n_items, n_features)
    row, label : ndarray of int
        Item and label of each verdict.
    kept : ndarray of bool
        Which verdicts are sure that the label is true.
    suspicion : ndarray
        Verdicts that are more suspicious come first, where there are more than one looks at.

    Returns
    -------
    dict from verdict to items

    Examples
    --------
    >>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 0.2]])
    >>> kept = np.array([True, False, True, True])
    >>> nearest_true(vectors, np.arange(4), np.zeros(4, dtype=int), kept, np.array([0, 1, 0, 0]))
    {1: [0, 3, 2]}
    """
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    if not sp.issparse(vectors):
        vectors = np.asarray(vectors, dtype=np.float32)
        vectors = (vectors - vectors.mean(axis=0)) / (vectors.std(axis=0) + 1e-9)
    alike = normalize(vectors)
    asked = np.flatnonzero(~kept)
    asked = asked[np.argsort(-suspicion[asked], kind="stable")[:MOST_VERDICTS]]
    examples: dict[int, list[int]] = {}
    for own in np.unique(label[asked]).tolist():
        true = np.flatnonzero(kept & (label == own))
        true = row[true[np.argsort(suspicion[true], kind="stable")[:MOST_TRUE]]]
        if not len(true):
            continue
        queries = asked[label[asked] == own]
        search = NearestNeighbors(n_neighbors=min(N_EXAMPLES, len(true)), algorithm="brute").fit(alike[true])
        near = search.kneighbors(alike[row[queries]], return_distance=False)
        examples |= dict(zip(queries.tolist(), true[near].tolist(), strict=True))
    return examples


def clipped_texts(texts: Any, rows: np.ndarray) -> list[str]:
    """The texts of the given rows, each cut so that all of them together make a page that opens quickly.

    >>> clipped_texts(["a" * 20_010, None], np.array([0, 1]))[1]
    ''
    """
    limit = int(np.clip(BUDGET // max(len(rows), 1), SHORTEST, LONGEST))
    texts = list(texts)
    return [_clipped("" if _is_missing(text := texts[row]) else str(text), limit) for row in rows.tolist()]


def feature_lines(features: Any, rows: np.ndarray, names: Sequence[Any] | None = None) -> list[str]:
    """The first features of the given rows as ``name value · name value``; of sparse rows the first that are not zero.

    Parameters
    ----------
    features : array-like, sparse matrix, DataFrame or mapping of columns, shape (n_samples, n_features)
    rows : ndarray of int
    names : sequence, optional
        Of the features; by default those of the DataFrame, or ``x0``, ``x1``, …

    Examples
    --------
    >>> feature_lines(np.array([[1.5, 2.0], [0.123456, np.nan]]), np.array([1]))
    ['x0 0.1235 · x1 missing']
    """
    if isinstance(features, Mapping) or hasattr(features, "columns"):
        shown = list(getattr(features, "columns", features))[:N_FEATURES]
        columns = [[column[row] for row in rows.tolist()] for column in (list(features[name]) for name in shown)]
        return [_line(zip(shown, cells, strict=True)) for cells in zip(*columns, strict=True)]
    names = [f"x{j}" for j in range(features.shape[1])] if names is None else names
    if sp.issparse(features):
        table = sp.csr_array(features)[rows]
        starts = table.indptr[:-1]
        spans = map(slice, starts, np.minimum(starts + N_FEATURES, table.indptr[1:]))
        return [_line((names[j], v) for j, v in zip(table.indices[at], table.data[at], strict=True)) for at in spans]
    return [_line(zip(names, cells, strict=False)) for cells in np.asarray(features)[rows, :N_FEATURES]]


def _line(cells: Any) -> str:
    return " · ".join(f"{name} {_value(value)}" for name, value in cells)


def _value(value: Any) -> str:
    if _is_missing(value):
        return "missing"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else _clipped(str(value), CELL)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float | np.floating) and np.isnan(value))


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"
