"""Rows of the CSV files that runs write, finished or still going."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

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
            yield csv.DictReader(takewhile(lambda line: line.endswith("\n"), file))
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as error:
        raise ConfigError(path, f"is not what a run writes ({error or type(error).__name__})") from error
