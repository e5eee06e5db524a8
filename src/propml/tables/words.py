"""Text columns: TF-IDF by scikit-learn, kept as its terms and their weights so that it is saved without pickle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from propml.tables.table import Cells
from propml.tables.values import as_texts

__all__ = ["Text"]

MOST_TERMS = 5000
# A term in one row teaches nothing about another, one in nearly all rows tells none from another.
FEWEST_ROWS = 2
LARGEST_SHARE = 0.9
_SAMPLE = 1000


@dataclass
class Text:
    """TF-IDF of words, or of single characters and pairs where the writing has no blanks (Chinese, Japanese, Thai).

    Attributes
    ----------
    terms, weights : list
        The vocabulary and its inverse document frequencies.
    """

    kind: ClassVar[str] = "text"
    name: str
    terms: list[str]
    weights: list[float]
    by_character: bool = False

    @classmethod
    def learn(cls, name: str, texts: Sequence[str | None], most: int = MOST_TERMS) -> Text | None:
        """From text, None where missing; no treatment where no term repeats."""
        by_character = writes_without_blanks(texts)
        vectoriser = _vectoriser(by_character, min_df=FEWEST_ROWS, max_df=LARGEST_SHARE, max_features=most)
        try:
            vectoriser.fit(text or "" for text in texts)
        except ValueError:  # scikit-learn's way to say that no term is left
            return None
        return cls(name, vectoriser.get_feature_names_out().tolist(), vectoriser.idf_.tolist(), by_character)

    @property
    def features(self) -> list[str]:
        return [f"{self.name}: {term}" for term in self.terms]

    def apply(self, cells: Cells, notes: list[str]) -> sp.csr_array:
        vectoriser = _vectoriser(self.by_character, vocabulary=self.terms)
        vectoriser.idf_ = np.asarray(self.weights, dtype=np.float32)
        return sp.csr_array(vectoriser.transform(text or "" for text in as_texts(cells)), dtype=np.float32)

    def sentence(self) -> str:
        return f"text, TF-IDF of {len(self.terms)} {'characters and pairs' if self.by_character else 'words'}"


def writes_without_blanks(texts: Sequence[str | None]) -> bool:
    """Whether most letters are of scripts that put no blanks between words.

    >>> writes_without_blanks(["海と夕日", None]), writes_without_blanks(["sea and sunset"])
    (True, False)
    """
    present = [text for text in texts if text]
    letters = [sign for text in present[:: max(1, len(present) // _SAMPLE)] for sign in text if sign.isalpha()]
    # Thai to Khmer, and everything from the radicals of Chinese up to, but without, Hangul.
    dense = sum("\u0e00" <= sign <= "\u17ff" or "\u2e80" <= sign < "\uac00" for sign in letters)
    return dense > len(letters) / 2


def _vectoriser(by_character: bool, **settings: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    ways = {"analyzer": "char", "ngram_range": (1, 2)} if by_character else {"strip_accents": "unicode"}
    return TfidfVectorizer(sublinear_tf=True, dtype=np.float32, **ways, **settings)
