"""CSV files of the user's that begin with a head, of clients' counts, factors or rounds."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from fl_ddp.errors import ConfigError, one_line


def read_rows(path: Path, refused: Callable[[str], ConfigError]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a CSV file, empty ones left out; what is refused, an error says with these words."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise refused(f"cannot be read as a table ({one_line(error)})") from None
    if not rows:
        raise refused("is empty")
    return rows[0], rows[1:]


def rows_under(path: Path, head: list[str], refused: Callable[[str], ConfigError]) -> list[list[str]]:
    """The rows of a CSV file that has such a head; what is refused, an error says as of read_rows."""
    found, rows = read_rows(path, refused)
    if found != head:
        raise refused(f"begins with {','.join(found)!r}")
    return rows


def is_count(word: str) -> bool:
    """Whether a text is a whole number from 0 up, below 10**9."""
    return word.isdecimal() and word.isascii() and len(word) < 10
