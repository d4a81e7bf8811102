"""metrics.csv: one row per finished round, the record everything else about a run's course is made from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fl_ddp.config.settings import bare_name
from fl_ddp.host.stopwatch import COMPILING
from fl_ddp.results.appended_csv import AppendedCsv, State

OF_METHOD, OF_FUNCTION = "method/", "measure/"
"""How columns of numbers of the user's own begin: what a method reports, and what a function of --measures gives."""
OF_TASKS_SO_FAR = ("average_accuracy", "average_forgetting")
"""Columns of the tasks so far, by the names that retention.matrix has for them, too."""
_PADDED, _WALL = "time_padded_lanes", "time_wall"
_LARGEST_LOSS = 700.0
"""A cross-entropy whose exponential is still a float."""


def is_of_time(column: str) -> bool:
    """Whether a column tells of time, which is no part of the results."""
    return column.startswith("time")


def perplexity(cross_entropy: float) -> float:
    """Its exponential: among how many words, equally likely, a model seems to choose; infinity of a very large one."""
    if cross_entropy > _LARGEST_LOSS:
        return math.inf
    return math.exp(cross_entropy)


def of_method(name: str) -> str:
    """The column, and TensorBoard's curve, of a number that the method reports."""
    return f"{OF_METHOD}{name}"


def of_function(path: str) -> str:
    """The column of what a function of --measures gives, which is at an import path."""
    return f"{OF_FUNCTION}{bare_name(path)}"


def of_clients(score: str, *, everybody: bool = True) -> dict[str, str]:
    """Columns of how clients do on their own test samples, by what they are measured by, and the fields of a Record.

    Args:
        score: that they are measured by.
        everybody: whether the cohort and all clients are told apart.
    """
    usual, of_all = (
        ("initial_accuracy", "personalised_accuracy"),
        ("initial_accuracy_cohort", "personalised_accuracy_all"),
    )
    return {name.replace("accuracy", score): name for name in (*usual, *(of_all if everybody else ()))}


def curve_of(measure: str) -> str:
    """TensorBoard's curve of a measure: results of the package come first there, the user's have their own names."""
    return measure if measure.startswith(OF_FUNCTION) else f"Results/{measure}"


def is_of_phase(column: str) -> bool:
    """Whether a column has the seconds of a phase."""
    return is_of_time(column) and column not in (_PADDED, _WALL)


def is_of_work(column: str) -> bool:
    """Whether it is of a phase that is there however much other runs have left compiled on the machine."""
    return is_of_phase(column) and column != f"time_{COMPILING}"


@dataclass(frozen=True)
class Record:
    """What one round brought; values of the test set are None in rounds without evaluation.

    Attributes:
        round: number of finished rounds; 0 is the initial model.
        cohort: number of clients that took part.
        traffic_up_bytes: sent by all clients of the round together.
        traffic_down_bytes: received by them.
        padded_lanes: share of the trained lanes that held no client: time lost, not part of the results.
        train_loss: mean over a client's local steps, then, weighted as the average is, over the cohort's that trained.
        accuracy: fraction of the test set.
        loss: on the test set.
        initial_accuracy: of what the clients have before they train, the received model or their own, on each one's own
            test samples, mean over all that are in the task; this and the next three are mean absolute errors where the
            loss is one of numbers.
        personalised_accuracy: of the cohort's models after local training, each on its client's own test samples.
        initial_accuracy_cohort: as initial_accuracy, mean over the cohort; None unless all clients train.
        personalised_accuracy_all: as personalised_accuracy, of all clients; likewise.
        forgetting_degree: mean over the cohort's clients and the classes, see results.forgetting.
        class_degree: the same by class.
        class_accuracy: in the order of the classes; nan for a class without test samples.
        task_accuracy: on the test sets of tasks, from the first on: of those so far; of all tasks before round 1, at a
            task's end and in the last round. Empty in rounds without evaluation, where all tasks have the same test
            set or the loss knows no accuracy, and in rows read from metrics.csv: tasks.csv has it.
        average_accuracy: mean of those on the tasks so far; None before round 1 and where there are none.
        average_forgetting: mean over the tasks before the present one of the best accuracy at the end of a task from
            its own on, less the present accuracy; None in the first task, too. Source: Chaudhry et al. 2018, Eq. 3.
        measures: what else the loss, and functions of the user's as measure/<name>, tell of the test set.
        reported: means of the numbers that the method reports of its clients, by their names.
        seconds: by phase; one that did not take place is left out.
        wall: seconds since 1970.
        clients: that took part, ascending; cohorts.csv has them.
        task: the present one, from 1, also before the first round; this and the next are not in metrics.csv.
        ends_task: whether the next round is of another one; the last one has no such end.
    """

    round: int
    cohort: int = 0
    traffic_up_bytes: int = 0
    traffic_down_bytes: int = 0
    padded_lanes: float = 0.0
    train_loss: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    initial_accuracy: float | None = None
    personalised_accuracy: float | None = None
    initial_accuracy_cohort: float | None = None
    personalised_accuracy_all: float | None = None
    forgetting_degree: float | None = None
    class_degree: tuple[float, ...] | None = None
    class_accuracy: tuple[float, ...] | None = None
    task_accuracy: tuple[float, ...] = ()
    average_accuracy: float | None = None
    average_forgetting: float | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    reported: Mapping[str, float] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    wall: float = 0.0
    clients: tuple[int, ...] = ()
    task: int = 1
    ends_task: bool = False

    def goodness(self, score: str) -> float | None:
        """By which evaluated models are compared, the more the better: the accuracy, or else minus a finite loss."""
        if score == "accuracy":
            return self.accuracy
        return None if self.loss is None or not math.isfinite(self.loss) else -self.loss


@dataclass(frozen=True)
class Columns:
    """What decides the columns of metrics.csv.

    Attributes:
        classes: names of the labels, in their order.
        phases: parts a round's time is split into.
        degree: whether the forgetting degree is measured.
        everybody: whether all clients train at evaluations: two more accuracies tell the cohort and all clients apart.
        tasks: number of tasks with test sets of their own, of which averages are columns; 1 where there are none.
        score: what clients are measured by on their own test samples; where it is accuracy, so is the global model.
        measures: what else the loss, and functions of the user's, tell of the test set.
        entropy: whether that is a cross-entropy.
        reported: what the method reports of its clients, in columns method/<name>.
        renewed: classes that have other test samples than before from a round on, by the round.
        knows: whether the model of round 0 was trained before, so that what it knows can be forgotten.
    """

    classes: tuple[str, ...]
    phases: tuple[str, ...]
    everybody: bool = False
    degree: bool = False
    tasks: int = 1
    score: str = "accuracy"
    measures: tuple[str, ...] = ()
    entropy: bool = True
    reported: tuple[str, ...] = ()
    renewed: Mapping[int, Iterable[int]] = field(default_factory=dict)
    knows: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """In their order."""
        return tuple(_row(Record(0), self, None, None))


class Metrics:
    """The open metrics.csv of a run.

    _row() has the columns in their order; traffic is of the round, and all columns of time start with `time`.

    Attributes:
        file: that the rows go to.
        earlier: what a resumed run's file holds.
    """

    def __init__(self, path: Path, columns: Columns, state: State | None) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self._columns = columns
        self.file, rows = AppendedCsv.opened(path, columns.names, state)
        self.earlier = [_record(row, columns) for row in rows]

    def append(self, record: Record, running_mean: float | None, forgetting: float | None) -> None:
        """Add the row of a round.

        Args:
            record: of the round.
            running_mean: of the accuracies up to it.
            forgetting: average over the classes.

        Raises:
            RunError: it cannot be written.
        """
        assert record.seconds.keys() <= set(self._columns.phases), record.seconds.keys()
        assert record.class_accuracy is None or len(record.class_accuracy) == len(self._columns.classes)
        self.file.append([_row(record, self._columns, running_mean, forgetting)])


def _row(record: Record, columns: Columns, running_mean: float | None, forgetting: float | None) -> dict[str, object]:
    """A round by column, in the order of the columns."""
    of_class = record.class_accuracy or (None,) * len(columns.classes)
    own = of_clients(columns.score, everybody=columns.everybody)
    accuracies: dict[str, object] = {
        "accuracy": record.accuracy,
        "running_mean_accuracy": running_mean,
        "forgetting": forgetting,
        **({name: getattr(record, name) for name in OF_TASKS_SO_FAR} if columns.tasks > 1 else {}),
    }
    by_class = zip(columns.classes, record.class_degree or (None,) * len(columns.classes), strict=True)
    degrees: dict[str, object] = {
        "forgetting_degree": record.forgetting_degree,
        **{f"forgetting_degree/{name}": value for name, value in by_class},
    }
    return {
        "round": record.round,
        "train_loss": record.train_loss,
        "cohort": record.cohort,
        "traffic_up_bytes": record.traffic_up_bytes,
        "traffic_down_bytes": record.traffic_down_bytes,
        _PADDED: record.padded_lanes,
        **(accuracies if columns.score == "accuracy" else {}),
        **{name: record.measures.get(name) for name in columns.measures},
        "loss": record.loss,
        **{column: getattr(record, name) for column, name in own.items()},
        **(degrees if columns.degree else {}),
        **{of_method(name): record.reported.get(name) for name in columns.reported},
        **{f"accuracy/{name}": value for name, value in zip(columns.classes, of_class, strict=True)},
        _WALL: record.wall,
        **{f"time_{phase}": record.seconds.get(phase) for phase in columns.phases},
    }


def _record(row: Mapping[str, str], columns: Columns) -> Record:
    """A row read back; running mean and forgetting are left out, they follow from the rows before."""

    def number(column: str) -> float | None:
        return float(row[column]) if row.get(column) else None

    own = {name: number(column) for column, name in of_clients(columns.score).items()}
    own |= {name: number(name) for name in OF_TASKS_SO_FAR}
    of_class = [number(f"accuracy/{name}") for name in columns.classes]
    measures = {name: number(name) for name in columns.measures}
    reported = {name: number(of_method(name)) for name in columns.reported}
    degree_of_class = [number(f"forgetting_degree/{name}") for name in columns.classes]
    seconds = {phase: number(f"time_{phase}") for phase in columns.phases}
    return Record(
        round=int(row["round"]),
        cohort=int(row["cohort"]),
        traffic_up_bytes=int(row["traffic_up_bytes"]),
        traffic_down_bytes=int(row["traffic_down_bytes"]),
        padded_lanes=float(row[_PADDED]),
        train_loss=number("train_loss"),
        accuracy=number("accuracy"),
        loss=number("loss"),
        forgetting_degree=number("forgetting_degree"),
        class_degree=tuple(value for value in degree_of_class if value is not None) or None,
        class_accuracy=tuple(value for value in of_class if value is not None) or None,
        measures={name: value for name, value in measures.items() if value is not None},
        reported={name: value for name, value in reported.items() if value is not None},
        seconds={phase: value for phase, value in seconds.items() if value is not None},
        wall=float(row[_WALL]),
        **own,  # type: ignore[arg-type]
    )
