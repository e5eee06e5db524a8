"""What several processes on one folder share: text that only grows, by whole blocks of JSON lines, and claims on cells.

Any of them may be killed at any time: half a block is ignored, and a claim is a locked file, so that it ends with the
process that holds it.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from propml.atomic_files import lock_file, locked, naming, sync_folder, write_all
from propml.jsonable import jsonable

JsonRow = dict[str, Any]


class BlockFile:
    """JSON lines that grow by blocks; the last line of a block counts its lines and has their checksum.

    Reading needs neither the lock nor the right to write: half a block and one that was changed are ignored. Appending
    first cuts off half a block, which only a writer that was killed can have left behind. The file need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._blocks: list[list[JsonRow]] = []
        self._end = 0  # of the last complete block, in bytes

    def blocks(self) -> list[list[JsonRow]]:
        """Every complete block, in the order in which they were written, by whomever."""
        size = self.path.stat().st_size if self.path.exists() else 0
        if size < self._end:  # it was removed or replaced
            self._blocks, self._end = [], 0
        if size > self._end:
            self._read_on()
        return self._blocks

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        with self.locked() as add:
            add(rows)

    @contextmanager
    def locked(self) -> Iterator[Callable[[Sequence[Mapping[str, Any]]], None]]:
        """Hold the file's lock; hands out the function that adds a block, so that one can look before one adds."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            lock_file(descriptor)
            if new:
                sync_folder(self.path.parent)
            self.blocks()
            if os.fstat(descriptor).st_size > self._end:
                os.ftruncate(descriptor, self._end)
            yield lambda rows: self._append(descriptor, rows)
        finally:
            os.close(descriptor)

    def _append(self, descriptor: int, rows: Sequence[Mapping[str, Any]]) -> None:
        last = {**rows[-1], "block": [len(rows), _digest(rows)]}
        content = b"".join(json_line(row) for row in [*rows[:-1], last])
        if self._end and os.pread(descriptor, 1, self._end - 1) != b"\n":  # an editor has removed the last newline
            content = b"\n" + content
        try:
            with naming(self.path):
                write_all(descriptor, content)
                os.fsync(descriptor)
        except BaseException:
            os.ftruncate(descriptor, self._end)
            raise

    def _read_on(self) -> None:
        """Take in what was written since the last look."""
        rows: list[JsonRow | None] = []
        with self.path.open("rb") as file:
            file.seek(self._end)
            for line in filter(bytes.strip, file):
                row: Any = None
                with suppress(ValueError, RecursionError):
                    row = json.loads(line)
                rows.append(row if isinstance(row, dict) else None)
                mark = (rows[-1] or {}).pop("block", None)
                if mark is not None:
                    self._end = file.tell()
                    self._take(rows, mark)
                    rows = []

    def _take(self, rows: list[JsonRow | None], mark: Any) -> None:
        # Files of earlier versions have the length alone.
        length, digest = mark if isinstance(mark, list) and len(mark) == 2 else (mark, None)
        block = [row for row in rows[-length:] if row is not None] if type(length) is int and length > 0 else []
        whole = bool(block) and len(block) == length and digest in (None, _digest(block))
        if whole:
            self._blocks.append(block)
        if not whole or len(rows) > length:
            line = self.path.read_bytes()[: self._end].count(b"\n") + 1
            warnings.warn(
                f"{self.path} is damaged before line {line}: lines there belong to no whole block and are "
                f"left out; what they told is computed again by the next run",
                stacklevel=2,
            )


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row as one line of strict JSON; a number that is not finite becomes null, half a character its escape."""
    text = json.dumps(jsonable(row, lossy=True), ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode(errors="backslashreplace")


def _digest(rows: Sequence[Mapping[str, Any]]) -> str:
    """Of what the rows of a block say, however their lines are written."""
    return hashlib.sha256(b"".join(map(json_line, rows))).hexdigest()[:16]


class Claims:
    """The cells that this process works on: locked files in a folder; one that nobody locks means nothing."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._held: dict[str, ExitStack] = {}

    def take(self, key: str) -> bool:
        """Claim a cell; false where somebody else, or this very object, has claimed it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as claim:
            mine = claim.enter_context(locked(self.folder / key, wait=False))
            if mine:
                # Removed while it is locked; who has opened it by then finds the cell settled.
                claim.callback((self.folder / key).unlink, missing_ok=True)
                self._held[key] = claim.pop_all()
        return mine

    def release(self, key: str) -> None:
        """Give a cell back; nothing happens where it is not held."""
        if key in self._held:
            self._held.pop(key).close()

    def release_all(self) -> None:
        """Give everything back, and clear away the files of holders that are dead."""
        for key in list(self._held):
            self.release(key)
        for path in self.folder.glob("*"):
            if self.take(path.name):
                self.release(path.name)
