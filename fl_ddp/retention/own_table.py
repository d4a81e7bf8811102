"""own_tasks.csv: how what each client has does on its own test samples of its tasks, at the end of each and the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import NamedTuple

from fl_ddp.results.appended_csv import AppendedCsv, State

COLUMNS = ("round", "task_trained", "client", "task_tested", "test_samples", "accuracy")


class OwnTask(NamedTuple):
    """How what a client has does on its own test samples of a task, from 1; there are some."""

    client: int
    task: int
    test_samples: int
    accuracy: float


class OwnMatrices(dict[int, dict[int, list[float]]]):
    """Of each client the accuracies on the tasks so far, as matrix has them."""

    def take(self, row: Mapping[str, str | float]) -> None:
        """Take in a row of the file; where a task is trained on, a later end of it counts."""
        trained, client, tested, accuracy = (
            row[name] for name in ("task_trained", "client", "task_tested", "accuracy")
        )
        matrix = self.setdefault(int(client), {})
        matrix.setdefault(int(trained), [nan] * int(trained))[int(tested) - 1] = float(accuracy)


class OwnTaskTable:
    """The open own_tasks.csv of a run.

    Attributes:
        clients: accuracies of each client by the task trained last.
        newest: the round of the newest rows; -1 if there are none.
    """

    def __init__(self, path: Path, state: State | None) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self.file, rows = AppendedCsv.opened(path, COLUMNS, state)
        self.clients, self.newest = OwnMatrices(), -1
        for row in rows:
            self.newest = int(row["round"])
            self.clients.take(row)

    def add(self, finished: int, trained: int, tasks: Iterable[OwnTask]) -> None:
        """Add the end of a task, or of the run within one.

        Args:
            finished: number of finished rounds.
            trained: the task, from 1.
            tasks: of clients.

        Raises:
            RunError: they cannot be written.
        """
        rows: list[dict[str, float]] = [dict(zip(COLUMNS, (finished, trained, *each), strict=True)) for each in tasks]
        self.newest = finished
        for row in rows:
            self.clients.take(row)
        self.file.append(rows)
