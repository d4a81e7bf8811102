"""What a partition is, and the checks that every partition has to pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from fl_ddp.bounds import Count, Seed, check_fields
from fl_ddp.errors import ConfigError, place_of_hook
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.guards.samples import read_only, refuse_other_samples
from fl_ddp.protocol import Indices, Origin


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """A way to divide a training set; its fields are its options. A new one overrides divide.

    Attributes:
        seed: of the division; null follows the run's seed.
        min_size: least number of samples of any client.
    """

    seed: Seed | None = None
    min_size: Count = 1

    by_label: ClassVar[bool] = True
    """Whether it looks at the labels, which samples with other targets have not."""
    disjoint: ClassVar[bool] = True
    """Whether no sample is given to several clients, so that there must be enough of them."""

    def __post_init__(self) -> None:
        check_fields(self, "--partition.")

    def split(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """Divide the samples among the clients and check that none has too few.

        Args:
            labels: [N] label of each training sample, from 0 up; all 0 where samples have none.
            num_clients: number of parts.
            rng: source of all randomness.

        Returns:
            one array of sample indices per client, ascending and without repeats; several may have the same sample.

        Raises:
            ConfigError: no such division exists (the message names the option), or a user's own gives something else.
        """
        if self.disjoint and num_clients * self.min_size > len(labels):
            needed = f"{num_clients} clients of at least {self.min_size} (--partition.min_size)"
            raise ConfigError("--clients", f"{needed} need more than the {len(labels)} training samples there are")
        what, divide = f"divide of {type(self).__name__}", partial(self.divide, read_only(labels), num_clients, rng)
        with refuse_global_draws(what, "from rng, which it is given", divide):
            given = divide()
        parts = self._checked(given, num_clients, len(labels))
        sizes = np.array([len(part) for part in parts])
        smallest = int(np.argmin(sizes))
        if sizes[smallest] < self.min_size:
            raise ConfigError(
                "--partition.min_size",
                (
                    f"{type(self).__name__} gives client {smallest} only {sizes[smallest]} samples, fewer "
                    f"than {self.min_size}"
                ),
            )
        return parts

    def _checked(self, given: object, num_clients: int, num_samples: int) -> list[Indices]:
        """What a division gives, of so many samples for so many clients, if that is what it says."""
        who = place_of_hook(type(self), "divide")
        if not isinstance(given, Sequence) or len(given) != num_clients:
            what = f"{len(given)} parts" if isinstance(given, Sequence) else type(given).__name__
            raise ConfigError(who, f"gives {what}", f"{num_clients} arrays of indices, one for each client")
        parts = []
        for client, each in enumerate(given):
            try:
                part = np.asarray(each)
            except ValueError:  # of lists of different lengths
                raise ConfigError(who, f"gives client {client} lists within a list", "whole numbers [n]") from None
            if part.ndim != 1 or (len(part) and not np.issubdtype(part.dtype, np.integer)):
                what = f"gives client {client} an array of {part.dtype} {list(part.shape)}"
                raise ConfigError(who, what, "whole numbers [n]")
            refuse_other_samples(part, num_samples, partial(_refused, who, client))
            parts.append(np.sort(part.astype(np.int64, copy=False)))
        return parts

    def local_test(self, origin: Origin, size: int) -> list[Indices] | None:
        """Each client's own test samples where the division knows them; None where they are chosen at random.

        Args:
            origin: set that they must be of.
            size: of the test set.

        Raises:
            ConfigError: they are of the other set, or do not exist.
        """
        return None

    @abstractmethod
    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """Divide the samples; arguments and result as of split, which has checked that there are enough of them."""


def _refused(who: str, client: int, what: str, accepted: str) -> ConfigError:
    return ConfigError(who, f"gives client {client} {what}", accepted)


def overlapping(parts: Sequence[Indices]) -> bool:
    """Whether a sample is in several parts, each without repeats."""
    together = np.concatenate([*parts, np.empty(0, np.int64)])
    return len(np.unique(together)) < len(together)


def parts_of(owner: Indices, num_clients: int) -> list[Indices]:
    """The samples of each client, ascending; disjoint, since every sample has one owner.

    Args:
        owner: [N] client of each sample, -1 for one that nobody gets.
        num_clients: number of parts.
    """
    order = np.argsort(owner, kind="stable")  # stable keeps each client's samples ascending
    ends = np.cumsum(np.bincount(owner + 1, minlength=num_clients + 1))
    return np.split(order, ends[:-1])[1:]
