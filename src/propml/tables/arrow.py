"""Parquet, Feather and Arrow files, or a folder of them: one column at a time, in batches; copies are streamed.

A folder that Hugging Face ``datasets`` saved is a folder of Arrow files. Its class labels are numbers, which are read
as their names and written back as numbers.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from propml.atomic_files import replacing
from propml.extras import require
from propml.file_errors import reading
from propml.messages import argument
from propml.tables.table import Cells, Edits, Extra, Keep, Table, check_names, checked_column
from propml.unpacking import TooLarge, check_unpacked

BATCH_ROWS = 65_536
ENDINGS = (".parquet", ".pq", ".feather", ".arrow", ".ipc")


class ArrowTable(Table):
    """Files of one schema by columns; nothing is read before it is asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts = _files_in(path) if path.is_dir() else [path]
        first = self._parts[0]
        self.suffix = first.suffix  #: of a copy, which is one file
        self._schema: Any = None
        self.n_rows = 0
        for part in self._parts:
            with _opened(part) as (schema, n_rows, batches):
                self.n_rows += sum(map(len, batches(None))) if n_rows is None else n_rows
            if self._schema is not None and not schema.equals(self._schema):
                raise ValueError(f"{path}: {part.name} has other columns than {first.name}; give them the same")
            self._schema = schema
        self.names = tuple(self._schema.names)
        check_names(self.names, path)
        if not self.n_rows:
            raise ValueError(f"{path} has no rows")
        with _reading(path):
            self._classes = class_names(json.loads((self._schema.metadata or {}).get(b"huggingface", b"{}")))

    def cells(self, name: str) -> Cells:
        checked_column(self, name)
        with _reading(self.path):
            parts = [cells_of(batch.column(batch.schema.get_field_index(name))) for batch in self._batches([name])]
            if (count := sum(map(len, parts))) != self.n_rows:
                raise ValueError(f"column {name!r} has {count} of its {self.n_rows} rows")
            names = self._classes.get(name)
            are_arrays = names is None and all(isinstance(part, np.ndarray) for part in parts)
            if are_arrays and len({part.shape[1:] for part in parts}) == 1:
                return np.concatenate(parts)
            cells = (cell for part in parts for cell in (part.tolist() if isinstance(part, np.ndarray) else part))
            return [named(cell, names) for cell in cells]

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        pyarrow = require("pyarrow", "data")
        schema = self._schema
        for name, edit in (edits or {}).items():
            if name not in schema.names:  # a new column, of the type that its cells have
                kind = pyarrow.array(edit(0, [None] * self.n_rows)).type
                schema = schema.append(pyarrow.field(name, kind)).remove_metadata()
        with replacing(path) as beside, _writer(beside, schema, _kind_of(self._parts[0])) as file:
            start = 0
            for batch in self._batches():
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                for name, edit in (edits or {}).items():
                    cells = columns[name].to_pylist() if name in columns else [None] * len(batch)
                    names = self._classes.get(name)
                    changed = edit(start, [named(cell, names) for cell in cells])
                    numbers = [_numbered(cell, names) for cell in changed]
                    columns[name] = pyarrow.array(numbers, type=schema.field(name).type)
                made = pyarrow.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
                file.write_batch(made if keep is None else made.filter(keep[start : start + len(batch)]))
                start += len(batch)
            if extra:
                added = []
                for field in schema:  # text is cast: an identifier may be a number in the file
                    cells = [row.get(field.name) for row in extra]
                    are_texts = any(isinstance(cell, str) for cell in cells)
                    added.append(pyarrow.array(cells, pyarrow.string() if are_texts else field.type).cast(field.type))
                file.write_batch(pyarrow.RecordBatch.from_arrays(added, schema=schema))

    def _batches(self, columns: list[str] | None = None) -> Iterator[Any]:
        """Blocks of rows; what goes wrong while they are read is about the file, what their reader does is not."""
        for part in self._parts:
            unpacked = 0
            with _opened(part) as (_, _, batches):
                for batch in batches(columns):
                    unpacked += batch.nbytes
                    check_unpacked(part, unpacked, known=False)
                    yield batch


@contextmanager
def _opened(part: Path) -> Iterator[tuple[Any, int | None, Callable[[list[str] | None], Iterator[Any]]]]:
    """The schema of a file, how many rows it has where it says so, and its batches with these columns or all."""
    kind = _kind_of(part)
    with _reading(part), part.open("rb") as handle:  # pyarrow keeps a file open that it could not make sense of
        if kind == "Parquet":
            with require("pyarrow.parquet", "data").ParquetFile(handle) as file:
                _check_size(part, file.metadata)
                yield file.schema_arrow, file.metadata.num_rows, partial(file.iter_batches, BATCH_ROWS, None)
        else:
            ipc = require("pyarrow.ipc", "data")
            file = ipc.open_file(handle) if kind == "Feather" else ipc.open_stream(handle)
            yield file.schema, None, partial(_arrow_batches, file)


def _arrow_batches(file: Any, columns: list[str] | None) -> Iterator[Any]:
    """Batches of a file that has an index of them (Feather), or of a stream (what Hugging Face saves)."""
    numbers = getattr(file, "num_record_batches", None)
    for batch in file if numbers is None else map(file.get_batch, range(numbers)):
        batch.validate(full=True)  # these files hold buffers as they are in memory, and nothing else looks at them
        yield batch if columns is None else batch.select(columns)


def _kind_of(part: Path) -> str:
    """What a file is by its first bytes; where they say nothing, by its name."""
    with part.open("rb") as file:
        start = file.read(6)
    if start.startswith(b"PAR1") or (start != b"ARROW1" and part.suffix.lower() in (".parquet", ".pq")):
        return "Parquet"
    return "Feather" if start == b"ARROW1" or part.suffix.lower() == ".feather" else "Arrow"


def _writer(path: Path, schema: Any, kind: str) -> Any:
    if kind == "Parquet":
        return require("pyarrow.parquet", "data").ParquetWriter(path, schema)
    ipc = require("pyarrow.ipc", "data")
    return (ipc.new_file if kind == "Feather" else ipc.new_stream)(path, schema)


def _files_in(folder: Path) -> list[Path]:
    """The tables of a folder, in the order that it says or by their names."""
    if (splits := folder / "dataset_dict.json").is_file():
        with reading(splits, "list of splits"):
            names = [str(name) for name in json.loads(splits.read_bytes())["splits"]]
        raise ValueError(f"{folder} holds the splits {', '.join(names)}; name the folder of one: {folder / names[0]}")
    if (state := folder / "state.json").is_file():
        with reading(state, "list of files"):
            files = [folder / Path(file["filename"]).name for file in json.loads(state.read_bytes())["_data_files"]]
    else:
        files = sorted(path for path in folder.iterdir() if path.suffix.lower() in ENDINGS)
    if not files:
        raise ValueError(f"{folder} is a folder without a Parquet, Feather or Arrow file; name one, or a file")
    return files


def class_names(told: Mapping[str, Any]) -> dict[str, list[str]]:
    """By column the names of class labels, in what Hugging Face writes into a schema.

    >>> class_names({"info": {"features": {"y": {"_type": "ClassLabel", "names": ["no", "yes"]}, "x": {}}}})
    {'y': ['no', 'yes']}
    """
    features = told.get("info", {}).get("features", {})
    kinds = {name: kind.get("feature", kind) for name, kind in features.items() if isinstance(kind, dict)}
    classes = {name: kind for name, kind in kinds.items() if isinstance(kind, dict) and "names" in kind}
    return {name: list(map(str, kind["names"])) for name, kind in classes.items() if kind.get("_type") == "ClassLabel"}


def named(cell: Any, names: Sequence[str] | None) -> Any:
    """Numbers of classes as their names, where there are some; -1 is a label that is missing."""
    if names is None:
        return cell
    if isinstance(cell, list):
        return [named(number, names) for number in cell]
    if cell is None or cell != cell or cell < 0:
        return None
    if cell >= len(names):
        raise ValueError(f"class {cell} is none of the {len(names)} classes that the file names")
    return names[int(cell)]


def _numbered(cell: Any, names: Sequence[str] | None) -> Any:
    if names is None:
        return cell
    if isinstance(cell, list):
        return [_numbered(name, names) for name in cell]
    return names.index(cell) if cell else None


def _reading(path: Path) -> AbstractContextManager[None]:
    kind = f"{_kind_of(path)} file" if path.is_file() else "table"
    return reading(path, kind, "it may be truncated: copy it again, or make it again")


def _check_size(path: Path, metadata: Any) -> None:
    """Refuse a file that would become too large, by what it declares: a run of one value is a few bytes."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    encoded = sum(group.total_byte_size for group in groups)
    try:
        check_unpacked(path, max(encoded, 8 * metadata.num_rows * metadata.num_columns))
    except TooLarge as error:
        raise TooLarge(f"{error}; or read the folder of it in parts, with {argument('stream', True)}") from None


def cells_of(column: Any) -> Any:
    """Numbers, dates and vectors of one length as arrays, which is much faster than cell by cell; the rest as lists."""
    pyarrow = require("pyarrow", "data")
    kinds = pyarrow.types
    if kinds.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if kinds.is_integer(kind) and column.null_count:
        try:
            return column.cast("float64").to_numpy(zero_copy_only=False)
        except pyarrow.ArrowInvalid:  # a float would change one of these whole numbers
            return column.to_pylist()
    if kinds.is_integer(kind) or kinds.is_floating(kind):
        return column.to_numpy(zero_copy_only=False)  # a missing number is NaN
    if kinds.is_date(kind) or kinds.is_timestamp(kind):
        return column.cast(pyarrow.timestamp("ms"), safe=False).to_numpy(zero_copy_only=False)
    is_list = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
    if is_list and (kinds.is_integer(kind.value_type) or kinds.is_floating(kind.value_type)):
        values = column.flatten()  # respects the slice that a batch may be, and leaves out missing lists
        lengths = set(column.value_lengths().to_pylist())
        if len(lengths) == 1 and not lengths <= {0, None} and not column.null_count and not values.null_count:
            return values.to_numpy(zero_copy_only=False).reshape(len(column), -1)
    return column.to_pylist()
