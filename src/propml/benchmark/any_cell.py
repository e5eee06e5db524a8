"""What every cell has, on tables or on images, and what computing it gives: all that runner, store and report see."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from propml.benchmark.noise_levels import noise_text
from propml.benchmark.results import Noise

__all__ = ["PROTOCOL", "SELECTIONS", "AnyCell", "CellOutcome", "FoldOutcome"]

# Part of every key: raise it when the protocol changes, so that cells of the old one are not taken for done.
PROTOCOL = 1
# Who chooses hyper-parameters: candidates, or the true labels of test rows, as in the paper.
SELECTIONS = ("candidates", "oracle")


@dataclass(frozen=True)
class AnyCell(ABC):
    """What one worker computes at once: a method on a dataset at a noise level with a seed.

    Attributes
    ----------
    experiment, dataset : str
    noise : float, str or None
        A level, or a kind of noise and its level, see :mod:`propml.benchmark.noise_levels`; ``None`` for candidates
        that come with the dataset.
    method
        Its ``name`` is what the tables call it.
    seed : int
    metrics : tuple of str
        What is measured. Not part of :attr:`key`: scores are kept, so another metric needs no other cell.
    """

    experiment: str
    dataset: str
    noise: Noise
    method: Any
    seed: int
    metrics: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """A readable name with a hash of the configuration, safe as a file name."""
        noise = noise_text(self.noise) or "real"
        parts = (self.experiment, self.dataset, noise, self.method.name, str(self.seed))
        canonical = json.dumps(self.configuration(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return "-".join([*map(_safe, parts), hashlib.sha256(canonical.encode()).hexdigest()[:8]])

    @property
    @abstractmethod
    def corruption(self) -> str:
        """What makes the candidates where there is noise: a name of :data:`propml.corruption.CORRUPTIONS`."""

    @abstractmethod
    def configuration(self) -> dict[str, Any]:
        """All that the scores depend on, as plain values."""

    @abstractmethod
    def on_device(self, device: str) -> Self:
        """The same cell, computed on a certain device where its method can use one."""


@dataclass(frozen=True, eq=False)
class FoldOutcome:
    """A fold of a cell.

    Attributes
    ----------
    fold : int
    test : ndarray of int, shape (n_test,)
        What was tested: rows of a table, counted among those that have a true label, or images of the test part.
    scores : ndarray of float32, shape (n_test, n_labels)
    predicted : ndarray of uint8, shape (n_test, n_labels)
    values : dict
        Metrics by name, as fractions.
    seconds_fit, seconds_predict : float
    chosen : dict
        What was chosen on the way, such as λ.
    """

    fold: int
    test: np.ndarray
    scores: np.ndarray
    predicted: np.ndarray
    values: dict[str, float]
    seconds_fit: float
    seconds_predict: float
    chosen: dict[str, Any]


@dataclass(frozen=True, eq=False)
class CellOutcome:
    """What computing a cell gave.

    Attributes
    ----------
    cell : AnyCell
    folds : tuple of FoldOutcome
    peak_bytes : int
        On a GPU the most that was allocated there; otherwise the most that the process held (where the system cannot
        forget, since it began).
    device : str
        The name of the GPU, or ``"cpu"``.
    """

    cell: AnyCell
    folds: tuple[FoldOutcome, ...]
    peak_bytes: int
    device: str


def _safe(part: str) -> str:
    """What may stand in any file name; the hash tells apart what this makes alike."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", part).strip("-")[:60]
