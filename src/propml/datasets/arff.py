"""ARFF files, dense or sparse: a header of attributes, then one row per line.

The format is described at https://waikato.github.io/weka-wiki/formats_and_processing/arff_stable/. Nominal values
become their position in the declaration, which is how a sparse row means them: what it leaves out is position 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from propml.datasets.arff_header import Attribute, read_header, without_comment
from propml.datasets.arff_rows import Row, read_rows
from propml.file_errors import reading
from propml.unpacking import open_unpacked

__all__ = ["Arff", "Attribute", "decoded", "read_arff"]


@dataclass(frozen=True, eq=False)
class Arff:
    """The content of an ARFF file.

    Attributes
    ----------
    relation : str
    attributes : tuple of Attribute
    data : ndarray or csr_array of float64, shape (n_rows, n_attributes)
        Nominal columns hold positions in :attr:`Attribute.values`.
    """

    relation: str
    attributes: tuple[Attribute, ...]
    data: np.ndarray | sp.csr_array


def read_arff(path: str | Path) -> Arff:
    """Read an ARFF file, plain or gzip-compressed.

    A missing value (``?``), a value that is not of its attribute's type and a row of the wrong length raise a
    ``ValueError`` that names the line and the attribute.
    """
    path = Path(path)
    with reading(path, "ARFF file", "fetch or copy it again"):
        return _read(path)


def decoded(content: bytes) -> tuple[str, str]:
    """The text of an ARFF file and its encoding: Weka writes that of the machine it ran on."""
    try:
        return content.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"


def _read(path: Path) -> Arff:
    with open_unpacked(path) as file:
        text, _ = decoded(file.read())
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    relation, attributes, start = read_header(lines, path)
    rows = [
        Row(number, text)
        for number, line in enumerate(lines[start:], start + 1)
        if (text := without_comment(line).strip())
    ]
    if not rows:
        raise ValueError(f"{path} has no rows after @data; the file may be truncated")
    return Arff(relation, attributes, read_rows(rows, attributes, path))
