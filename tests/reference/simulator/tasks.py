"""Tasks of a run: which samples, labels and clients a round has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from schedule import Schedule
from torch import Tensor

NAMES = ("task_rounds", "tasks", "size", "scenario", "enrolment", "join", "leave", "keep", "budget", "empty")


@dataclass(frozen=True)
class Tasks:
    """What a stream does; T = tasks.

    Attributes:
        schedule: what is random.
        clients: N.
        name: Static, Permuted or ClassGroups.
        task_rounds: rounds of a task.
        tasks: their number.
        size: classes of a task of ClassGroups.
        scenario: class, seen, task or domain.
        enrolment: all, decreasing, increasing, scattered, random, or rows of a file, one string a client.
        join: probability to join with a task.
        leave: probability to leave.
        keep: whether, or what share of, earlier tasks' samples stay.
        budget: fixed, if earlier tasks share a room of the size that keep is of one.
        empty: skip, if rounds may be without clients.
    """

    schedule: Schedule
    clients: int
    name: str = "Static"
    task_rounds: int = 50
    tasks: int = 1
    size: int = 2
    scenario: str = "class"
    enrolment: str | Sequence[str] = "all"
    join: float = 0.5
    leave: float = 0.2
    keep: float = 0.0
    budget: str = "growing"
    empty: str = "error"

    def of_round(self, t: int) -> int:
        """The task of round t = 0, 1, ..."""
        return min(t // self.task_rounds, self.tasks - 1)

    def ends(self, t: int) -> bool:
        """Whether round t is the last one of a task that another one follows."""
        return self.of_round(t + 1) > self.of_round(t)

    @property
    def are_tested(self) -> bool:
        """Whether tasks have test samples of their own."""
        return self.name != "Static" and self.tasks > 1

    @cached_property
    def enrolled(self) -> list[list[int]]:
        """The clients of each task."""
        n, tasks = self.clients, range(self.tasks)
        if not isinstance(self.enrolment, str):
            return [[k for k in range(n) if self.enrolment[k][j] == "1"] for j in tasks]
        part = [k * self.tasks // n for k in range(n)]
        here_in = {
            "all": [set(tasks) for _ in range(n)],
            "decreasing": [{j for j in tasks if j + part[k] < self.tasks} for k in range(n)],
            "increasing": [{j for j in tasks if part[k] <= j} for k in range(n)],
            "scattered": [{part[k]} for k in range(n)],
        }
        if self.enrolment in here_in:
            return [[k for k in range(n) if j in here_in[self.enrolment][k]] for j in tasks]
        draws, here = self.schedule.enrolment_draws(self.tasks, n), [False] * n
        found = []
        for j in tasks:
            here = [draws[j][k] >= self.leave if here[k] else draws[j][k] < self.join for k in range(n)]
            if j == 0:
                here[min(range(n), key=draws[0].__getitem__)] = True
            found.append([k for k in range(n) if here[k]])
        return found

    def label(self, task: int, y: Any) -> Any:
        """The label of a sample in a task; None if it is not of it. Numbers in place of a label stay."""
        if self.name != "ClassGroups":
            return y
        if not task * self.size <= y < (task + 1) * self.size:
            return None
        return y - task * self.size if self.scenario == "domain" else y

    def allowed(self, task: int, present: int) -> list[int] | None:
        """Classes among which a task's samples are classified in the present one; None for all."""
        if self.name != "ClassGroups" or self.scenario not in ("seen", "task"):
            return None
        if self.scenario == "seen":
            return list(range((max(task, present) + 1) * self.size))
        return list(range(task * self.size, (task + 1) * self.size))

    def classes(self, task: int, y: Tensor) -> list[int]:
        """Labels that a task's samples have, of those of the data; none of numbers in place of labels."""
        of_data = set() if y.ndim > 1 or y.is_floating_point() else {*y.tolist()}
        return sorted(label for each in of_data if (label := self.label(task, each)) is not None)

    def inputs(self, task: int, x: Tensor) -> Tensor:
        """Inputs [n, F] as a task has them."""
        if self.name != "Permuted" or task == 0:
            return x
        return x[:, self.schedule.order_of_inputs(task, x.shape[1])]

    def of_client(self, task: int, k: int, own: Sequence[int], y: Sequence[int]) -> list[tuple[int, int]]:
        """(task, position) of each of client k's samples in a task; own are its positions, y all labels of the data."""
        if k not in self.enrolled[task]:
            return []
        found = [(task, i) for i in own if self.label(task, y[i]) is not None]
        if self.name == "Static":
            return found
        had = {before: [i for i in own if self.label(before, y[i]) is not None] for before in range(task)}
        had = {before: old for before, old in had.items() if old and k in self.enrolled[before]}
        left = self.left({before: len(old) for before, old in had.items()})
        for before, old in had.items():
            kept = self.schedule.kept(before, k, old) if 0 < left[before] < len(old) else old
            found += [(before, i) for i in sorted(kept[: left[before]])]
        return found

    def left(self, sizes: Mapping[int, int]) -> dict[int, int]:
        """How many samples of each earlier task a client has left, of so many in their order."""
        if self.budget != "fixed":
            return {before: round(self.keep * size) for before, size in sizes.items()}
        left: dict[int, int] = {}
        for now in range(1, len(sizes) + 1):  # the room is shared anew after each of them
            due = {before: self.keep * sizes[before] / now for before in list(sizes)[:now]}
            given = dict.fromkeys(due, 0)
            room = round(self.keep * (sum(list(sizes.values())[:now]) / now))
            for _ in range(room):  # one place after the other, to whom most is still due
                whole = {before: int(due[before]) - given[before] for before in due}
                wanting = {before: due[before] - given[before] for before in due}
                first = [before for before in due if whole[before] > 0] or list(due)
                given[max(first, key=lambda before: wanting[before])] += 1
            left = {before: min(given[before], left.get(before, given[before])) for before in given}
        return left


def num_classes(options: Mapping[str, Any], of_data: int) -> int:
    """Number of classes of a run, of those of the data."""
    if options.get("stream") != "ClassGroups":
        return of_data
    size: int = options.get("stream.size", 2)
    return size if options.get("stream.scenario") == "domain" else size * int(options.get("stream.tasks", 5))


def tasks_of(options: Mapping[str, Any], schedule: Schedule, clients: int) -> Tasks:
    """The tasks among a run's options."""
    given = {name: options[f"stream.{name}"] for name in NAMES if f"stream.{name}" in options}
    given |= {"keep": float(given.get("keep", 0))}
    if str(given.get("enrolment", "")).endswith(".csv"):
        lines = Path(given["enrolment"]).read_text(encoding="utf-8").splitlines()
        given["enrolment"] = [line.replace(",", "").strip() for line in lines]
    name = options.get("stream", "Static")
    default = {"Permuted": 10, "ClassGroups": 5}.get(name, 1)
    return Tasks(schedule, clients, name, **{"tasks": default, **given})
