"""clients.csv: how each client's models do on its own test samples, at every evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_ddp.results.appended_csv import AppendedCsv, State, kept_of

COLUMNS = ("round", "client", "samples", "test_samples", "received_accuracy", "own_accuracy")


@dataclass(frozen=True)
class ClientScores:
    """How a client's models do on its own test samples.

    Attributes:
        client: id.
        samples: that it trains on.
        test_samples: of its own.
        received: accuracy, or the loss's score, of the global model that it received; None without test samples.
        own: of its own model after local training; None without test samples.
    """

    client: int
    samples: int
    test_samples: int
    received: float | None
    own: float | None


class ClientTable:
    """The open clients.csv of a run."""

    def __init__(self, path: Path, state: State | None, score: str = "accuracy") -> None:
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
        self.file = AppendedCsv(path, self._columns, kept_of(path, self._columns, state)[0] if state else b"")

    def add(self, finished: int, scores: Sequence[ClientScores]) -> None:
        """Add the clients of an evaluated round.

        Raises:
            RunError: they cannot be written.
        """
        values = ((finished, s.client, s.samples, s.test_samples, s.received, s.own) for s in scores)
        self.file.append(dict(zip(self._columns, row, strict=True)) for row in values)
