"""VOC2007 for audit.py: deep features of its images, and three simulated people who label them.

The people are made from what the annotations of VOC say of each object. A label is as hard as the easiest of its
objects: plain, truncated (only a part is in the image), or difficult (hard to recognise, as VOC's annotators found).

    a person misses a true label                              with probability  0.04, 0.15, 0.40
    and takes the object for another class of its group       with probability  0.08, 0.30, 0.60

times 0.5, 1 and 1.5 for the careful, the average and the hasty one, and never above 0.95. The groups are VOC's:
vehicles, animals, things indoors; a person is missed and never confused. What one of the three proposes is a candidate.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

MISSED, CONFUSED = np.array([0.04, 0.15, 0.40]), np.array([0.08, 0.30, 0.60])
PEOPLE = {"careful": 0.5, "average": 1.0, "hasty": 1.5}
GROUPS = (
    ("aeroplane", "bicycle", "boat", "bus", "car", "motorbike", "train"),
    ("bird", "cat", "cow", "dog", "horse", "sheep"),
    ("bottle", "chair", "diningtable", "pottedplant", "sofa", "tvmonitor"),
    ("person",),
)


def voc(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray, Any]:
    """Features and true labels of some training images, and the candidates by three people, with their votes."""
    from propml.vision import features, open_source

    source = open_source("voc2007", "train")
    truth = np.asarray(source.truth)
    rows = np.random.default_rng(0).permutation(len(truth))[: options.rows]
    if options.features is not None and options.features.exists():
        X = np.load(options.features)["X"]
    else:
        X = features(source.items, weights=options.weights, size=280)
        if options.features is not None:
            np.savez_compressed(options.features, X=X.astype(np.float16))
    if len(X) != len(truth):
        raise SystemExit(f"{options.features} has {len(X)} rows, and VOC2007 {len(truth)} training images")
    hard = np.array([hardness(Path(source.items[row]), source.label_names) for row in rows])
    return X[rows].astype(np.float32), truth[rows], people(hard, source.label_names)


def hardness(image: Path, labels: Any) -> np.ndarray:
    """0, 1, 2 for true labels that are plain, truncated and difficult; -1 for others, ``(n_labels,)``."""
    found = np.full(len(labels), 3)
    for each in ElementTree.parse(image.parents[1] / "Annotations" / f"{image.stem}.xml").findall("object"):
        level = 2 if each.findtext("difficult") == "1" else int(each.findtext("truncated") == "1")
        place = list(labels).index((each.findtext("name") or "").strip())
        found[place] = min(found[place], level)
    return np.where(found == 3, -1, found)


def people(hard: np.ndarray, labels: Any) -> Any:
    """What the three propose, as candidates with votes."""
    from propml.targets import Candidates

    others = {name: [other for other in group if other != name] for group in GROUPS for name in group}
    rng = np.random.default_rng(0)
    item, who, said = [], [], []
    for row, of_row in enumerate(hard):
        for name, haste in PEOPLE.items():
            proposed = set()
            for j in np.flatnonzero(of_row >= 0):
                missed, confused = rng.random(2) < np.minimum(haste * np.array([MISSED, CONFUSED])[:, of_row[j]], 0.95)
                if not missed:
                    proposed.add(labels[j])
                if confused and others[labels[j]]:
                    proposed.add(rng.choice(others[labels[j]]))
            for label in sorted(proposed) or [None]:
                item.append(row)
                who.append(name)
                said.append(label)
    return Candidates.from_votes(item, who, said, labels=labels, empty="ignore")


def image_settings(options: argparse.Namespace) -> Iterator[tuple[str, Any, np.ndarray, Any]]:
    """(name, X, truth, candidates) of VOC: flips, and the three people without their votes."""
    from dataclasses import replace

    from propml.corruption import corrupt

    X, truth, seen = voc(options)
    yield "voc2007|flips 0.2", X, truth, corrupt("flips", X, truth, rate=0.2)
    yield "voc2007|people", X, truth, replace(seen, annotations=None)
