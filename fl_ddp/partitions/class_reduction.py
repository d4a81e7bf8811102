"""Clients that lose samples of a class during a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.counts_file import is_count, rows_under
from fl_ddp.protocol import Indices
from fl_ddp.reading.homes import users_path

HEAD = ["client", "class", "round", "count"]
WHERE = "--class_reduction"
FORM = "client,class,round,count with ; between several, or a CSV file of such rows under this head"


class SamplesLeft(NamedTuple):
    """From a round on, counted from 1, a client has so many training samples of a class."""

    client: int
    label: int
    round: int
    samples: int


class ClassReduction:
    """Which samples clients have in which round.

    Each reduction of a class leaves a part of what the one before it left.

    Raises:
        ConfigError: a reduction names what there is not, leaves more than there was, or leaves a client nothing.
    """

    def __init__(
        self,
        reductions: Sequence[SamplesLeft],
        clients: Sequence[Indices],
        labels: Indices,
        rng: Callable[[int, int], np.random.Generator],
    ) -> None:
        """Reductions of clients with sample indices into labels [N]; rng draws what a client keeps of a class."""
        self._clients, self._labels, self._rng = list(clients), labels, rng
        self._reductions = sorted(reductions, key=lambda each: each.round)
        self._stages = sorted({each.round for each in reductions})
        has: dict[tuple[int, int], int] = {}
        for each in self._reductions:
            name = f"client {each.client}, class {each.label}, round {each.round}"
            if each.client >= len(clients):
                raise ConfigError(WHERE, f"{name}: there are {len(clients)} clients")
            own = int((labels[clients[each.client]] == each.label).sum())
            before = has.get((each.client, each.label), own)
            if each.samples > before:
                what = f"{name}: {each.samples} samples are more than the {before} there were"
                raise ConfigError(WHERE, what, f"0 to {before}")
            has[each.client, each.label] = each.samples
        for client in {each.client for each in reductions}:
            if not len(self._left[-1][client]):
                raise ConfigError(WHERE, f"leaves client {client} no samples")

    @property
    def text(self) -> str:
        """All reductions, in one order."""
        return ";".join(",".join(map(str, each)) for each in sorted(self._reductions))

    def of_round(self, index: int) -> list[Indices]:
        """Each client's training samples in a round, from 0, in their order."""
        stage = sum(first <= index + 1 for first in self._stages)
        return self._left[stage - 1] if stage else self._clients

    @cached_property
    def _left(self) -> list[list[Indices]]:
        """Each client's samples from each of the rounds on at which some are lost."""
        stages, clients, counts = list[list[Indices]](), self._clients, dict[int, dict[int, int]]()
        for _, some in groupby(self._reductions, lambda each: each.round):
            clients = list(clients)
            for client, label, _, count in some:
                counts[client] = counts.get(client, {}) | {label: count}
                clients[client] = self._reduced(client, counts[client])
            stages.append(clients)
        return stages

    def _reduced(self, client: int, counts: Mapping[int, int]) -> Indices:
        """A client's samples of which it has only so many of some classes."""
        left = own = self._clients[client]
        for label, count in counts.items():
            of_class = own[self._labels[own] == label]
            lost = self._rng(client, label).permutation(of_class)[count:]
            left = left[~np.isin(left, lost)]
        return left


def read_reductions(text: str, classes: Sequence[str]) -> list[SamplesLeft]:
    """The reductions that an option gives; a class is given by its name.

    Raises:
        ConfigError: a file cannot be read, a row is none, or a class is unknown.
    """
    rows = _rows_of(users_path(WHERE, text)) if text.endswith(".csv") else [row.split(",") for row in text.split(";")]
    found = []
    for row in ([word.strip() for word in row] for row in rows):
        numbers = [row[i] for i in (0, 2, 3)] if len(row) == len(HEAD) else []
        if not numbers or not all(map(is_count, numbers)):
            raise ConfigError(WHERE, f"{','.join(row)!r} is no reduction", FORM)
        if row[1] not in classes:
            raise ConfigError(WHERE, f"{','.join(row)!r}: there is no class {row[1]}", ", ".join(classes))
        client, first, count = map(int, numbers)
        if first < 1:
            raise ConfigError(WHERE, f"{','.join(row)!r}: rounds are counted from 1")
        found.append(SamplesLeft(client, classes.index(row[1]), first, count))
    known: dict[tuple[int, int, int], int] = {}
    for each in found:
        if each[:3] in known:
            both = f"{known[each[:3]]} and {each.samples}"
            what = f"client {each.client}, class {classes[each.label]}, round {each.round}: {both} samples"
            raise ConfigError(WHERE, what, "one number for a client's class in a round")
        known[each[:3]] = each.samples
    return found


def _rows_of(path: Path) -> list[list[str]]:
    return rows_under(path, HEAD, lambda what: ConfigError(WHERE, f"{path} {what}", FORM))
