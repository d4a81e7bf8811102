"""Rows of the CSV files that runs write, finished or still going."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fl_ddp.errors import ConfigError


@contextmanager
def written_rows(path: Path) -> Iterator[csv.DictReader[str]]:
    """Rows of a file, one after the other, none if there is no such file; a last one that is being written is left out.

    Raises:
        ConfigError: the file is not what a run writes, which may show where its rows are used.
    """
    try:
        # the names of classes are in its head, and may hold all that ends a line elsewhere
        with path.open(encoding="utf-8", newline="\n") if path.is_file() else io.StringIO() as file:
            # behind a line without its end nothing is read: the rest of it may come meanwhile
            yield _Whole(takewhile(lambda line: line.endswith("\n"), file))
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise ConfigError(path, f"is not what a run writes ({error or type(error).__name__})") from error


if TYPE_CHECKING:
    _Reader = csv.DictReader[str]
else:  # it is no generic class while it runs
    _Reader = csv.DictReader


class _Whole(_Reader):
    """Rows of as many cells as there are columns."""

    def __next__(self) -> dict[str | Any, str | Any]:
        """The next one; cells that are too many, or too few, are by None, or are None."""
        row = super().__next__()
        if None in row or None in row.values():
            raise ValueError(f"line {self.line_num} has not as many cells as the first one")
        return row
