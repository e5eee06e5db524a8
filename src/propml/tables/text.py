"""CSV and TSV files of any size: columns kept as compact text, and copies streamed from the file itself."""

import codecs
import csv
import gzip
import io
from array import array
from collections.abc import Iterator, Sequence
from itertools import compress, islice
from pathlib import Path
from typing import Any

from propml.atomic_files import replacing
from propml.file_errors import reading
from propml.messages import argument
from propml.output import LEADS, neutralised, original
from propml.tables.table import Edits, Extra, Keep, Table, check_names, checked_column
from propml.unpacking import is_gzipped, open_unpacked

# Between the cells of a block; a block with a cell that contains it is kept as it is.
SEPARATOR = "\x1f"
BLOCK_ROWS = 8192
ENCODINGS = {"utf-8": "UTF-8", "cp1252": "Windows-1252", "latin-1": "Latin-1"}
OTHER_DELIMITERS = (";", "\t", ",", "|")
LOOKED_AT = LEADS | {"'"}
# A cell may be a whole document; csv counts in a C long, which on Windows holds no more.
csv.field_size_limit(2**31 - 1)


class TextTable(Table):
    """A text table with a header line, by columns; also gzip-compressed.

    A column is kept as one text per block of rows, which takes about a byte per character where a list of cells takes
    fifty bytes more per cell. What :func:`propml.output.neutralised` did to a cell is undone.
    """

    def __init__(self, path: Path, delimiter: str = ",", encoding: str | None = None) -> None:
        if len(delimiter) != 1:
            raise ValueError(f"{path}: the delimiter is {delimiter!r}; give the one character between two cells")
        self.path, self._delimiter, self._encoding = path, delimiter, encoding or "utf-8"
        try:
            "".encode(self._encoding)
        except LookupError as error:
            raise ValueError(f"{path}: the encoding {encoding!r} is not known; utf-8, cp1252 and utf-16 are") from error
        with open_unpacked(path) as file:
            first = file.readline(2**20)
        if first.startswith(codecs.BOM_UTF8) and codecs.lookup(self._encoding).name == "utf-8":
            self._encoding = "utf-8-sig"
        self._line_end = "\r\n" if b"\r" in first[-3:] else "\n"
        rows = self._rows()
        _, header = next(rows)
        self.names = tuple(header)
        lines = array("q")
        self._blocks: list[list[str | tuple[str, ...]]] = []
        while block := list(islice(rows, BLOCK_ROWS)):
            lines.extend(line for line, _ in block)
            self._blocks.append([_packed(column) for column in zip(*(row for _, row in block), strict=True)])
        self.lines = lines
        self.n_rows = len(lines)
        if not self.n_rows:
            raise ValueError(f"{path} has a header and no rows")

    def cells(self, name: str) -> list[str]:
        column = self.names.index(checked_column(self, name))
        return [cell for block in self._blocks for cell in _unpacked(block[column])]

    def copy(self, path: Path, edits: Edits = None, keep: Keep = None, extra: Extra = ()) -> None:
        changed = {self.names.index(checked_column(self, name)): edit for name, edit in (edits or {}).items()}
        rows = self._rows()
        _, header = next(rows)
        opened = gzip.open if is_gzipped(self.path) else open
        with replacing(path) as beside, opened(beside, "wt", encoding=self._encoding, newline="") as file:
            write = csv.writer(file, delimiter=self._delimiter, lineterminator=self._line_end)
            write.writerow(map(neutralised, header))
            start = 0
            while block := [row for _, row in islice(rows, BLOCK_ROWS)]:
                for j, edit in changed.items():
                    for row, cell in zip(block, edit(start, [original(row[j]) for row in block]), strict=True):
                        row[j] = neutralised(cell_text(cell))
                kept = block if keep is None else compress(block, keep[start : start + len(block)])
                # Nearly all cells need no more than a look at their first character.
                write.writerows([neutralised(original(c)) if c[:1] in LOOKED_AT else c for c in row] for row in kept)
                start += len(block)
            write.writerows([neutralised(cell_text(row.get(name))) for name in self.names] for row in extra)

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Line number and cells of the header and of every row that is not blank, with the checks of a table."""
        path, delimiter = self.path, self._delimiter
        with reading(path, "text table"), io.TextIOWrapper(open_unpacked(path), self._encoding, newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            try:
                header = [original(name.strip()) for name in next(reader, [])]
                check_names(header, path)
                others = [sign for sign in OTHER_DELIMITERS if sign != delimiter and sign in header[0]]
                if len(header) == 1 and others:
                    told = f"the delimiter {delimiter!r} occurs nowhere in the first line of {path}"
                    raise ValueError(f"{told}, and {others[0]!r} does; choose {argument('delimiter', others[0])}")
                yield reader.line_num, header
                width = len(header)
                for row in reader:
                    if len(row) == width:
                        yield reader.line_num, row
                    elif row:
                        told = f"line {reader.line_num} has {len(row)} cells, the header has {width}"
                        raise ValueError(f"{path}: {told}; quote cells that contain {delimiter!r}")
            except csv.Error as error:
                raise ValueError(f"{path}: line {reader.line_num} is not valid CSV ({error})") from error
            except UnicodeError:
                raise ValueError(_encoding_sentence(path, self._encoding)) from None


def write_csv(path: Path, header: Sequence[str], rows: Iterator[Sequence[Any]], delimiter: str = ",") -> None:
    """A new CSV file, UTF-8, that no spreadsheet takes for a program."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
        write = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        write.writerow(map(neutralised, header))
        write.writerows([neutralised(cell_text(cell)) for cell in row] for row in rows)


def cell_text(cell: Any) -> str:
    """A value as a cell; nothing is an empty cell."""
    return "" if cell is None else str(cell)


def _packed(column: tuple[str, ...]) -> str | tuple[str, ...]:
    text = SEPARATOR.join(column)
    return column if text.count(SEPARATOR) != len(column) - 1 else text


def _unpacked(block: str | tuple[str, ...]) -> Sequence[str]:
    cells = block.split(SEPARATOR) if isinstance(block, str) else block
    needs_look = not isinstance(block, str) or block[:1] == "'" or SEPARATOR + "'" in block
    return [original(cell) for cell in cells] if needs_look else cells


def _encoding_sentence(path: Path, encoding: str) -> str:
    """Where a text stops being what it was taken for, and what it probably is."""
    with open_unpacked(path) as file:
        content = file.read()
    at = _undecodable(content, encoding) or 0
    line = content.count(b"\n", 0, at) + 1
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or content.count(b"\0") > len(content) // 4:
        guess = "utf-16"
    else:
        guess = next(name for name in ENCODINGS if _undecodable(content, name) is None)
    other = f"save it as UTF-8, or give {argument('encoding', guess)}"
    advice = f"leave out {argument('encoding')}" if guess == "utf-8" else other
    told = f"{path} is not {encoding.upper().removesuffix('-SIG')} text: byte 0x{content[at]:02X} at position {at}"
    return f"{told} (line {line}); it looks like {ENCODINGS.get(guess, 'UTF-16')}: {advice}"


def _undecodable(content: bytes, encoding: str) -> int | None:
    """The position of the first byte that cannot be read so, None where all can."""
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        return error.start
    return None
