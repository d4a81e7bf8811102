"""Tasks of different origins: photos first, then sketches."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Indices, Owners
from fl_ddp.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Domains(Stream):
    """Every task has the samples of one domain, whose the data say they are; a client has its part of each.

    ImageFolder's folders of domains are such, and the clients that other data name.

    Attributes:
        order: names of the domains in the order in which they come, those left out do not; all by name if empty.

    Source: van de Ven and Tolias 2019 (arXiv:1904.07734), domain-incremental.
    """

    order: tuple[str, ...] = ()

    owners: Owners | None = None

    @property
    def num_tasks(self) -> int:
        """One for each domain."""
        return len(self.names)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The domains, in the order of the tasks.

        Raises:
            ConfigError: the data do not say of which domain samples are, or one has none, or is none of theirs.
        """
        owners = self.owners
        if owners is None or owners.test is None:
            what = f"Domains, but the data do not say of which domain {'test ' if owners else ''}samples are"
            raise ConfigError("--stream", what, "ImageFolder with --data.domains true, say, or clients of all samples")
        for name in self.order:
            if name not in owners.names:
                raise ConfigError("--stream.order", f"{name} is no domain of the data", ", ".join(owners.names))
            if self.order.count(name) > 1:
                raise ConfigError("--stream.order", f"names {name} twice", "each domain once")
        chosen = self.order or owners.names
        for origin, of in (("training", owners.train), ("test", owners.test)):
            sizes = dict(zip(owners.names, np.bincount(of[of >= 0], minlength=len(owners.names)), strict=True))
            if empty := [name for name in chosen if not sizes[name]]:
                left = ",".join(name for name in chosen if name not in empty)
                raise ConfigError("--stream.order", f"the domain {empty[0]} has no {origin} samples", left or "others")
        return chosen

    def of_task(self, task: int, labels: Indices, origin: Literal["train", "test"]) -> Indices:
        """Those of its domain.

        Raises:
            ConfigError: the samples are not those that the data name domains of.
        """
        name, owners = self.names[task], self.owners
        assert owners and owners.test is not None
        of = owners.train if origin == "train" else owners.test
        if len(of) != len(labels):
            what = "true, but tasks of Domains are tested on what the data have for it"
            raise ConfigError("--data.merge", what, "false")
        return np.flatnonzero(of == owners.names.index(name))
