"""The division that the data come with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Indices, Origin, Owners


@dataclass(frozen=True)
class Natural(Partition):
    """Each sample is its own client's, as the data name them; fewer --clients than there are take the first by name.

    Clients of fewer training samples than min_size are left out. Where the data say whose the test samples are,
    --local_test_from test gives each client its own, whatever the share.

    Source: Caldas et al. 2018 (LEAF), arXiv:1812.01097.
    """

    by_label: ClassVar[bool] = False

    owners: Owners | None = None
    num_clients: int = 0

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        return self._parts(self._known().train, num_clients)

    def local_test(self, origin: Origin, size: int) -> list[Indices] | None:
        """See Partition.local_test."""
        owner = self._known().test
        return None if owner is None or origin == "train" else self._parts(owner, self.num_clients)

    def _parts(self, owner: Indices, num_clients: int) -> list[Indices]:
        """The samples of each client that takes part, by the owners [N] of all."""
        known = self._known()
        enough = np.flatnonzero(np.bincount(known.train, minlength=len(known.names)) >= self.min_size)
        if num_clients > len(enough):
            least = f" of at least {self.min_size} training samples (--partition.min_size)" if self.min_size > 1 else ""
            what = f"{num_clients}, but the data name {len(enough)} clients{least}"
            raise ConfigError("--clients", what, f"1 to {len(enough)}")
        place = np.full(len(known.names) + 1, -1)  # the last is that of a sample whose client is not known
        place[enough[:num_clients]] = np.arange(num_clients)
        return parts_of(place[owner], num_clients)

    def _known(self) -> Owners:
        if self.owners is None:
            what = "Natural, but the data do not name the client of each training sample"
            raise ConfigError("--partition", what, "data that do, or another --partition")
        unknown = int((self.owners.train < 0).sum())
        if unknown:
            what = f"Natural, but the data do not name the clients of {unknown} samples"
            raise ConfigError(
                "--partition", what, "data that do, which with --data.merge are those of the test set, too"
            )
        return self.owners
