"""A division of the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.partition import Partition
from fl_ddp.partitions.saved import FORM, SavedPartition, read_partition
from fl_ddp.protocol import Indices, Origin
from fl_ddp.reading.homes import users_path


@dataclass(frozen=True)
class FromFile(Partition):
    """The division a JSON file holds: {"clients": [[sample indices of client 0], ...]}, or a run's partition.json.

    Samples that are in no list belong to nobody; one may be in those of several clients with "overlap": true. Those a
    run's file lists as local_test are the clients' own test samples where --local_test is above 0, whatever its share,
    and else belong to nobody.

    Attributes:
        path: the JSON file.
    """

    path: str = ""

    by_label: ClassVar[bool] = False
    disjoint: ClassVar[bool] = False

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        saved = self._read()
        if len(saved.clients) != num_clients:
            raise ConfigError(self.path, f"divides among {len(saved.clients)} clients, --clients is {num_clients}")
        if saved.num_samples is not None and saved.num_samples != len(labels):
            raise ConfigError(
                self.path, f"divides {saved.num_samples} samples (num_samples), the training set has {len(labels)}"
            )
        aside = saved.local_test or [] if saved.local_test_from == "train" else []
        self._check_exist([*saved.clients, *aside], len(labels), "sample")
        return saved.clients

    def local_test(self, origin: Origin, size: int) -> list[Indices] | None:
        """See Partition.local_test."""
        saved = self._read()
        if saved.local_test is not None and saved.local_test_from != origin:
            raise ConfigError("--local_test_from", f"{origin} is not {self.path}'s {saved.local_test_from}")
        if saved.local_test is not None and origin == "test":
            self._check_exist(saved.local_test, size, "local_test: sample")
        return saved.local_test

    def _check_exist(self, parts: list[Indices], size: int, what: str) -> None:
        highest = max((int(part[-1]) for part in parts if len(part)), default=0)
        if highest >= size:
            raise ConfigError(self.path, f"{what} {highest} does not exist", f"0 to {size - 1}")

    def _read(self) -> SavedPartition:
        if not self.path:
            raise ConfigError("--partition.path", "no file is named", f"a JSON file {FORM}")
        return read_partition(users_path("--partition.path", self.path))
