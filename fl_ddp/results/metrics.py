"""metrics.csv: one row per finished round, the record everything else about a run's course is made from."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import writing

_PADDED, _WALL = "time_padded_lanes", "time_wall"


def is_of_time(column: str) -> bool:
    """Whether a column tells of time, which is no part of the results."""
    return column.startswith("time")


def is_of_phase(column: str) -> bool:
    """Whether a column has the seconds of a phase."""
    return is_of_time(column) and column not in (_PADDED, _WALL)


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
        initial_accuracy: of the model the clients received, on each one's own test samples, mean over all clients.
        personalised_accuracy: of the cohort's models after local training, each on its client's own test samples.
        initial_accuracy_cohort: as initial_accuracy, mean over the cohort; None unless all clients train.
        personalised_accuracy_all: as personalised_accuracy, of all clients; likewise.
        class_accuracy: in the order of the classes; nan for a class without test samples.
        seconds: by phase; one that did not take place is left out.
        wall: seconds since 1970.
    """

    round: int
    cohort: int
    traffic_up_bytes: int
    traffic_down_bytes: int
    padded_lanes: float
    train_loss: float | None = None
    accuracy: float | None = None
    loss: float | None = None
    initial_accuracy: float | None = None
    personalised_accuracy: float | None = None
    initial_accuracy_cohort: float | None = None
    personalised_accuracy_all: float | None = None
    class_accuracy: tuple[float, ...] | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    wall: float = 0.0


@dataclass(frozen=True)
class Columns:
    """What decides the columns of metrics.csv.

    Attributes:
        classes: names of the labels, in their order.
        phases: parts a round's time is split into.
        everybody: whether all clients train at evaluations: two more accuracies tell the cohort and all clients apart.
    """

    classes: tuple[str, ...]
    phases: tuple[str, ...]
    everybody: bool = False

    @cached_property
    def names(self) -> tuple[str, ...]:
        """In their order."""
        return tuple(_row(Record(0, 0, 0, 0, 0.0), self, None, None))


class Metrics:
    """The open metrics.csv of a run. Floats are written such that reading gives the same bits.

    _row() has the columns in their order; traffic is of the round, and all columns of time start with `time`.
    """

    def __init__(self, path: Path, columns: Columns, kept: bytes = b"") -> None:
        """Start a file, or cut an existing one back.

        Args:
            path: of the file.
            columns: of the file.
            kept: what stays of an existing file.

        Raises:
            RunError: it cannot be written.
        """
        self._path, self._columns = path, columns
        self._size, self._sha256 = len(kept), hashlib.sha256(kept)
        with writing(path):
            self._file = path.open("ab")
            self._file.truncate(self._size)
        if not kept:
            self._append(dict(zip(columns.names, columns.names, strict=True)))

    @classmethod
    def resume(cls, path: Path, columns: Columns, state: Mapping[str, object]) -> tuple[Metrics, list[Record]]:
        """Go on behind what a checkpoint knows; later rows are cut off.

        Args:
            path: of the file.
            columns: as when the file was started.
            state: of the checkpoint, see state().

        Returns:
            the open file, the records it holds.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        size = state["bytes"]
        assert isinstance(size, int)
        try:
            with path.open("rb") as file:
                kept = file.read(size)
        except OSError as error:
            raise ConfigError(path, f"cannot be read ({error.strerror}), the run cannot go on without it") from error
        if len(kept) < size:
            raise ConfigError(path, f"was cut short, {len(kept)} bytes are left of the {size} the checkpoint knows")
        rows = csv.DictReader(io.StringIO(kept.decode(errors="replace"), newline=""))
        known = tuple(rows.fieldnames or ()) == columns.names
        if hashlib.sha256(kept).hexdigest() != state["sha256"] or not known:
            raise ConfigError(path, f"was edited, its first {size} bytes are not those the checkpoint knows")
        return cls(path, columns, kept), [_record(row, columns) for row in rows]

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
        self._append(_row(record, self._columns, running_mean, forgetting))

    def state(self) -> dict[str, object]:
        """What a checkpoint stores: the file's size in bytes and their sha256."""
        return {"bytes": self._size, "sha256": self._sha256.hexdigest()}

    def sync(self) -> None:
        """Make what was appended survive a loss of power.

        Raises:
            RunError: it cannot be written.
        """
        with writing(self._path):
            os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file.

        Raises:
            RunError: it cannot be written.
        """
        with writing(self._path):
            self._file.close()

    def _append(self, row: Mapping[str, object]) -> None:
        text = io.StringIO()
        csv.DictWriter(text, self._columns.names, lineterminator="\n").writerow(row)
        line = text.getvalue().encode()
        with writing(self._path):
            self._file.write(line)
            # At once, so that a row that was reported survives a kill.
            self._file.flush()
        self._size += len(line)
        self._sha256.update(line)


def _row(record: Record, columns: Columns, running_mean: float | None, forgetting: float | None) -> dict[str, object]:
    """A round by column, in the order of the columns."""
    of_class = record.class_accuracy or (None,) * len(columns.classes)
    of_all: dict[str, object] = {
        "initial_accuracy_cohort": record.initial_accuracy_cohort,
        "personalised_accuracy_all": record.personalised_accuracy_all,
    }
    return {
        "round": record.round,
        "train_loss": record.train_loss,
        "cohort": record.cohort,
        "traffic_up_bytes": record.traffic_up_bytes,
        "traffic_down_bytes": record.traffic_down_bytes,
        _PADDED: record.padded_lanes,
        "accuracy": record.accuracy,
        "running_mean_accuracy": running_mean,
        "forgetting": forgetting,
        "loss": record.loss,
        "initial_accuracy": record.initial_accuracy,
        "personalised_accuracy": record.personalised_accuracy,
        **(of_all if columns.everybody else {}),
        **{f"accuracy/{name}": value for name, value in zip(columns.classes, of_class, strict=True)},
        _WALL: record.wall,
        **{f"time_{phase}": record.seconds.get(phase) for phase in columns.phases},
    }


def _record(row: Mapping[str, str], columns: Columns) -> Record:
    """A row read back; running mean and forgetting are left out, they follow from the rows before."""

    def number(column: str) -> float | None:
        return float(row[column]) if row.get(column) else None

    of_class = [number(f"accuracy/{name}") for name in columns.classes]
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
        initial_accuracy=number("initial_accuracy"),
        personalised_accuracy=number("personalised_accuracy"),
        initial_accuracy_cohort=number("initial_accuracy_cohort"),
        personalised_accuracy_all=number("personalised_accuracy_all"),
        class_accuracy=tuple(value for value in of_class if value is not None) or None,
        seconds={phase: value for phase, value in seconds.items() if value is not None},
        wall=float(row[_WALL]),
    )
