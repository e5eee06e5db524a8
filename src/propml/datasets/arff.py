"""ARFF files, dense or sparse: a header of attributes, then one row per line.

The format is described at https://waikato.github.io/weka-wiki/formats_and_processing/arff_stable/. Nominal values
become their position in the declaration, which is how a sparse row means them: what it leaves out is position 0.
"""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from propml.datasets.arff_header import Attribute, read_header, without_comment
from propml.datasets.arff_rows import Row, read_rows

__all__ = ["Arff", "Attribute", "read_arff"]


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
    lines = _read_text(path).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    relation, attributes, start = read_header(lines, path)
    rows = [
        Row(number, text)
        for number, line in enumerate(lines[start:], start + 1)
        if (text := without_comment(line).strip())
    ]
    if not rows:
        raise ValueError(f"{path} has no rows after @data; the file may be truncated")
    return Arff(relation, attributes, read_rows(rows, attributes, path))


def _read_text(path: Path) -> str:
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{path} is not a complete gzip file ({error}); fetch or copy it again") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # Weka writes the encoding of the machine it ran on
