"""tasks.csv: accuracy of the global model on each task's test set, at every evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from fl_ddp.results.appended_csv import AppendedCsv, State
from fl_ddp.results.metrics import Record
from fl_ddp.retention.matrix import average_accuracy, average_forgetting

COLUMNS = ("round", "task_trained", "task_tested", "test_samples", "accuracy")


class TasksSoFar(NamedTuple):
    """How a model does on the tasks up to the one that was trained last; before round 1 there is none.

    Attributes:
        accuracies: on each, from the first.
        average_accuracy: their mean.
        average_forgetting: of the tasks before the last; None where there is none.
    """

    accuracies: tuple[float, ...]
    average_accuracy: float | None
    average_forgetting: float | None


class TaskTable:
    """The open tasks.csv of a run.

    Attributes:
        matrix: accuracies at the newest evaluation in each task, by the task; see retention.matrix.
        rounds: all evaluations so far, by the number of finished rounds.
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
        self.rounds: dict[int, TasksSoFar] = {}
        for (finished, task), of in groupby(rows, lambda row: (int(row["round"]), int(row["task_trained"]))):
            self._take(finished, task, [float(row["accuracy"]) for row in of])

    def add(self, finished: int, task: int, accuracies: Sequence[float]) -> None:
        """Add an evaluation.

        Args:
            finished: number of finished rounds.
            task: that was trained last, from 1; 0 before any.
            accuracies: on the test sets of the tasks, from the first.

        Raises:
            RunError: they cannot be written.
        """
        self._take(finished, task, accuracies)
        values = (
            (finished, task, tested, self._sizes[tested - 1], accuracy) for tested, accuracy in enumerate(accuracies, 1)
        )
        self.file.append(dict(zip(COLUMNS, row, strict=True)) for row in values)

    def told(self, record: Record) -> Record:
        """The record of a round with its averages over the tasks so far; as it is where they were not tested."""
        if (found := self.rounds.get(record.round)) is None:
            return record
        return replace(record, average_accuracy=found.average_accuracy, average_forgetting=found.average_forgetting)

    def _take(self, finished: int, task: int, accuracies: Sequence[float]) -> None:
        self.matrix[task] = tuple(accuracies)
        averages = average_accuracy(self.matrix), average_forgetting(self.matrix)
        self.rounds[finished] = TasksSoFar(self.matrix[task][:task], *averages)
