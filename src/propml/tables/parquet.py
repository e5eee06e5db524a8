"""Parquet files: one column at a time, in batches; copies are streamed batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.tables.table import Cells, Edit, check_names, found
from propml.unpacking import check_unpacked

__all__ = ["ParquetTable"]

BATCH_ROWS = 65_536


class ParquetTable:
    """A Parquet file by columns; nothing is read before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: Sequence[int] = ()
        parquet = require("pyarrow.parquet", "data")
        # Our own handle, here and below: pyarrow keeps a file open that it could not make sense of.
        with self._reading(), path.open("rb") as handle, parquet.ParquetFile(handle) as file:
            _check_size(path, file.metadata)
            self._schema = file.schema_arrow
            self.n_rows = file.metadata.num_rows
        self.names = tuple(self._schema.names)
        check_names(self.names, path)
        if not self.n_rows:
            raise ValueError(f"{path} has no rows")

    def cells(self, name: str) -> Cells:
        found(self, name)
        with self._reading():
            parts = [_cells(batch.column(batch.schema.get_field_index(name))) for batch in self._batches([name])]
            if (count := sum(map(len, parts))) != self.n_rows:
                raise ValueError(f"column {name!r} has {count} of its {self.n_rows} rows")
        if all(isinstance(part, np.ndarray) for part in parts) and len({part.shape[1:] for part in parts}) == 1:
            return np.concatenate(parts)
        return [cell for part in parts for cell in (part.tolist() if isinstance(part, np.ndarray) else part)]

    def where(self, row: int, name: str) -> str:
        return f"{self.path}: row {row}, column {name!r}"

    def copy(
        self,
        path: Path,
        edits: Mapping[str, Edit] | None = None,
        keep: np.ndarray | None = None,
        extra: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        pyarrow = require("pyarrow", "data")
        parquet = require("pyarrow.parquet", "data")
        schema = self._schema
        with replacing(path) as beside, parquet.ParquetWriter(beside, schema) as write:
            start = 0
            for batch in self._batches():
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for name, edit in (edits or {}).items():
                    changed = edit(start, columns[found(self, name)].to_pylist())
                    columns[name] = pyarrow.array(list(changed), type=schema.field(name).type)
                made = pyarrow.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
                write.write_batch(made if keep is None else made.filter(keep[start : start + len(batch)]))
                start += len(batch)
            if extra:
                columns = {field.name: _added([row.get(field.name) for row in extra], field.type) for field in schema}
                write.write_table(pyarrow.table(columns, schema=schema))

    def _batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Blocks of rows; what goes wrong while they are read is about the file, what their reader does is not."""
        parquet = require("pyarrow.parquet", "data")
        unpacked = 0
        with self._reading(), self.path.open("rb") as handle, parquet.ParquetFile(handle) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                unpacked += batch.nbytes
                check_unpacked(self.path, unpacked, known=False)
                yield batch

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.path, "Parquet file", "it may be truncated: copy it again, or make it again")


def _check_size(path: Path, metadata: Any) -> None:
    """Refuse a file that would become too large, by what it declares: a run of one value is a few bytes."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    encoded = sum(group.total_byte_size for group in groups)
    check_unpacked(path, max(encoded, 8 * metadata.num_rows * metadata.num_columns))


def _added(texts: Sequence[str | None], kind: Any) -> Any:
    """Texts as a column of this type: an identifier may be a number in the file."""
    pyarrow = require("pyarrow", "data")
    if all(text is None for text in texts):
        return pyarrow.nulls(len(texts), kind)
    return pyarrow.array(texts, pyarrow.string()).cast(kind)


def _cells(column: Any) -> Any:
    """Numbers, dates and vectors of one length as arrays, which is much faster than cell by cell; the rest as lists."""
    kinds = require("pyarrow", "data").types
    kind = column.type
    if kinds.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if kinds.is_integer(kind) and column.null_count:
        return _numbers_with_gaps(column)
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return column.to_numpy(zero_copy_only=False)  # a missing number is NaN
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        return column.cast(require("pyarrow", "data").timestamp("ms"), safe=False).to_numpy(zero_copy_only=False)
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return _vectors(column)
    return column.to_pylist()


def _numbers_with_gaps(column: Any) -> Any:
    """Whole numbers as floats, or cell by cell where a float would change one of them."""
    pyarrow = require("pyarrow", "data")
    try:
        return column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    except pyarrow.ArrowInvalid:
        return column.to_pylist()


def _vectors(column: Any) -> Any:
    kinds = require("pyarrow", "data").types
    values = column.flatten()  # respects the slice that a batch may be, and leaves out missing lists
    is_number = kinds.is_integer(values.type) or kinds.is_floating(values.type)
    lengths = set(column.value_lengths().to_pylist()) if is_number else set()
    if column.null_count or values.null_count or len(lengths) != 1 or lengths <= {0, None}:
        return column.to_pylist()
    return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
