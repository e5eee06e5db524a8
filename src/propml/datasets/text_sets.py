"""Short texts with several emotions: GoEmotions (English) and REDv2 (Romanian, with its three annotators as votes).

``load("goemotions")`` and ``load("redv2")`` give the texts as TF-IDF of up to 5000 words, over all rows; of
``"goemotions-20k"``, 20 000 rows of the training part. :func:`read_texts` gives the texts themselves.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from propml.datasets.dataset import Dataset, Entry, Facts, RemoteFile
from propml.datasets.locations import existing_file
from propml.file_errors import reading
from propml.targets import Candidates
from propml.unpacking import open_unpacked

GOEMOTIONS = [
    "admiration", "amusement", "anger", "annoyance", "approval", "caring", "confusion", "curiosity", "desire",
    "disappointment", "disapproval", "disgust", "embarrassment", "excitement", "fear", "gratitude", "grief", "joy",
    "love", "nervousness", "optimism", "pride", "realization", "relief", "remorse", "sadness", "surprise", "neutral",
]  # fmt: skip
REDV2 = ["sadness", "surprise", "fear", "anger", "neutral", "trust", "joy"]
ANNOTATORS = ("annotator1", "annotator2", "annotator3")
# The parts of each set and the git blob ids of their files.
_PARTS = {
    "goemotions": {
        "train": "aa00d732d3b9e969d9fcbaafc2c5b094555746c0",
        "dev": "38c793645ca3a2e946d625c9722ca5386b0a6c7f",
        "test": "7635db4a49befb91e5bc0dbedde095bb2d8593ae",
    },
    "redv2": {"valid": "56f38d06bc536dd0d57f2870a9d06f19a3ffc801", "test": "ae6edef1d6d873d4d9d35522194ab95fde6e9f57"},
}
_FILES = {"goemotions": "text/goemotions-{}.tsv", "redv2": "text/redv2-{}.json"}
_RAW = "https://raw.githubusercontent.com"
_GOEMOTIONS = f"{_RAW}/google-research/google-research/2adf640a14f11025ae5a9d0ec493b78530d276d3/goemotions/data"
_REDV2 = f"{_RAW}/Alegzandra/RED-Romanian-Emotions-Dataset/93136b18f40f01b70c08ae01ab4274853d00a166/data"


class Texts(NamedTuple):
    """Texts with true labels, who proposed what where that is known, and the part that each row belongs to."""

    texts: list[str]
    truth: np.ndarray
    candidates: Candidates | None
    label_names: tuple[str, ...]
    split: np.ndarray


def read_texts(name: str, data_dir: str | Path | None = None) -> Texts:
    """The texts of ``"goemotions"`` or ``"redv2"``; the folders are those of :func:`~propml.datasets.load`."""
    from propml.datasets.catalogue import find, lookup

    return _read_folder(find(lookup(name), data_dir), name=name)


def _read_folder(folder: Path, *, name: str) -> Texts:
    texts: list[str] = []
    true: list[list[int]] = []
    votes: list[tuple[int, str, str | None]] = []
    splits: list[str] = []
    for split in _PARTS[name]:
        path = existing_file(folder, _FILES[name].format(split)) or folder / _FILES[name].format(split)
        with reading(path, f"file of {name}", "fetch or copy it again"), open_unpacked(path) as file:
            content = file.read().decode("utf-8")
            if name == "goemotions":
                for text, numbers, _ in (line.split("\t") for line in content.split("\n") if line):
                    true.append([int(number) for number in numbers.split(",")])
                    texts.append(text)
            else:
                for record in json.loads(content):
                    for who in ANNOTATORS:
                        seen: list[str | None] = [REDV2[label] for label in np.flatnonzero(record[who])]
                        votes += [(len(texts), who, label) for label in seen or [None]]
                    true.append(np.flatnonzero(record["agreed_labels"]).tolist())
                    texts.append(record["text"])
        splits += [split] * (len(texts) - len(splits))
    names = GOEMOTIONS if name == "goemotions" else REDV2
    truth = np.zeros((len(texts), len(names)), dtype=np.uint8)
    for row, labels in enumerate(true):
        truth[row, labels] = 1
    candidates = Candidates.from_votes(*zip(*votes, strict=True), labels=names) if votes else None
    return Texts(texts, truth, candidates, tuple(names), np.array(splits))


def _read_words(folder: Path, *, name: str, n_train: int | None = None) -> Dataset:
    """The texts as words: all, or so many that are drawn from the training part."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    read = _read_folder(folder, name=name)
    if n_train is not None:
        rows = np.sort(np.random.default_rng(0).permutation(np.flatnonzero(read.split == "train"))[:n_train])
        read = read._replace(texts=[read.texts[row] for row in rows], truth=read.truth[rows])
        name = f"{name}-{n_train // 1000}k"
    words = TfidfVectorizer(sublinear_tf=True, strip_accents="unicode", min_df=2, max_df=0.9, max_features=5000)
    X = sp.csr_array(words.fit_transform(read.texts))
    return Dataset(name, X, read.truth, read.candidates, read.label_names, tuple(words.get_feature_names_out()))


def _entry(name: str, title: str, facts: Facts, url: str, source: str, note: str) -> Entry:
    files = tuple(
        RemoteFile(path := _FILES[name].format(split), f"{url}/{split}{Path(path).suffix}", f"git:{blob}")
        for split, blob in _PARTS[name].items()
    )
    needs = tuple(file.path for file in files)
    return Entry(name, title, "text", (facts,), files, partial(_read_words, name=name), needs, source, note=note)


_ALL_GOEMOTIONS = _entry(
    "goemotions",
    "GoEmotions",
    Facts(54263, 5000, 28, 1.176, rows_without_truth=0),
    _GOEMOTIONS,
    "https://github.com/google-research/google-research, goemotions (Apache-2.0)",
    "Comments of Reddit with aggregated labels; features are TF-IDF of words. Its parts are joined.",
)
TEXT_ENTRIES = (
    _ALL_GOEMOTIONS,
    replace(
        _ALL_GOEMOTIONS,
        name="goemotions-20k",
        title="GoEmotions (20k)",
        facts=(Facts(20000, 5000, 28, 1.177, rows_without_truth=0),),
        read=partial(_read_words, name="goemotions", n_train=20_000),
        note="20000 rows of the training part of GoEmotions, drawn at random with a fixed seed.",
    ),
    _entry(
        "redv2",
        "REDv2",
        Facts(1361, 2525, 7, 1.132, 2.073, 0, 0),
        _REDV2,
        "https://github.com/Alegzandra/RED-Romanian-Emotions-Dataset (MIT)",
        "Romanian tweets, valid and test joined; candidates are what any of three annotators saw, true what two did.",
    ),
)
