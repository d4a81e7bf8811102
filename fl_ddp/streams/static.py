"""Data that stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fl_ddp.bounds import Count
from fl_ddp.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Static(Stream):
    """All samples all the time; tasks are times in which other clients may be enrolled.

    Attributes:
        tasks: their number.
    """

    tasks: Count = 1

    tests_apart: ClassVar[bool] = False

    @property
    def num_tasks(self) -> int:
        """As many as were asked for."""
        return self.tasks
