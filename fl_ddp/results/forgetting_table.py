"""forgetting.csv: what each client's local training makes of the accuracy of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path

from fl_ddp.results.appended_csv import AppendedCsv, State
from fl_ddp.results.forgetting import degree, mean_degree
from fl_ddp.results.metrics import Record

COLUMNS = ("round", "client", "class", "samples", "received_accuracy", "own_accuracy", "forgetting_degree")


@dataclass(frozen=True)
class ClassChange:
    """One class, before and after a client's local training, on the global test set.

    Attributes:
        client: id.
        label: number of the class.
        samples: of the class among the client's training samples.
        received: accuracy of the global model that it received; nan for a class without test samples.
        own: of its own model after local training.
    """

    client: int
    label: int
    samples: int
    received: float
    own: float

    @property
    def degree(self) -> float:
        """The forgetting degree tau."""
        return degree(self.received, self.own)


def mean_degrees(changes: Sequence[ClassChange], num_classes: int) -> tuple[float, ...]:
    """Mean forgetting degrees [C] over the clients, cut off at -1; nan for a class without test samples."""
    means = (mean_degree(each.degree for each in changes if each.label == label) for label in range(num_classes))
    return tuple(nan if mean is None else mean for mean in means)


def with_degrees(record: Record, changes: Sequence[ClassChange], num_classes: int) -> Record:
    """A round's record with the mean forgetting degrees of its clients; as it is without changes."""
    if not changes:
        return record
    by_class = mean_degrees(changes, num_classes)
    return replace(record, forgetting_degree=mean_degree(each.degree for each in changes), class_degree=by_class)


class ForgettingTable:
    """The open forgetting.csv of a run.

    Attributes:
        newest: what a resumed run's file holds of the last round in it; empty where there is nothing.
    """

    def __init__(self, path: Path, classes: Sequence[str], state: State | None) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self._classes = classes
        self.file, rows = AppendedCsv.opened(path, COLUMNS, state)
        label = {name: number for number, name in enumerate(classes)}
        newest: list[dict[str, str]] = []
        for row in rows:
            if newest and newest[0]["round"] != row["round"]:
                newest.clear()
            newest.append(row)
        self.newest = [
            ClassChange(
                int(row["client"]),
                label[row["class"]],
                int(row["samples"]),
                float(row["received_accuracy"]),
                float(row["own_accuracy"]),
            )
            for row in newest
        ]

    def add(self, finished: int, changes: Sequence[ClassChange]) -> None:
        """Add the clients of a round.

        Raises:
            RunError: they cannot be written.
        """
        values = ((finished, c.client, self._classes[c.label], c.samples, c.received, c.own, c.degree) for c in changes)
        self.file.append(dict(zip(COLUMNS, row, strict=True)) for row in values)
