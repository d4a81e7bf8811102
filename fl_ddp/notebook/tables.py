"""The tables that a run leaves, as rows."""

from __future__ import annotations

from pathlib import Path

from fl_ddp.results.written_rows import written_rows

Cell = float | str | None

_WORDS = "class"
"""A column of names, whatever they look like; all others are of numbers."""


def rows_of(file: Path) -> list[dict[str, Cell]]:
    """The rows of a table, so far as they are whole; whole numbers stay whole, empty cells are None.

    Raises:
        ConfigError: the file is not what a run writes.
    """
    with written_rows(file) as rows:
        return [{name: _cell(name, cell) for name, cell in row.items()} for row in rows]


def as_frame(rows: list[dict[str, Cell]]) -> object:
    """A pandas frame where pandas is there, else the rows."""
    try:
        from pandas import DataFrame, to_numeric  # type: ignore[import-untyped]
    except ImportError:
        return rows
    return DataFrame(rows).apply(lambda column: column if column.name == _WORDS else to_numeric(column))


def _cell(name: str, text: str) -> Cell:
    if not text or name == _WORDS:
        return text or None
    return int(text) if text.lstrip("-").isdigit() else float(text)
