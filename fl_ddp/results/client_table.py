"""clients.csv: how each client's models do on its own test samples, at every evaluation; and how far they differ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from fl_ddp.results.appended_csv import AppendedCsv, State

COLUMNS = (
    "round", "client", "samples", "test_samples", "received_accuracy", "own_accuracy", "received_loss", "own_loss",
)  # fmt: skip
MODELS = {"initial": "received", "personalised": "own"}
"""What clients are tested with, before and after they train, as clients.csv calls it, by what all others do."""


@dataclass(frozen=True)
class ClientScores:
    """How a client's models do on its own test samples; all None without such.

    Attributes:
        client: id.
        samples: that it trains on.
        test_samples: of its own.
        received: accuracy, or the loss's score, of the model that it received, or has kept; None where that cannot be
            tested.
        own: of its own model after local training; None for a client that did not train.
        received_loss: mean loss, of that model.
        own_loss: of its own.
    """

    client: int
    samples: int
    test_samples: int
    received: float | None
    own: float | None
    received_loss: float | None = None
    own_loss: float | None = None


class Spread(NamedTuple):
    """How far clients' accuracies differ.

    Attributes:
        deviation: standard deviation over the clients, of all there are (not of a sample).
        worst: mean over the tenth of the clients with the lowest, or the largest errors, rounded down, at least one.
    """

    deviation: float
    worst: float


def spread(values: Iterable[float | None], *, errors: bool = False) -> Spread | None:
    """Of clients' accuracies, or errors, of which more is worse; None where no client has one."""
    known = sorted((value for value in values if value is not None and not math.isnan(value)), reverse=errors)
    if not known:
        return None
    mean = math.fsum(known) / len(known)
    lowest = known[: max(len(known) // 10, 1)]
    variance = math.fsum((value - mean) ** 2 for value in known) / len(known)
    return Spread(math.sqrt(variance), math.fsum(lowest) / len(lowest))


def spreads(scores: Sequence[ClientScores], score: str) -> dict[str, Spread | None]:
    """Of each of MODELS, whose clients are measured by a score; None where no client was tested with it."""
    return {
        name: spread((getattr(each, model) for each in scores), errors=score != "accuracy")
        for name, model in MODELS.items()
    }


def newest_tested(now: Sequence[ClientScores], before: Sequence[ClientScores]) -> Sequence[ClientScores]:
    """Of two evaluations the later one in which a client was tested."""
    return now if any(each.received is not None or each.own is not None for each in now) else before


class ClientTable:
    """The open clients.csv of a run.

    Attributes:
        earlier: what a resumed run's file holds, round by round, once.
    """

    def __init__(self, path: Path, state: State | None, score: str) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Args:
            path: of the file.
            state: of the checkpoint.
            score: what clients are measured by.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self._columns = tuple(name.replace("accuracy", score) for name in COLUMNS)
        self.file, rows = AppendedCsv.opened(path, self._columns, state)
        of_rounds = groupby(rows, lambda row: int(row["round"]))
        self.earlier: Iterator[tuple[int, list[ClientScores]]] = (
            (finished, [_read(tuple(row[name] for name in self._columns)) for row in of]) for finished, of in of_rounds
        )

    def add(self, finished: int, scores: Sequence[ClientScores]) -> None:
        """Add the clients of an evaluated round.

        Raises:
            RunError: they cannot be written.
        """
        values = (
            (finished, s.client, s.samples, s.test_samples, s.received, s.own, s.received_loss, s.own_loss)
            for s in scores
        )
        self.file.append(dict(zip(self._columns, row, strict=True)) for row in values)


def _read(row: Sequence[str]) -> ClientScores:
    counts, values = map(int, row[1:4]), (float(value) if value else None for value in row[4:])
    return ClientScores(*counts, *values)
