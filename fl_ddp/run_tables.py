"""The tables that grow with the rounds of a run: metrics.csv and the CSV files beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from fl_ddp.config.settings import Config, hyperparameters
from fl_ddp.course.cohorts import ClientColumns, CohortTable, columns_of_each
from fl_ddp.errors import RunError
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import Federation
from fl_ddp.results.appended_csv import AppendedCsv
from fl_ddp.results.client_table import ClientScores, ClientTable, newest_tested
from fl_ddp.results.forgetting_table import ClassChange, ForgettingTable
from fl_ddp.results.metrics import Record
from fl_ddp.results.tracking import Tracker
from fl_ddp.retention.own_table import OwnTask, OwnTaskTable
from fl_ddp.retention.table import TaskTable


class OfClients(NamedTuple):
    """What a round leaves of its clients one by one.

    Attributes:
        scores: how their models do on their own test samples, where they were tested.
        changes: what their local training made of each class, where that was asked for.
        tasks: how what they then have does on their own test samples of each task so far, where one ends.
        numbers: of their training, columns in the order of the cohort, where they are logged.
    """

    scores: Sequence[ClientScores] = ()
    changes: Sequence[ClassChange] = ()
    tasks: Sequence[OwnTask] = ()
    numbers: ClientColumns = MappingProxyType({})


class RunTables:
    """The tables of a run, a CSV file each, to which its rounds add rows; TensorBoard has them as curves.

    Attributes:
        tracker: has metrics.csv and the history that is read from it.
        tasks: accuracies on tasks with tests of their own; None where there are none.
        own_tasks: of what clients have on their tasks; None likewise, or where an older version has begun without.
        scores: of each client that was tested, the newest.
        changes: what local training made of each class when that was last looked at.
    """

    def __init__(
        self,
        path: Path,
        config: Config,
        federation: Federation,
        known: Mapping[str, Mapping[str, object]],
        finished: int | None,
    ) -> None:
        """Begin the files, or go on behind what a checkpoint knows.

        Args:
            path: the run's folder.
            config: of the run.
            federation: what it is made of.
            known: the checkpoint's state.
            finished: number of rounds that it knows; None where the run begins.

        Raises:
            ConfigError: a file does not begin with what the checkpoint knows.
            RunError: one cannot be written.
        """
        self._stream = federation.stream
        tests, loss = federation.worlds.test_sizes, federation.model.criterion
        # a checkpoint without its metrics is broken, and must not have metrics.csv begin anew; clients.csv is younger
        metrics = known["metrics"] if finished is not None else None
        self.tracker = Tracker(path, federation.columns(config), hyperparameters(config), metrics)
        own_numbers = columns_of_each(federation.method.reports) if config.log_clients else ()
        self._cohorts = CohortTable(path / "cohorts.csv", known.get("cohorts"), own_numbers)
        self._clients = (
            ClientTable(path / "clients.csv", known.get("clients"), loss.score) if config.local_test else None
        )
        self._forgetting = (
            ForgettingTable(path / "forgetting.csv", federation.classes, known.get("forgetting"))
            if config.forgetting_every
            else None
        )
        self.scores: Sequence[ClientScores] = ()
        for each, earlier in self._clients.earlier if self._clients else ():
            self.scores = newest_tested(earlier, self.scores)
            self.tracker.clients(each, earlier)
        self.changes: Sequence[ClassChange] = self._forgetting.newest if self._forgetting else ()
        self.tasks = TaskTable(path / "tasks.csv", known.get("tasks"), tests) if len(tests) > 1 else None
        has = config.local_test and self.tasks and ("own_tasks" in known or self._task((finished or 0) + 1) == 1)
        self.own_tasks = OwnTaskTable(path / "own_tasks.csv", known.get("own_tasks")) if has else None
        for each, so_far in self.tasks.rounds.items() if self.tasks else ():
            self.tracker.tasks(each, so_far.accuracies, so_far.average_forgetting)

    def add(self, record: Record, clients: OfClients) -> Record:
        """Add a finished round, how its clients' models do, what they have forgotten, and accuracies on tasks.

        Returns:
            the record with its averages over the tasks so far.

        Raises:
            RunError: something of it cannot be written; all else is, and flush() tries it again.
        """
        failures: list[RunError] = []

        def write_rows(write: Callable[..., None], *given: object) -> None:
            try:
                write(*given)
            except RunError as error:
                failures.append(error)

        if self.tasks and record.task_accuracy:
            write_rows(self._add_tasks, self.tasks, record.round, record.task_accuracy)
            record = self.tasks.told(record)
        write_rows(self.tracker.record, record)
        if record.clients:
            write_rows(self._cohorts.add, record.round, record.clients, clients.numbers)
        if self._clients and clients.scores:
            write_rows(self._clients.add, record.round, clients.scores)
            write_rows(self.tracker.clients, record.round, clients.scores)
            self.scores = newest_tested(clients.scores, self.scores)
        if self._forgetting and clients.changes:
            write_rows(self._forgetting.add, record.round, clients.changes)
            self.changes = clients.changes
        if self.own_tasks and clients.tasks:
            write_rows(self.own_tasks.add, record.round, record.task, clients.tasks)
        if failures:
            raise failures[0]
        return record

    def again(self, finished: int, scores: Scores | None, own_tasks: Sequence[OwnTask]) -> None:
        """Take in how the last round's models do, for the summary, unless the files have it."""
        if self.own_tasks and own_tasks and self.own_tasks.newest != finished:
            self.own_tasks.add(finished, self._task(finished), own_tasks)
        if scores and ((newest := self.tracker.history.evaluated) is None or newest.round != finished):
            self.tracker.history.evaluate(scores.told(Record(finished)))
            if self.tasks and scores.of_tasks:
                self._add_tasks(self.tasks, finished, scores.of_tasks)

    def _task(self, finished: int) -> int:
        """The task of the last of so many rounds, from 1; 0 before the first."""
        return self._stream.task(finished - 1) + 1 if finished else 0

    def _add_tasks(self, table: TaskTable, finished: int, accuracies: Sequence[float]) -> None:
        table.add(finished, self._task(finished), accuracies)
        self.tracker.tasks(finished, table.rounds[finished].accuracies, table.rounds[finished].average_forgetting)

    def flush(self) -> None:
        """Write what could not be written before; to be called before a checkpoint.

        Raises:
            RunError: it still cannot.
        """
        for file in self.appended().values():
            file.flush()

    def appended(self) -> dict[str, AppendedCsv]:
        """The files that grow with the rounds, by the names that a checkpoint has for them."""
        by_client = {"cohorts": self._cohorts, "clients": self._clients, "forgetting": self._forgetting}
        tables = {**by_client, "tasks": self.tasks, "own_tasks": self.own_tasks}
        return {"metrics": self.tracker.file} | {name: table.file for name, table in tables.items() if table}
