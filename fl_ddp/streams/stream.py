"""What a stream is: tasks one after the other, and what each makes of the samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from torch import Tensor

from fl_ddp.bounds import Count, Seed, Share, UnitInterval, check_fields
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Indices, Owners


@dataclass(frozen=True, kw_only=True)
class Stream(ABC):
    """Tasks one after the other, each a function of its number; a new one overrides what its tasks change.

    Attributes:
        task_rounds: rounds of a task; the last one goes on.
        enrolment: clients that take part in which tasks: all; decreasing, increasing or scattered, the clients in as
            many equal parts as there are tasks, of which the last one active leaves with every task, the next one
            joins, or takes the place of the one before; random; or a CSV file of a row a client and a column a task,
            entries 0 or 1.
        join: probability of a client that is not enrolled to be so in the next task, where enrolment is random.
        leave: probability of a client that is enrolled not to be so in the next task, likewise.
        empty: what becomes of rounds for which no enrolled client has samples: error, or skip, in which nobody trains.
        keep: whether clients still have the samples of tasks that they took part in before: false, true, or a share.
        budget: what keep is a share of: growing, of a client's samples of each of these tasks; or fixed, of their mean
            number, so that all share the room of one task, and lose samples to those that come after.
        seed: of what is random in it; null follows the run's seed.
    """

    task_rounds: Count = 50
    enrolment: str = "all"
    join: UnitInterval = 0.5
    leave: UnitInterval = 0.2
    empty: Literal["error", "skip"] = "error"
    keep: bool | Share = False
    budget: Literal["growing", "fixed"] = "growing"
    seed: Seed | None = None

    tests_apart: ClassVar[bool] = True
    """Whether each task has test samples of its own."""

    def __post_init__(self) -> None:
        check_fields(self, "--stream.")
        if self.budget == "fixed" and not self.keep:
            raise ConfigError("--stream.budget", "fixed, but nothing is kept", "--stream.keep beside it, or growing")

    @property
    @abstractmethod
    def num_tasks(self) -> int:
        """T."""

    @property
    def head_grows(self) -> bool:
        """Whether labels count from the task on that first allows them, also in later tests of earlier tasks.

        Then allowed() gives all labels so far: none is lost again.
        """
        return False

    @property
    def task_names(self) -> tuple[str, ...]:
        """Names of the tasks in their order; none if they have none."""
        return ()

    def of_owners(self, owners: Owners | None) -> Stream:
        """The stream for data that say so whose samples they are; it is told before anything else of them."""
        return self

    def classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the labels that the run has, of those that the data have, in the order of class_order()."""
        return names

    def class_order(self, num_classes: int, rng: np.random.Generator) -> Sequence[int] | None:
        """The data's classes, all of them, in the order in which the run numbers them from 0; None for the data's."""
        return None

    def labels(self, task: int, y: Indices, num_classes: int) -> Indices:
        """What labels [N], numbered by class_order(), are in a task, of so many, from 0; -1 of samples it has not."""
        return y

    def inputs(self, task: int, x: Tensor, rng: np.random.Generator) -> Tensor:
        """What the inputs [n, ...] of some samples, as they are stored, are in a task.

        It is asked about at most 10,000 at a time, with randomness that begins anew: the task's own (a permutation of
        pixels), not a sample's. What becomes of a sample must not depend on the others.
        """
        return x

    def of_task(self, task: int, labels: Indices, origin: Literal["train", "test"]) -> Indices:
        """Samples of a task in the training or the test set, ascending; labels [N] as labels() gives them."""
        return np.flatnonzero(labels >= 0)

    def allowed(self, task: int) -> Sequence[int] | None:
        """Labels among which a sample of a task is classified; None for all."""
        return None

    def task(self, index: int) -> int:
        """The task of a round, both from 0."""
        return min(index // self.task_rounds, self.num_tasks - 1)

    def kept(self, sizes: Sequence[int]) -> list[int]:
        """How many of a client's samples are left of each task that it had some of, of so many, in the tasks' order."""
        if self.budget == "growing":
            return [round(self.keep * size) for size in sizes]
        left: list[int] = []
        for now in range(1, len(sizes) + 1):
            left = _in_one_room(float(self.keep), sizes[:now], left)
        return left

    def ends_task(self, index: int) -> bool:
        """Whether the next round is of another task."""
        return self.task(index) != self.task(index + 1)


def _in_one_room(keep: float, sizes: Sequence[int], before: list[int]) -> list[int]:
    """A room for keep of the mean size, shared in proportion to the sizes, by largest remainders; the first of equals.

    What was thrown away for one task, so that only so much was left before, stays away, whatever its share is now.
    """
    shares = [keep * size / len(sizes) for size in sizes]
    left = [int(share) for share in shares]
    room = round(keep * (sum(sizes) / len(sizes)))
    for i in sorted(range(len(sizes)), key=lambda i: left[i] - shares[i])[: room - sum(left)]:
        left[i] += 1
    return [*map(min, before, left), left[-1]]
