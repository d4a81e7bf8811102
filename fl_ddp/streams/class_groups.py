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
        scenario: class (a sample is classified among the classes of all tasks), task (among those of its own task,
            which is known), or domain (classes of every task are numbered from 0 up).

    Source: van de Ven and Tolias 2019 (arXiv:1904.07734) for the scenarios.
    """

    tasks: Count = 5
    size: Count = 2
    scenario: Literal["class", "task", "domain"] = "class"

    @property
    def num_tasks(self) -> int:
        """As many as were asked for."""
        return self.tasks

    def classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of all tasks by their names, or numbers where tasks share them.

        Raises:
            ConfigError: there are too few.
        """
        needed = self.tasks * self.size
        if needed > len(names):
            what = f"{self.tasks} tasks of {self.size} classes (--stream.size) are {needed}"
            raise ConfigError("--stream.tasks", f"{what}, and the data have {len(names)} classes")
        return tuple(str(i) for i in range(self.size)) if self.scenario == "domain" else names[:needed]

    def labels(self, task: int, y: Indices, num_classes: int) -> Indices:
        """Those of the task's classes."""
        return np.where(y // self.size == task, y % self.size if self.scenario == "domain" else y, -1)

    def allowed(self, task: int) -> Sequence[int] | None:
        """The task's classes, where it is known."""
        return range(task * self.size, (task + 1) * self.size) if self.scenario == "task" else None
