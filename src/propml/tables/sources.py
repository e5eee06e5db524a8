"""Files by their format: as columns (CSV, TSV, Parquet, ARFF) or as a matrix (npz, svmlight, ``.mat``)."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from propml.file_errors import reading
from propml.messages import argument
from propml.tables.arff import ArffTable
from propml.tables.arrays import ArrayFile, read_array_file
from propml.tables.parquet import ParquetTable
from propml.tables.table import Table
from propml.tables.text import TextTable

__all__ = ["FORMATS", "Source", "format_of", "open_source"]

FORMATS = {
    ".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet", ".npz": "npz",
    ".svm": "svmlight", ".svmlight": "svmlight", ".libsvm": "svmlight", ".arff": "arff", ".mat": "mat",
}  # fmt: skip

Source: TypeAlias = Table | ArrayFile


def format_of(path: Path) -> str:
    """The format that the name of a file tells."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if not suffixes or suffixes[-1] not in FORMATS:
        raise ValueError(f"{path}: the format is not clear from the name; use one of {', '.join(FORMATS)}")
    return FORMATS[suffixes[-1]]


def open_source(
    path: str | Path,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    file_format: str | None = None,
) -> Source:
    """A file as columns or as a matrix, by its format.

    Parameters
    ----------
    path : path
        CSV, TSV (both also ``.gz``), Parquet, ARFF, npz, svmlight or ``.mat``.
    delimiter, encoding : str, optional
        For text tables; by default ``,`` (``.tsv``: a tab) and UTF-8.
    file_format : str, optional
        ``"csv"``, ``"parquet"``, …, where the name of the file does not tell.
    """
    path = Path(path)
    kind = file_format or format_of(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist or is not a file")
    if kind not in ("csv", "tsv") and (delimiter is not None or encoding is not None):
        raise ValueError(
            f"{path}: {argument('delimiter')} and {argument('encoding')} belong to CSV and TSV files; leave them out"
        )
    with reading(path, f"{kind} file"):
        if kind in ("csv", "tsv"):
            return TextTable(path, delimiter or ("\t" if kind == "tsv" else ","), encoding)
        if kind == "parquet":
            return ParquetTable(path)
        return ArffTable(path) if kind == "arff" else read_array_file(path, kind)
