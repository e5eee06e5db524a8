"""One self-contained HTML page on which a person reviews the verdicts of an audit.

The page opens from disk, asks for nothing on the network and sends nothing. Everything that comes from data travels as
JSON and is shown as text; a Content-Security-Policy admits no script but the page's own.
"""

import base64
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import propml
from propml.atomic_files import write_whole
from propml.auditing.evidence import clipped_texts, feature_lines, nearest_true, telling_words, thumbnails
from propml.auditing.report import AuditReport
from propml.output import page_style
from propml.targets import Candidates

SCRIPTS = (*(f"review_{part}.js" for part in ("csv", "top", "list", "model", "address", "store", "entry")), "review.js")
LEAD = (
    "Every label was judged by models that never saw its item. Keep what the item has, drop what it has not; what you "
    "leave alone follows the audit. Your decisions stay in this browser until you download them."
)
PAGE_ORDER = ("drop", "doubtful", "missing", "keep")  # verdicts are numbered like this in the page
SCALE = 10_000  # probabilities travel as whole numbers up to this


def write_review(
    report: AuditReport,
    path: str | Path,
    *,
    texts: Any = None,
    images: Any = None,
    features: Any = None,
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
    vectors : array-like or sparse matrix, shape (n_samples, n_features), optional
        By which the true examples are found that are most like a doubtful one; by default the features, where they are
        a matrix of numbers.
    title : str
    max_verdicts : int
        The page holds at most so many; the least suspicious are left out.
    max_images : int
        Only the items with the most suspicious verdicts get a thumbnail.
    """
    items, labels = report.item_ids, report.label_names
    for what, names in (("item", items), ("label", labels)):
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise ValueError(
                f"several {what}s are called {twice[0]!r}; decisions go by name, so give every {what} a name of its own"
            )
    told = report.verdicts()
    code = np.argmax([told.verdict == name for name in PAGE_ORDER], axis=0)
    missing, keep = (code == PAGE_ORDER.index(name) for name in ("missing", "keep"))
    # How likely it is that the label is wrong or, for one that is missing, that it is right.
    suspicion = np.where(missing, told.probability, 1 - told.probability)
    held = np.sort(np.lexsort((-suspicion, keep))[:max_verdicts])
    counts = told.counts()
    lead = [LEAD, *report.notes()]
    if len(held) < len(told):
        most, all_told = (f"{len(each):,}".replace(",", "\u202f") for each in (held, told))
        lead.append(f"This page holds the {most} most suspicious of {all_told} verdicts.")
    told = told[held]
    code, missing, keep, suspicion = (each[held] for each in (code, missing, keep, suspicion))
    rows, row = np.unique(told.row, return_inverse=True)
    columns: dict[str, Any] = {
        "items": [items[each] for each in rows.tolist()],
        "labels": labels,
        "row": row.tolist(),
        "label": told.label.tolist(),
        "verdict": code.tolist(),
    }
    # The same verdicts on the same items are the same audit, so that decisions survive a page that is written again.
    name = hashlib.sha256(json.dumps(list(columns.values())).encode()).hexdigest()[:16]
    shown = words = near = None
    if texts is not None:
        shown = clipped_texts(texts, rows)
        words = telling_words(shown, report.probabilities[rows], row, told.label)
    elif images is not None:
        # The name only: whom the page is given to need not know where the file lies.
        shown = [Path(image).name if isinstance(image := images[at], str | Path) else "" for at in rows.tolist()]
    elif features is not None:
        shown = feature_lines(features, rows)
    if vectors is None and not (isinstance(features, Mapping) or hasattr(features, "columns")):
        vectors = features
    if vectors is not None:
        near = nearest_true(vectors[rows], row, told.label, keep, ~keep & ~missing, suspicion)
    # What is nearly certain must not look certain.
    share = told.probability
    whole = np.where((share > 0) & (share < 1), np.clip(np.rint(share * SCALE), 1, SCALE - 1), share * SCALE)
    columns |= {
        "id": name,
        "lead": " ".join(lead),
        "n_items": len(items),
        "bounded": report.bounded,
        "counts": {verdict: counts[verdict] for verdict in PAGE_ORDER},
        "probability": whole.astype(np.int64).tolist(),
        **_votes(report.candidates, rows, told.row, told.label),
        "texts": shown,
        "words": words,
        "near": near,
        "pictures": None if images is None else _pictures(images, rows, row, suspicion, near or {}, max_images),
        "tables": _tables(report),
    }
    write_whole(path, _page(title, columns).encode())
    return Path(path)


def _page(title: str, columns: dict[str, Any]) -> str:
    folder = resources.files("propml.auditing") / "page"
    css = page_style((folder / "review.css").read_text(encoding="utf-8"))
    js = "".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS)
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (js, css))
    # Only this script and this style, only embedded pictures, no network, and no markup from text.
    policy = (
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
    ).format(*digests)
    return Template((folder / "review.html").read_text(encoding="utf-8")).substitute(
        policy=policy,
        version=html.escape(propml.__version__),
        title=html.escape(title),
        css=css,
        js=js,
        data=inert_json(columns),
    )


def inert_json(data: Any) -> str:
    """JSON that can stand inside a script element: nothing in it ends the element or is markup."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Half a surrogate pair cannot be written as UTF-8; U+2028 and U+2029 end a line for some readers.
    return re.sub("[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)


def _pictures(
    images: Any, rows: np.ndarray, row: np.ndarray, suspicion: np.ndarray, near: Mapping[int, list[int]], most: int
) -> dict[int, str]:
    """Those of the items with the most suspicious labels, and of the true examples beside them."""
    worst = np.zeros(len(rows))
    np.maximum.at(worst, row, suspicion)
    examples = np.unique([item for alike in near.values() for item in alike]).astype(np.int64)
    wanted = [*np.argsort(-worst, kind="stable")[:most], *examples[:most]]
    made = thumbnails(images, dict.fromkeys(rows[wanted].tolist()))
    return {item: made[at] for item, at in enumerate(rows.tolist()) if at in made}


def _votes(candidates: Candidates, rows: np.ndarray, row: np.ndarray, label: np.ndarray) -> dict[str, Any]:
    """Who voted for each verdict's label, as numbers of sets of annotators: there are far fewer sets than verdicts."""
    votes, looked = candidates.annotations, candidates.voters
    if votes is None or looked is None:
        return {"annotators": [], "voter_sets": [], "voters": None, "looked": None}
    by_cell: dict[tuple[int, int], list[int]] = {}
    for item, own, who in zip(votes.row.tolist(), votes.label.tolist(), votes.annotator.tolist(), strict=True):
        by_cell.setdefault((item, own), []).append(who)
    numbers: dict[tuple[int, ...], int] = {}
    sets = (tuple(by_cell.get(cell, ())) for cell in zip(row.tolist(), label.tolist(), strict=True))
    voters = [numbers.setdefault(each, len(numbers)) for each in sets]
    return {
        "annotators": [str(name) for name in votes.names],
        "voter_sets": [list(each) for each in numbers],
        "voters": voters,
        "looked": looked[rows].tolist(),
    }


def _tables(report: AuditReport) -> list[dict[str, Any]]:
    """The reliability of labels and of annotators: names first, then counts (whole numbers) and shares."""
    tables = []
    for by, told in (("label", report.labels("columns")), ("annotator", report.annotators("columns"))):
        kinds = ["text", *("share" if np.asarray(own).dtype.kind == "f" else "count" for own in [*told.values()][1:])]
        columns = [{"name": name.replace("_", " "), "kind": kind} for name, kind in zip(told, kinds, strict=True)]
        # NaN is not equal to itself.
        cells = [[None if cell != cell else cell for cell in np.asarray(own).tolist()] for own in told.values()]
        if rows := [list(row) for row in zip(*cells, strict=True)]:
            tables.append({"title": f"{by.title()}s", "filters": by, "columns": columns, "rows": rows})
    return tables
