"""Tasks of different classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Indices
from fl_ddp.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class ClassGroups(Stream):
    """Every task has the next few classes of the data; classes that are left over are left out.

    Attributes:
        tasks: their number.
        size: classes of a task.
        first: classes of the first task; null for size.
        order: in which classes come: as the data number them, or at random by the stream's seed, which also decides
            which ones are left out; the partition stays.
        scenario: class (a sample is classified among the classes of all tasks), seen (among those of the tasks so far,
            as by FACIL's and PyCIL's heads, which grow), task (among those of its own task, which is known), or domain
            (classes of every task are numbered from 0 up).

    Source: van de Ven and Tolias 2019 (arXiv:1904.07734) for the scenarios, of which class and seen are one: what a
    model says of classes that nobody has had yet is nowhere asked there.
    """

    tasks: Count = 5
    size: Count = 2
    first: Count | None = None
    order: Literal["data", "random"] = "data"
    scenario: Literal["class", "seen", "task", "domain"] = "class"

    @property
    def num_tasks(self) -> int:
        """As many as were asked for."""
        return self.tasks

    @property
    def head_grows(self) -> bool:
        """Where classes count from their task on."""
        return self.scenario == "seen"

    def classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of all tasks by their names, or numbers where tasks share them.

        Raises:
            ConfigError: there are too few.
        """
        needed = self._of(self.tasks - 1).stop
        if needed > len(names):
            of_first = [f"{self.first} classes (--stream.first)"] if self.first else []
            others = self.tasks - len(of_first)
            of_others = [f"{others} tasks of {self.size} classes (--stream.size)"] if others else []
            what = f"{' and '.join(of_first + of_others)} are {needed}, and the data have {len(names)} classes"
            raise ConfigError("--stream.tasks" if others else "--stream.first", what)
        largest = max(len(self._of(task)) for task in range(self.tasks))
        return tuple(str(i) for i in range(largest)) if self.scenario == "domain" else names[:needed]

    def class_order(self, num_classes: int, rng: np.random.Generator) -> Sequence[int] | None:
        """A permutation, where the order is random."""
        return rng.permutation(num_classes).tolist() if self.order == "random" else None

    def labels(self, task: int, y: Indices, num_classes: int) -> Indices:
        """Those of the task's classes."""
        of = self._of(task)
        return np.where((of.start <= y) & (y < of.stop), y - of.start if self.scenario == "domain" else y, -1)

    def allowed(self, task: int) -> Sequence[int] | None:
        """The task's classes, where it is known, or all so far."""
        if self.head_grows:
            return range(self._of(task).stop)
        return self._of(task) if self.scenario == "task" else None

    def _of(self, task: int) -> range:
        """The task's classes in their order."""
        begins = self.first or self.size
        return range(begins + (task - 1) * self.size, begins + task * self.size) if task else range(begins)
