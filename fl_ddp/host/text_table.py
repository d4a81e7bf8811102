"""A table of texts, with aligned columns for the terminal, as Markdown or as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_IN_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", ">=": r"$\ge$",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", **{each: rf"\{each}" for each in "&%$#_{}"},
}  # fmt: skip
"""What is written otherwise there."""
_OTHERWISE = re.compile(r"(?<![\w.])-(?=\d)|" + "|".join(map(re.escape, _IN_LATEX)))


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

    def latex(self, bold: Collection[tuple[int, int]] = ()) -> list[str]:
        """Lines of a tabular, ruled by the package booktabs; some cells, by row and column from 0, are bold."""
        columns = "".join("l" if column < self.flush_left else "r" for column in range(len(self.head)))
        head, *rows = (list(map(_in_latex, row)) for row in (self.head, *self.rows))
        for row, column in bold:
            rows[row][column] = rf"\textbf{{{rows[row][column]}}}"
        lines = [f"{_begun(' & '.join(cells))} \\\\" for cells in (head, *rows)]
        return [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
        ]


def _in_latex(text: str) -> str:
    return _OTHERWISE.sub(lambda found: _IN_LATEX.get(found[0], "$-$"), text)


def _begun(row: str) -> str:
    """A row that the end of the one before, or a rule, does not take for an argument of its own."""
    return f"{{}}{row}" if row.startswith(("[", "*")) else row
