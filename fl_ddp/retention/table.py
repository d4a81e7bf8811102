"""tasks.csv: accuracy of the global model on each task's test set, at every evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fl_ddp.results.appended_csv import AppendedCsv, State

COLUMNS = ("round", "task_trained", "task_tested", "test_samples", "accuracy")


class TaskTable:
    """The open tasks.csv of a run.

    Attributes:
        matrix: accuracies at the newest evaluation in each task, by the task; see retention.matrix.
        rounds: of all evaluations so far, with their accuracies.
    """

    def __init__(self, path: Path, state: State | None, sizes: Sequence[int]) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Args:
            path: of the file.
            state: what the checkpoint knows of it.
            sizes: numbers of test samples of all tasks.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self._sizes = sizes
        self.file, rows = AppendedCsv.opened(path, COLUMNS, state)
        self.matrix: dict[int, tuple[float, ...]] = {}
        self.rounds: dict[int, tuple[float, ...]] = {}
        for row in rows:
            self._take(int(row["round"]), int(row["task_trained"]), float(row["accuracy"]))

    def add(self, finished: int, task: int, accuracies: Sequence[float]) -> None:
        """Add an evaluation.

        Args:
            finished: number of finished rounds.
            task: that was trained last, from 1; 0 before any.
            accuracies: on the test sets of the tasks, from the first.

        Raises:
            RunError: they cannot be written.
        """
        for accuracy in accuracies:
            self._take(finished, task, accuracy)
        values = (
            (finished, task, tested, self._sizes[tested - 1], accuracy) for tested, accuracy in enumerate(accuracies, 1)
        )
        self.file.append(dict(zip(COLUMNS, row, strict=True)) for row in values)

    def _take(self, finished: int, task: int, accuracy: float) -> None:
        self.rounds[finished] = (*self.rounds.get(finished, ()), accuracy)
        self.matrix[task] = self.rounds[finished]
