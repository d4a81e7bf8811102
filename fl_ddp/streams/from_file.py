"""Tasks of the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Indices
from fl_ddp.reading.homes import users_path
from fl_ddp.reading.json_file import read_json
from fl_ddp.streams.stream import Stream

FORM = '{"train": [[sample indices of task 1], ...], "test": [[...], ...]}'


@dataclass(frozen=True, kw_only=True)
class FromFile(Stream):
    """The tasks that a JSON file holds: {"train": [[sample indices of task 1], ...], "test": [[...], ...]}.

    A client has in a task what the partition gives it of the task's samples; a sample may be of several tasks.

    Attributes:
        path: the JSON file.
    """

    path: str = ""

    @property
    def num_tasks(self) -> int:
        """As many as the file has."""
        return len(self._content["train"])

    def of_task(self, task: int, labels: Indices, origin: Literal["train", "test"]) -> Indices:
        """Those that the file lists.

        Raises:
            ConfigError: one of them does not exist.
        """
        listed = self._content[origin][task]
        if len(listed) and listed[-1] >= len(labels):
            what = f"task {task + 1} has {origin} sample {listed[-1]}, which does not exist"
            raise ConfigError(self.path, what, f"0 to {len(labels) - 1}")
        return listed

    @cached_property
    def _content(self) -> Mapping[str, list[Indices]]:
        if not self.path:
            raise ConfigError("--stream.path", "no file is named", f"a JSON file {FORM}")
        path = users_path("--stream.path", self.path)
        read = read_json(path, "cannot be read as JSON", FORM)
        if read.keys() != {"train", "test"}:
            raise ConfigError(path, "lists no tasks", FORM)
        tasks = {origin: [_indices(path, origin, task) for task in of_origin] if isinstance(of_origin, list) else []
                 for origin, of_origin in read.items()}  # fmt: skip
        if not tasks["train"] or len(tasks["train"]) != len(tasks["test"]):
            what = f"has {len(tasks['train'])} lists of training samples and {len(tasks['test'])} of test samples"
            raise ConfigError(path, what, "one of each for every task")
        return tasks


def _indices(path: Path, origin: str, task: object) -> Indices:
    listed = task if isinstance(task, list) else [None]
    if not all(type(i) is int and 0 <= i < 2**53 for i in listed) or len(set(listed)) < len(listed):
        raise ConfigError(path, f"{origin} has a list that is none of sample indices", f"{FORM}, none of them twice")
    return np.sort(np.array(listed, np.int64))
