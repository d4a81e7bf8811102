"""cohorts.csv: which clients took part in each round."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fl_ddp.results.appended_csv import AppendedCsv, State

_COLUMNS = ("round", "client")


class CohortTable:
    """The open cohorts.csv of a run, a row for each client of a round."""

    def __init__(self, path: Path, state: State | None) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self.file, _ = AppendedCsv.opened(path, _COLUMNS, state)

    def add(self, finished: int, clients: Iterable[int]) -> None:
        """Add a round's clients.

        Raises:
            RunError: they cannot be written.
        """
        self.file.append({"round": finished, "client": each} for each in clients)
