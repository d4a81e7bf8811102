"""Rows of the CSV files that runs write, finished or still going."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fl_ddp.errors import ConfigError


@contextmanager
def written_rows(path: Path) -> Iterator[list[dict[str, str]]]:
    """Rows of a file, none if there is no such file; a last one that is being written is left out.

    Raises:
        ConfigError: the file is not what a run writes, which may show where its rows are used.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True) if path.is_file() else []
        yield list(csv.DictReader(line for line in lines if line.endswith("\n")))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(path, f"is not what a run writes ({error or type(error).__name__})") from error
