"""cohorts.csv: which clients took part in each round, and numbers of their training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from torch import Tensor

from fl_ddp.guards.reports import LOGGED, logged_sums
from fl_ddp.results.appended_csv import AppendedCsv, State
from fl_ddp.results.metrics import of_method

_COLUMNS = ("round", "client")
ClientColumns = Mapping[str, Sequence[float | None]]
"""Of each client of a round, by column."""


class CohortTable:
    """The open cohorts.csv of a run, a row for each client of a round."""

    def __init__(self, path: Path, state: State | None, numbers: Sequence[str]) -> None:
        """Start the file, or go on behind what a checkpoint knows; later rows are cut off.

        Args:
            path: of the file.
            state: that the checkpoint knows it in.
            numbers: columns beside round and client.

        Raises:
            ConfigError: the file does not begin with what the checkpoint knows.
            RunError: it cannot be written.
        """
        self._numbers = tuple(numbers)
        self.file, _ = AppendedCsv.opened(path, (*_COLUMNS, *numbers), state)

    def add(self, finished: int, clients: Sequence[int], numbers: ClientColumns = MappingProxyType({})) -> None:
        """Add a round's clients, with numbers of each by column.

        Raises:
            RunError: they cannot be written.
        """
        nothing = [None] * len(clients)
        columns = [numbers.get(name, nothing) for name in self._numbers]
        rows = zip(clients, *columns, strict=True)
        self.file.append(
            {"round": finished, "client": client, **dict(zip(self._numbers, own, strict=True))} for client, *own in rows
        )


def of_each(reported: Mapping[str, Tensor], names: tuple[str, ...]) -> ClientColumns:
    """Numbers of a round's clients, of which logged() has made rows; None where one has no such number."""
    found = dict[str, list[float | None]]()
    for column, pair in zip(columns_of_each(names), logged_sums(names).items(), strict=True):
        if f"{LOGGED}{pair[0]}" in reported:
            both = (reported[f"{LOGGED}{each}"].tolist() for each in pair)
            found[column] = [value if counts else None for value, counts in zip(*both, strict=True)]
    return found


def columns_of_each(names: tuple[str, ...]) -> tuple[str, ...]:
    """Columns of all that is logged of a client, of a method that reports these names."""
    return "train_loss", *map(of_method, names)
