"""One self-contained HTML page on which a person reviews the verdicts of an audit.

The page opens from disk, asks for nothing on the network and sends nothing. Everything that comes from data travels as
JSON and is shown as text; a Content-Security-Policy admits no script but the page's own.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

import propml
from propml.atomic_files import write_whole
from propml.auditing.item_words import clipped_texts, feature_lines
from propml.auditing.review_data import ReviewData, reliability_tables, review_data
from propml.auditing.thumbnails import thumbnails
from propml.page import page_style

if TYPE_CHECKING:
    from propml.auditing.report import AuditReport

__all__ = ["render_review", "write_review"]

SCRIPTS = tuple(f"review_{part}.js" for part in ("csv", "top", "list", "model", "address", "store", "entry"))


def write_review(
    report: AuditReport,
    path: str | Path,
    *,
    texts: Any = None,
    images: Any = None,
    features: Any = None,
    feature_names: Sequence[Any] | None = None,
    vectors: Any = None,
    title: str = "Review of the audit",
    max_verdicts: int = 200_000,
    max_images: int = 2_000,
) -> Path:
    """Write the page, whole or not at all.

    Parameters
    ----------
    report : AuditReport
    path : path
        Of the HTML file.
    texts : sequence of str, one per row, optional
        Shown beside each verdict; long ones are cut where there are many.
    images : sequence, one per row, optional
        Paths, bytes, PIL images, arrays or ``None``; shown as thumbnails if Pillow is installed.
    features : array-like, sparse matrix or DataFrame, optional
        The first few values are shown where there are neither texts nor images.
    feature_names : sequence, optional
    vectors : array-like or sparse matrix, shape (n_samples, n_features), optional
        By which the true examples are found that are most like a doubtful one; by default the features, where they are
        a matrix of numbers.
    title : str
    max_verdicts : int
        The page holds at most so many; the least suspicious are left out.
    max_images : int
        Only the items with the most suspicious verdicts get a thumbnail.
    """
    page = render_review(
        report,
        texts=texts,
        images=images,
        features=features,
        feature_names=feature_names,
        vectors=vectors,
        title=title,
        max_verdicts=max_verdicts,
        max_images=max_images,
    )
    write_whole(path, page.encode("utf-8"))
    return Path(path)


def render_review(
    report: AuditReport,
    *,
    texts: Any = None,
    images: Any = None,
    features: Any = None,
    feature_names: Sequence[Any] | None = None,
    vectors: Any = None,
    title: str = "Review of the audit",
    max_verdicts: int = 200_000,
    max_images: int = 2_000,
) -> str:
    """The page as text; the arguments are those of :func:`write_review`."""
    page = review_data(report, max_verdicts)
    shown = _words(page.rows, texts, images, features, feature_names)
    if vectors is None and not hasattr(features, "columns"):
        vectors = features
    near = None if vectors is None else page.nearest(vectors[page.rows])
    page.columns["texts"] = shown
    page.columns["words"] = None if texts is None or shown is None else page.telling(shown, report.probabilities)
    page.columns["near"] = near
    page.columns["pictures"] = None if images is None else _pictures(page, images, max_images, near or {})
    page.columns["tables"] = reliability_tables(report)
    css, js = page_style(_file("review.css")), "".join(_file(name) for name in (*SCRIPTS, "review.js"))
    return Template(_file("review.html")).substitute(
        policy=_policy(css, js),
        version=html.escape(propml.__version__),
        title=html.escape(title),
        css=css,
        js=js,
        data=inert_json(page.columns),
    )


def _words(rows: np.ndarray, texts: Any, images: Any, features: Any, names: Sequence[Any] | None) -> list[str] | None:
    if texts is not None:
        return clipped_texts(texts, rows)
    if images is not None:
        # The name only: whom the page is given to need not know where the file lies.
        return [Path(path).name if isinstance(path := images[row], str | Path) else "" for row in rows.tolist()]
    return None if features is None else feature_lines(features, rows, names)


def _pictures(page: ReviewData, images: Any, most: int, near: dict[int, list[int]]) -> dict[int, str]:
    """The most suspicious items, and the true examples beside them."""
    examples = page.rows[np.unique([item for items in near.values() for item in items])[:most].astype(np.int64)]
    by_row = thumbnails(images, dict.fromkeys([*page.suspects[:most].tolist(), *examples.tolist()]))
    return {item: by_row[row] for item, row in enumerate(page.rows.tolist()) if row in by_row}


def inert_json(data: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or is markup.

    >>> inert_json({"label": "</script>"})
    '{"label":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half a surrogate pair cannot be written as UTF-8; U+2028 and U+2029 end a line for some readers.
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _policy(css: str, js: str) -> str:
    """Only this style and this script, only embedded pictures, no network, and no markup from text."""

    def digest(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; script-src {digest(js)}; style-src {digest(css)}; img-src data:; "
        f"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    )


def _file(name: str) -> str:
    return (resources.files("propml.auditing") / "page" / name).read_text(encoding="utf-8")
