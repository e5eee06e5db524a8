"""Audit reports without an audit: seeded verdicts on made-up items, as large or as hostile as a test wants them."""

import numpy as np
import scipy.sparse as sp

from propml.auditing.annotator_model import Reliability
from propml.auditing.report import AuditReport
from propml.targets import Annotations, Candidates

LABELS = ("beach", "forest", "market", "mountain", "night", "people", "river", "snow", "street", "sunset")
ANNOTATORS = ("anna", "ben", "carla", "gpt-tagger", "old tags")
SENTENCES = (
    "Two children run along the water while the tide comes in.",
    "The market opens at six, and by noon most stalls are empty.",
    "Snow lies on the roofs; a cat looks down at the street.",
    "From the bridge one sees the river bend towards the hills.",
    "A red tent stands alone under the first stars.",
    "Nobody in the picture looks at the photographer.",
    "Fog hides the upper half of the mountain.",
)
HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"><svg onload=alert(3)>'",
    "javascript:alert(4)",
    "=cmd|' /C calc'!A0",
    '+HYPERLINK("http://example.com","click")',
    "-2+3",
    "@SUM(A1:A9)",
    "\tTab, comma; and\r\nline\nends",
    "'=quoted already",
    "line\u2028and\u2029paragraph",
    "<!--<script>",
    "${alert(5)} {{7*7}} &lt;b&gt; \\u003c",
    "\u202egnp.exe",
    "emoji \U0001f600 and \u00e9",
)


def fake_report(n_items, n_candidates=3, *, labels=LABELS, annotators=ANNOTATORS, missing=True, ids=None, seed=0):
    """A report of ``n_items`` rows with ``n_candidates`` candidates each, and a missing label for every tenth row."""
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((n_items, len(labels))), axis=1)
    label, row = order[:, :n_candidates].ravel(), np.repeat(np.arange(n_items), n_candidates)
    states = sp.csr_array(sp.coo_array((np.ones(len(row), np.int8), (row, label)), shape=(n_items, len(labels))))
    states.sort_indices()
    ids = tuple(f"item-{i:05d}" for i in range(n_items)) if ids is None else tuple(ids)
    annotations = reliability = None
    if annotators:
        votes = rng.random((len(row), len(annotators))) < 0.4
        votes[np.arange(len(row)), rng.integers(len(annotators), size=len(row))] = True
        vote, who = np.nonzero(votes)
        annotations = Annotations(row[vote], who, label[vote], tuple(annotators))
        reliability = _reliability(annotators, np.bincount(who, minlength=len(annotators)), len(labels))
    probabilities = np.zeros(states.shape)
    probabilities[row, label] = rng.beta(0.7, 0.5, size=len(row))
    if missing:
        some = np.arange(0, n_items, 10)
        probabilities[some, order[some, n_candidates]] = rng.uniform(0.7, 1, size=len(some))
    candidates = Candidates(states, tuple(labels), ids, annotations)
    return AuditReport(candidates, probabilities, incomplete=missing, reliability=reliability)


def _reliability(annotators, votes, n_labels):
    good, fair = np.linspace(0.55, 0.95, len(annotators)), np.linspace(0.6, 0.9, n_labels)
    return Reliability(
        annotators=tuple(annotators),
        items=votes // 2,
        votes=votes,
        sensitivity=good,
        false_positive_rate=(1 - good) / 3,
        precision=good**2,
        agreement=good / 2,
        label_sensitivity=fair,
        label_false_positive_rate=(1 - fair) / 4,
    )


def fake_texts(n_items, n_sentences=4, seed=0):
    """A few sentences per item."""
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(SENTENCES, size=n_sentences)) for _ in range(n_items)]


def fake_pictures(n_items, size=240, seed=0):
    """A sky, a hill and a sun per item, in seeded colours, as arrays of bytes."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size] / size
    pictures = []
    for _ in range(n_items):
        sky, hill = rng.integers(120, 256, size=3), rng.integers(20, 140, size=3)
        picture = sky * (1 - 0.5 * y[:, :, None]) + rng.normal(0, 3, size=(size, size, 1))
        sun = (x - rng.random()) ** 2 + (y - 0.3 * rng.random()) ** 2 < 0.01
        picture[sun] = (255, 220, 120)
        picture[y > 0.65 + 0.2 * np.sin(5 * x + 6 * rng.random())] = hill
        pictures.append(picture.clip(0, 255).astype(np.uint8))
    return pictures


def hostile_report():
    """Items, labels and annotators whose names are attacks; every item has two candidates."""
    ids = [f"{text} {n}" if n % 2 else text for n, text in enumerate(HOSTILE)]
    return fake_report(len(ids), 2, labels=HOSTILE, annotators=HOSTILE[:4], missing=False, ids=ids)
