"""A table of texts, with aligned columns for the terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class TextTable:
    """Cells of a table.

    Attributes:
        head: names of the columns.
        rows: of which each has a cell for every column.
        flush_left: number of columns that begin under each other; the others, of numbers, end under each other.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    flush_left: int

    def aligned(self) -> list[str]:
        """Lines with a rule below the head."""
        widths = [max(map(len, column)) for column in zip(self.head, *self.rows, strict=True)]
        lines = []
        for row in (self.head, *self.rows):
            padded = (
                cell.ljust(width) if column < self.flush_left else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            lines.append("  ".join(padded).rstrip())
        return [lines[0], "-" * max(map(len, lines)), *lines[1:]]

    def markdown(self) -> list[str]:
        """Lines of a page."""
        rule = ["---" if column < self.flush_left else "---:" for column in range(len(self.head))]
        shown = [[cell.replace("|", "\\|") for cell in row] for row in (self.head, rule, *self.rows)]
        return [f"| {' | '.join(row)} |" for row in shown]
