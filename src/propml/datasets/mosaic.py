"""The embedded dataset: mosaics of four handwritten digits, made from the digits that ship with scikit-learn.

The true labels of a mosaic are the digits that appear in it. Its candidates are those and some that they could be
taken for: each of the four is confused, with some probability, with a digit whose average it resembles.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from propml.datasets.dataset import Dataset
from propml.targets import Candidates

# Test has the last fifth: neighbours in the file are often of one hand, so a random fifth would be an easier test.
_DIGITS_OF = {None: slice(None), "train": slice(-360), "test": slice(-360, None)}
# Mean squared pixel difference (pixels in [0, 1]) over which a resemblance fades by a factor of e.
_LIKENESS = 0.02


def digits_mosaic(
    n_samples: int = 2000,
    random_state: int = 0,
    *,
    split: Literal["train", "test"] | None = None,
    confusion: float = 0.5,
) -> Dataset:
    """Mosaics as 256 pixel features in [0, 1], with ten labels ``"0"`` … ``"9"``.

    Parameters
    ----------
    n_samples : int
    random_state : int
        The same number gives the same rows.
    split : {"train", "test"}, optional
        Mosaics of the two splits share no source digit, whatever the seeds; by default all digits are used.
    confusion : float
        How likely each of the four digits is to bring one false candidate (which may happen to be true).

    Examples
    --------
    >>> data = digits_mosaic(100)
    >>> data.X.shape, data.truth.shape, data.candidates.shape
    ((100, 256), (100, 10), (100, 10))
    """
    return digits_mosaic_images(n_samples, random_state, split=split, confusion=confusion)[1]


def digits_mosaic_images(
    n_samples: int = 2000,
    random_state: int = 0,
    *,
    split: Literal["train", "test"] | None = None,
    confusion: float = 0.5,
) -> tuple[np.ndarray, Dataset]:
    """The same mosaics as grey images, ``(n_samples, 16, 16)`` of uint8, and what :func:`digits_mosaic` returns."""
    from sklearn.datasets import load_digits

    if n_samples < 1:
        raise ValueError(f"n_samples is {n_samples}; ask for at least one mosaic")
    if split not in _DIGITS_OF:
        raise ValueError(f'split is {split!r}; choose "train", "test" or None for all digits')
    if not 0 <= confusion <= 1:
        raise ValueError(f"confusion is {confusion}; it is a probability, between 0 and 1")
    images, digits = load_digits(return_X_y=True)
    resembles = _resemblance(images / 16.0, digits)
    rng = np.random.default_rng(random_state)
    chosen = rng.choice(np.arange(len(digits))[_DIGITS_OF[split]], size=(n_samples, 4))
    confused = rng.random((n_samples, 4)) < confusion
    taken_for = (rng.random((n_samples, 4, 1)) > np.cumsum(resembles[chosen], axis=2)).sum(axis=2)

    rows = np.arange(n_samples)[:, None]
    truth = np.zeros((n_samples, 10), dtype=np.uint8)
    truth[rows, digits[chosen]] = 1
    candidates = truth.copy()
    candidates[rows, np.where(confused, np.minimum(taken_for, 9), digits[chosen])] = 1
    tiles = images[chosen].reshape(n_samples, 2, 2, 8, 8)
    pixels = tiles.transpose(0, 1, 3, 2, 4).reshape(n_samples, 16, 16)  # 0 to 16
    labels = tuple(str(digit) for digit in range(10))
    dataset = Dataset(
        name="digits-mosaic",
        X=pixels.reshape(len(pixels), -1) / 16.0,
        truth=truth,
        candidates=Candidates.from_matrix(candidates, labels),
        label_names=labels,
        feature_names=tuple(f"pixel_{row}_{column}" for row in range(16) for column in range(16)),
    )
    return np.rint(pixels * (255 / 16)).astype(np.uint8), dataset


def _resemblance(images: np.ndarray, digits: np.ndarray) -> np.ndarray:
    """How likely each image is to be taken for each other digit, shape (n_images, 10); rows sum to 1."""
    averages = np.stack([images[digits == digit].mean(axis=0) for digit in range(10)])
    distance = ((images[:, None, :] - averages) ** 2).mean(axis=2)
    distance[np.arange(len(digits)), digits] = np.inf  # a digit is not confused with itself
    weight = np.exp(-(distance - distance.min(axis=1, keepdims=True)) / _LIKENESS)
    return weight / weight.sum(axis=1, keepdims=True)
