"""Tasks of different origins: photos first, then sketches."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fl_ddp.bounds import CountOrZero
from fl_ddp.errors import ConfigError, some_of
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

    order: tuple[str | CountOrZero, ...] = ()

    owners: Owners | None = field(default=None, init=False)

    @property
    def num_tasks(self) -> int:
        """One for each domain; before the data are known as many as are named, and two at least."""
        return len(self.task_names) if self.owners else max(len(self.order), 2)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The domains, in the order of the tasks."""
        return tuple(map(str, self.order)) or (self.owners.names if self.owners else ())

    def of_owners(self, owners: Owners | None) -> Domains:
        """The tasks of these data.

        Raises:
            ConfigError: they do not say of which domain all samples are, or one of them has none, or is none of theirs.
        """
        if owners is None or owners.test is None:
            what = f"Domains, but the data do not say of which domain {'test ' if owners else ''}samples are"
            raise ConfigError("--stream", what, "ImageFolder with --data.domains true, say, or clients of all samples")
        told = replace(self)
        object.__setattr__(told, "owners", owners)
        for name in told.task_names:
            if name not in owners.names:
                raise ConfigError("--stream.order", f"{name} is no domain of the data", some_of(owners.names))
            if told.task_names.count(name) > 1:
                raise ConfigError("--stream.order", f"names {name} twice", "each domain once")
        for origin, of in (("training", owners.train), ("test", owners.test)):
            sizes = np.bincount(of[of >= 0], minlength=len(owners.names))
            lacking = [name for name, size in zip(owners.names, sizes, strict=True) if not size]
            if empty := [name for name in told.task_names if name in lacking]:
                left = [name for name in told.task_names if name not in empty]
                what = f"the domain {empty[0]} has no {origin} samples"
                raise ConfigError("--stream.order", what, f"those that have: {some_of(left)}" if left else "")
        return told

    def of_task(self, task: int, labels: Indices, origin: Literal["train", "test"]) -> Indices:
        """Those of its domain."""
        owners = self.owners
        assert owners and owners.test is not None
        of = owners.train if origin == "train" else owners.test
        return np.flatnonzero(of == owners.names.index(self.task_names[task]))
