"""The candidates of a run: drawn once, before training, and kept beside it.

Every label that is not true becomes a candidate with probability ``noise``, as in the paper
(:func:`propml.corruption.independent_flips`). The file ``candidates.npz`` of a run holds what was drawn; a run that
goes on reads it, and one that would draw something else is stopped.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from propml.atomic_files import write_whole
from propml.corruption import independent_flips
from propml.targets import Candidates
from propml.vision.sources import ImageSource

__all__ = ["draw_candidates", "keep_candidates", "note_on_truth", "read_candidates"]


def draw_candidates(source: ImageSource, noise: float | None, seed: int) -> Candidates:
    """The candidates to learn from.

    Parameters
    ----------
    source : ImageSource
    noise : float or None
        Probability of a flip of each label that is not true; ``None``: the source's own candidates, or its true labels.
    seed : int

    Examples
    --------
    >>> from propml.vision.sources import open_source
    >>> source = open_source("digits-mosaic", "train", n_samples=50)
    >>> draw_candidates(source, 1.0, seed=0).sizes().tolist() == [10] * 50
    True
    """
    if noise is None:
        if source.candidates is not None:
            return source.candidates
        if source.truth is None:
            raise ValueError(f"{source.name} has neither candidates nor true labels; there is nothing to learn from")
        return Candidates.from_matrix(source.truth, source.label_names, empty="ignore")
    if source.truth is None:
        raise ValueError(f"{source.name} has no true labels, so no noise can be added to them; leave out --noise")
    return independent_flips(source.truth, noise, random_state=seed, labels=source.label_names)


def note_on_truth(source: ImageSource, noise: float | None) -> list[str]:
    """A sentence where :func:`draw_candidates` takes the true labels as they are; otherwise none.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from propml.vision.sources import open_source
    >>> clean = replace(open_source("digits-mosaic", "train", n_samples=5), candidates=None)
    >>> note_on_truth(clean, None)
    ['digits-mosaic (train) has no candidates: learning from the true labels; --noise makes candidates of them']
    >>> note_on_truth(clean, 0.4)
    []
    """
    if noise is not None or source.candidates is not None or source.truth is None:
        return []
    return [
        f"{source.name} ({source.split}) has no candidates: learning from the true labels; "
        f"--noise makes candidates of them"
    ]


def keep_candidates(path: Path, candidates: Candidates, noise: float | None, seed: int) -> None:
    """Write what was drawn: ``candidates`` (int8), ``label_names``, ``noise`` (NaN: the source's own) and ``seed``."""
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        candidates=candidates.to_matrix(np.int8),
        label_names=np.array([str(name) for name in candidates.labels]),
        noise=np.array(np.nan if noise is None else noise),
        seed=np.array(seed),
    )
    write_whole(path, buffer.getvalue())


def read_candidates(path: Path) -> Candidates:
    """What :func:`keep_candidates` wrote."""
    with np.load(path, allow_pickle=False) as stored:
        return Candidates.from_matrix(stored["candidates"], stored["label_names"].tolist(), empty="ignore")
