"""Mulan datasets: an ARFF file of features and labels together, and an XML header that names the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import numpy as np
import scipy.sparse as sp

from propml.datasets.arff import Arff, Attribute, read_arff
from propml.datasets.dataset import Dataset
from propml.file_errors import reading


def read_mulan(
    arff: str | Path | Sequence[str | Path],
    xml: str | Path | Sequence[str],
    *,
    name: str | None = None,
    nominal: Literal["codes", "one-hot"] = "codes",
) -> Dataset:
    """Read a Mulan dataset; the labels are the attributes that the XML names, wherever they stand.

    Parameters
    ----------
    arff : path or sequence of paths
        Several files (train and test) are joined, one after the other; ``.gz`` is fine.
    xml : path, or sequence of str
        The label header, or the names of the labels themselves.
    name : str, optional
        By default the name of the XML file, or else of the ARFF file.
    nominal : {"codes", "one-hot"}
        What becomes of a nominal feature of more than two values. "codes": one column, with the value's position in
        the declaration; shapes are those which papers report, and a method takes names for amounts. "one-hot": one
        column of 0 and 1 for each value, such as ``location=7``, behind the other features.

    Returns
    -------
    Dataset
        With ``truth`` and without candidates. Labels stand in the order of the XML. A nominal feature of two values
        is one column: {0,1} becomes the number, any other its position. Sparse files stay sparse.
    """
    if nominal not in ("codes", "one-hot"):
        raise ValueError(f'nominal is {nominal!r}; choose "codes" or "one-hot"')
    paths = [Path(arff)] if isinstance(arff, str | Path) else [Path(path) for path in arff]
    parts = [read_arff(path) for path in paths]
    for path, part in zip(paths[1:], parts[1:], strict=True):
        if part.attributes != parts[0].attributes:
            raise ValueError(f"{path} does not declare the same attributes as {paths[0]}; they cannot be joined")
    attributes = parts[0].attributes
    position = {attribute.name: j for j, attribute in enumerate(attributes)}
    labels = read_label_header(xml) if isinstance(xml, str | Path) else tuple(xml)
    if absent := [label for label in labels if label not in position]:
        raise ValueError(
            f"{xml} names {len(labels)} labels, of which {len(absent)} are not attributes of {paths[0]} "
            f"({', '.join(map(repr, absent[:3]))}); do the two files belong together?"
        )
    features = [attribute for attribute in attributes if attribute.name not in labels]
    if not features:
        raise ValueError(f"{xml} names every attribute of {paths[0]} as a label; no feature is left")
    with reading(paths[0], "Mulan dataset"):
        data = _as_numbers(parts)
        X = data[:, [position[feature.name] for feature in features]]
        X, feature_names = _one_hot(X, features) if nominal == "one-hot" else (X, [each.name for each in features])
        return Dataset(
            name=name or (Path(xml) if isinstance(xml, str | Path) else paths[0]).stem,
            X=X,
            truth=_truth(data, [attributes[position[label]] for label in labels], position, paths[0]),
            candidates=None,
            label_names=labels,
            feature_names=tuple(feature_names),
        )


def read_label_header(path: str | Path) -> tuple[str, ...]:
    """The label names of a Mulan XML header; labels may be nested (hierarchies)."""
    path = Path(path)
    root = read_xml(path)
    names = [element.get("name", "") for element in root.iterfind(".//{*}label")]
    if root.tag.rpartition("}")[2] != "labels" or not names or not all(names):
        raise ValueError(f"{path} is no Mulan header, which is <labels> with a <label name=…> for each label")
    if twice := [label for label, count in Counter(names).items() if count > 1]:
        raise ValueError(f"{path} names label {twice[0]!r} twice; remove one of the two")
    return tuple(names)


def read_xml(path: Path) -> ElementTree.Element:
    """The root element of an XML file; expat, which reads it, refuses entities that grow without measure."""
    with reading(path, "XML file", "it may be truncated: copy it again"):
        return ElementTree.parse(path).getroot()


def _as_numbers(parts: Sequence[Arff]) -> Any:
    """All rows, sparse where any file is; {1,0} columns hold numbers instead of positions, which are 1 - x."""
    blocks = [part.data for part in parts]
    data: Any = sp.csr_array(sp.vstack(blocks)) if any(map(sp.issparse, blocks)) else np.concatenate(blocks)
    turned = np.array([attribute.values == ("1", "0") for attribute in parts[0].attributes])
    if not turned.any():
        return data
    sign, ones = sp.diags_array(np.where(turned, -1.0, 1.0)), np.ones((data.shape[0], 1)) * turned
    return sp.csr_array(data @ sign + sp.csr_array(ones)) if sp.issparse(data) else data @ sign + ones


def _one_hot(X: Any, features: Sequence[Attribute]) -> tuple[Any, list[str]]:
    """Every feature of more than two values as one column for each of them, behind the others."""
    several = [(j, values) for j, feature in enumerate(features) if len(values := feature.values or ()) > 2]
    others = np.setdiff1d(np.arange(len(features)), [j for j, _ in several])
    names = [features[j].name for j in others]
    blocks = [X[:, others]]
    for j, values in several:
        codes = X[:, [j]].toarray() if sp.issparse(X) else X[:, [j]]
        blocks.append((codes == np.arange(len(values))).astype(np.float64))
        names += [f"{features[j].name}={value}" for value in values]
    return (sp.csr_array(sp.hstack(blocks)) if sp.issparse(X) else np.hstack(blocks)), names


def _truth(data: Any, labels: Sequence[Attribute], position: dict[str, int], path: Path) -> np.ndarray:
    columns = data[:, [position[label.name] for label in labels]]
    numbers = columns.toarray() if sp.issparse(columns) else columns
    for j, label in enumerate(labels):
        if label.values is not None and set(label.values) != {"0", "1"}:
            raise ValueError(
                f"{path}: label {label.name!r} has values {', '.join(label.values[:5])}, expected 0 and 1; "
                f"is it a feature that the XML names by mistake?"
            )
        if (bad := np.flatnonzero((numbers[:, j] != 0) & (numbers[:, j] != 1))).size:
            raise ValueError(f"{path}: label {label.name!r} is {numbers[bad[0], j]:g} in row {bad[0]}, expected 0 or 1")
    return numbers.astype(np.uint8)
