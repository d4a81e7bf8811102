"""A CSV file that grows with the rounds of a run, of which a checkpoint knows what belongs to it."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import writing

State = Mapping[str, object]
"""What a checkpoint stores of a file: its size in bytes and their sha256."""


class AppendedCsv:
    """The open file. Floats are written such that reading gives the same bits."""

    def __init__(self, path: Path, columns: Sequence[str], kept: bytes = b"") -> None:
        """Start a file, or cut an existing one back.

        Args:
            path: of the file.
            columns: their names.
            kept: what stays of an existing file.

        Raises:
            RunError: it cannot be written.
        """
        self._path, self._columns = path, tuple(columns)
        self._size, self._sha256 = len(kept), hashlib.sha256(kept)
        self._unwritten = b""
        with writing(path):
            # so that a row that was reported survives a kill, and a write that failed leaves nothing for the next one
            self._file = path.open("ab", buffering=0)
            self._file.truncate(self._size)
        if not kept:
            self.append([dict(zip(self._columns, self._columns, strict=True))])

    @classmethod
    def opened(
        cls, path: Path, columns: Sequence[str], state: State | None
    ) -> tuple[AppendedCsv, Iterator[dict[str, str]]]:
        """Start a file, or go on behind what a checkpoint knows of it; later rows are cut off.

        Args:
            path: of the file.
            columns: as when the file was started.
            state: of the checkpoint; None where there is none, or it knows nothing of the file.

        Returns:
            the file, and the rows in it, one after the other: all of a long run have no room.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        kept, rows = _kept(path, columns, state) if state else (b"", iter(()))
        return cls(path, columns, kept), rows

    def append(self, rows: Iterable[Mapping[str, object]]) -> None:
        """Add rows, by column, at once.

        Raises:
            RunError: they cannot be written; flush(), or the next rows, try it again.
        """
        text = io.StringIO()
        csv.DictWriter(text, self._columns, lineterminator="\n").writerows(rows)
        self._unwritten += text.getvalue().encode()
        self.flush()

    def flush(self) -> None:
        """Write what could not be written before; to be called before a checkpoint.

        Raises:
            RunError: it still cannot.
        """
        lines = memoryview(self._unwritten)
        with writing(self._path):
            os.ftruncate(self._file.fileno(), self._size)
            while lines:
                lines = lines[self._file.write(lines) :]
        self._size += len(self._unwritten)
        self._sha256.update(self._unwritten)
        self._unwritten = b""

    def state(self) -> dict[str, object]:
        """What a checkpoint stores."""
        return {"bytes": self._size, "sha256": self._sha256.hexdigest()}

    def sync(self) -> None:
        """Make what was appended survive a loss of power; another thread may do so.

        Raises:
            RunError: it cannot be written.
        """
        with writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file.

        Raises:
            RunError: it cannot be written.
        """
        with writing(self._path):
            self._file.close()


def _kept(path: Path, columns: Sequence[str], state: State) -> tuple[bytes, Iterator[dict[str, str]]]:
    """What of a file a checkpoint knows, and the rows in it; raises ConfigError as opened() does."""
    size = state["bytes"]
    assert isinstance(size, int)
    try:
        with path.open("rb") as file:
            kept = file.read(size)
    except OSError as error:
        raise ConfigError(path, f"cannot be read ({error.strerror}), the run cannot go on without it") from error
    if len(kept) < size:
        raise ConfigError(path, f"was cut short, {len(kept)} bytes are left of the {size} the checkpoint knows")
    rows = csv.DictReader(io.StringIO(kept.decode(errors="replace"), newline=""))
    if hashlib.sha256(kept).hexdigest() != state["sha256"]:
        raise ConfigError(path, f"was edited, its first {size} bytes are not those the checkpoint knows")
    if tuple(rows.fieldnames or ()) != tuple(columns):
        what = "was begun by another version, or a method that reports other numbers, with other columns"
        raise ConfigError(path, f"{what}; the run cannot go on with this one")
    return kept, rows
