"""What a person who decides is shown of an item: text or first features, a picture, telling words, true examples."""

import base64
import importlib.util
import io
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from propml.extras import require
from propml.target_checks import is_missing
from propml.vision.decoding import open_image

# Words that are told of each label, how much more often they stand where it is true, and in how many other texts.
MOST_WORDS, TELLING, FEWEST_TEXTS = 4, np.log(2), 2
# Cells of the table of words and labels, and verdicts that are looked up at once.
MOST_CELLS, BLOCK = 20_000_000, 20_000
# True examples of each label that are told and looked among, and verdicts that get some.
N_EXAMPLES, MOST_TRUE, MOST_VERDICTS = 3, 2_000, 20_000
# Characters of all items together, of one item at least and at most; features that are shown, and characters of one.
BUDGET, SHORTEST, LONGEST, N_FEATURES, CELL = 20_000_000, 300, 20_000, 6, 60
# Pixels of the longer side of a picture, sharp at 6rem on a screen of double density; and of those that are enlarged.
SIZE, TINY = 192, 64


def telling_words(
    texts: Sequence[str], probabilities: np.ndarray, row: np.ndarray, label: np.ndarray
) -> list[list[str]] | None:
    """For each verdict, an item and a label, the words of the item's text that speak for the label, most telling first.

    A word speaks for a label by the log ratio of its shares in texts with and without the label, as in naive Bayes;
    texts count by P(true), ``(n_items, n_labels)``, and the text itself does not count. None where texts have no words
    in common.

    >>> true = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    >>> texts = ["snow falls", "deep snow", "snow today", "sand today", "hot sand", "sand falls"]
    >>> telling_words(texts, true, np.array([0, 0]), np.array([0, 1]))
    [['snow'], []]
    """
    from sklearn.feature_extraction.text import CountVectorizer

    truth = np.nan_to_num(probabilities.astype(np.float32))
    most = max(1, MOST_CELLS // max(truth.shape[1], 1))
    counter = CountVectorizer(binary=True, min_df=FEWEST_TEXTS + 1, max_features=min(20_000, most), dtype=np.float32)
    try:
        held = sp.csr_array(counter.fit_transform(texts))
    except ValueError:  # no word stands in several texts, or there are no words as blanks part them
        return None
    words, both = counter.get_feature_names_out(), held.T @ truth
    with_word, with_label = np.asarray(held.sum(axis=0)).ravel(), truth.sum(axis=0)
    telling: list[list[str]] = []
    for start in range(0, len(row), BLOCK):
        own, its = row[start : start + BLOCK], label[start : start + BLOCK]
        at, word = held[own].tocoo().coords
        itself = truth[own, its][at]  # it does not speak for itself
        true, yes = with_label[its[at]] - itself, np.maximum(both[word, its[at]] - itself, 0)
        no = np.maximum(with_word[word] - 1 - yes, 0)
        score = np.log((yes + 0.5) / (true + 1)) - np.log((no + 0.5) / (len(truth) - true + 1))
        good = np.flatnonzero((score > TELLING) & (yes >= 1))
        of_block: list[list[str]] = [[] for _ in own]
        for k in good[np.lexsort((-score[good], at[good]))].tolist():
            if len(of_block[at[k]]) < MOST_WORDS:
                of_block[at[k]].append(str(words[word[k]]))
        telling += of_block
    return telling


def nearest_true(
    vectors: Any, row: np.ndarray, label: np.ndarray, kept: np.ndarray, doubted: np.ndarray, suspicion: np.ndarray
) -> dict[int, list[int]]:
    """For each doubted verdict, the more suspicious first, the items most like its own that surely have its label.

    >>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [1.0, 0.2]])
    >>> kept = np.array([True, False, True, True])
    >>> nearest_true(vectors, np.arange(4), np.zeros(4, dtype=int), kept, ~kept, np.array([0, 1, 0, 0]))
    {1: [0, 3, 2]}
    """
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    if not sp.issparse(vectors):
        vectors = np.asarray(vectors, dtype=np.float32)
        vectors = (vectors - vectors.mean(axis=0)) / (vectors.std(axis=0) + 1e-9)
    alike = normalize(vectors)
    asked = np.flatnonzero(doubted)
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
    """The texts of the given rows, each cut so that all of them together make a page that opens quickly."""
    limit = int(np.clip(BUDGET // max(len(rows), 1), SHORTEST, LONGEST))
    texts = list(texts)
    return [_clipped("" if is_missing(text := texts[row]) else str(text), limit) for row in rows.tolist()]


def feature_lines(features: Any, rows: np.ndarray) -> list[str]:
    """The first features of the given rows as ``name value · name value``; of sparse rows the first that are not zero.

    Features are a matrix, a DataFrame or a mapping of columns.
    """
    if isinstance(features, Mapping) or hasattr(features, "columns"):
        shown = list(getattr(features, "columns", features))[:N_FEATURES]
        columns = [[column[row] for row in rows.tolist()] for column in (list(features[name]) for name in shown)]
        return [_line(zip(shown, cells, strict=True)) for cells in zip(*columns, strict=True)]
    if sp.issparse(features):
        table = sp.csr_array(features)[rows]
        starts = table.indptr[:-1]
        spans = map(slice, starts, np.minimum(starts + N_FEATURES, table.indptr[1:]))
        return [_line((f"x{j}", v) for j, v in zip(table.indices[at], table.data[at], strict=True)) for at in spans]
    return [_line((f"x{j}", cell) for j, cell in enumerate(row)) for row in np.asarray(features)[rows, :N_FEATURES]]


def _line(cells: Any) -> str:
    def shown(value: Any) -> str:
        if is_missing(value):
            return "missing"
        return f"{value:.4g}" if isinstance(value, float | np.floating) else _clipped(str(value), CELL)

    return " · ".join(f"{name} {shown(value)}" for name, value in cells)


def _clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text) - limit} more characters)"


def thumbnails(images: Any, rows: Iterable[int]) -> dict[int, str]:
    """Thumbnails of the given rows, as what follows ``data:image/`` in an address.

    An image is a path, encoded bytes, a PIL image, an array ``(height, width)`` or ``(height, width, 3 or 4)``, or
    None. Rows whose picture is missing or cannot be read are left out, and a warning names the first; without Pillow
    there are none.
    """
    if importlib.util.find_spec("PIL") is None:
        return {}
    encoded: dict[int, str] = {}
    unreadable: list[str] = []
    for row in rows:
        if images[row] is None:
            continue
        try:
            with warnings.catch_warnings():  # of Pillow, on what it could read all the same
                warnings.filterwarnings("ignore", module="PIL")
                small, buffer = _small(images[row]), io.BytesIO()
                # Few colours, as in drawings and enlarged pixels, are smaller as PNG.
                kind = "jpeg" if small.getcolors(maxcolors=64) is None else "png"
                small.save(buffer, kind, quality=75, optimize=True)
                encoded[row] = f"{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"
        except Exception as why:  # a damaged file can break its decoder in any way
            unreadable.append(f"that of row {row}: {why or repr(why)}")
    if unreadable:
        warnings.warn(f"{len(unreadable)} pictures cannot be shown, first {unreadable[0]}", stacklevel=2)
    return encoded


def _small(image: Any) -> Any:
    """A copy in RGB that fits the size."""
    Image = require("PIL.Image", "vision")
    if isinstance(image, str | Path | bytes):
        with open_image(io.BytesIO(image) if isinstance(image, bytes) else image) as opened:
            opened.draft("RGB", (2 * SIZE, 2 * SIZE))  # a JPEG is decoded at a fraction of its size
            return _small(require("PIL.ImageOps", "vision").exif_transpose(opened))
    if not isinstance(image, Image.Image):
        image = Image.fromarray(_pixels(np.asarray(image)))
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        image = Image.fromarray(_pixels(np.asarray(image, dtype=np.float64)))
    if "transparency" in image.info or "A" in image.mode:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("RGB")
    if max(image.size) <= TINY:
        times = SIZE // max(image.size)
        return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    image.thumbnail((SIZE, SIZE))
    return image


def _pixels(values: np.ndarray) -> np.ndarray:
    """Grey or colour values as bytes; numbers that are not bytes are stretched unless they lie in [0, 1]."""
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    if values.ndim not in (2, 3) or values.size == 0:
        raise ValueError(f"an array of shape {values.shape} is no picture; give (height, width) or (height, width, 3)")
    if values.dtype == np.uint8:
        return values
    values = np.nan_to_num(values.astype(np.float64))
    low, high = min(values.min(), 0.0), max(values.max(), 1.0)
    return np.round(255 * (values - low) / (high - low)).astype(np.uint8)
