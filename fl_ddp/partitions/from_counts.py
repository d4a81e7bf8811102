"""Numbers of samples by client and class, as a table gives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.counts_file import is_count, read_rows
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Counts, Indices
from fl_ddp.reading.homes import users_path

FORM = "a CSV file with a row for each client and a column for each class, whose first line is client,0,1,..."


@dataclass(frozen=True)
class FromCounts(Partition):
    """As many samples of each class as a table says, drawn at random; what is left belongs to nobody.

    Attributes:
        path: the table, a CSV file: client,0,1,... and a row of counts for each client.
    """

    path: str = ""

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        counts = self._read()
        if len(counts) != num_clients:
            raise ConfigError(self.path, f"divides among {len(counts)} clients, --clients is {num_clients}")
        pool = np.bincount(labels, minlength=counts.shape[1])
        if len(pool) > counts.shape[1]:
            raise ConfigError(self.path, f"has columns for {counts.shape[1]} classes, the data have {len(pool)}")
        short = np.flatnonzero(counts.sum(0) > pool)
        if len(short):
            label = short[0]
            what = f"gives out {counts[:, label].sum()} samples of class {label}, of which there are {pool[label]}"
            raise ConfigError(self.path, what)
        owner = np.full(len(labels), -1, np.int64)
        for label in range(counts.shape[1]):
            drawn = rng.permutation(np.flatnonzero(labels == label))[: counts[:, label].sum()]
            owner[drawn] = np.repeat(np.arange(num_clients), counts[:, label])
        return parts_of(owner, num_clients)

    def _read(self) -> Counts:
        if not self.path:
            raise ConfigError("--partition.path", "no file is named", FORM)
        path = users_path("--partition.path", self.path)
        head, rows = read_rows(path, lambda what: ConfigError(path, what, FORM))
        if head != ["client", *map(str, range(len(head) - 1))] or len(head) < 2:
            raise ConfigError(path, f"begins with {','.join(head)!r}", FORM)
        for client, row in enumerate(rows):
            if len(row) != len(head) or row[0] != str(client):
                accepted = f"{client} and {len(head) - 1} counts"
                raise ConfigError(path, f"row {client + 1} is {','.join(row)!r}", accepted)
            if wrong := [word for word in row[1:] if not is_count(word)]:
                what = f"client {client} has {wrong[0]!r} samples of a class"
                raise ConfigError(path, what, "whole numbers from 0 up, below 10**9")
        return np.array([[int(word) for word in row[1:]] for row in rows], np.int64).reshape(len(rows), -1)
