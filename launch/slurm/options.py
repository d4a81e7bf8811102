"""What a run asks of Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, get_args, get_type_hints

from fl_ddp.bounds import Count, CountOrZero
from fl_ddp.errors import ConfigError
from launch.input.declared import Form, Name

_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_MOST_MINUTES = 366 * 24 * 60
_OF_LAUNCHER: Mapping[str, str] = {
    "ntasks": "--nodes and --ranks_per_node", "array": "--parallel", "job-name": "--name", "output": "--out",
    "error": "--out", "no-requeue": "--requeues 0", "chdir": "--out", "wait": "--wait",
}  # fmt: skip
"""Options of sbatch that the launcher sets itself and no field stands for, and what the user gives instead."""


@dataclass(frozen=True)
class Sbatch:
    """The option of sbatch that a field stands for, told by its type: Annotated[Name, Sbatch("qos")] | None.

    Attributes:
        name: without dashes.
        is_given: it gets the field's value, unless that is nothing; else the launcher makes its value.
    """

    name: str
    is_given: bool = True

    def refused(self, _: str, value: object) -> str | None:
        """Nothing; what a value may be is told beside this."""
        return None


Memory = Annotated[str, Form("SIZE", r"\d+[KMGT]?", "500M, 32G and the like")]
Features = Annotated[str, Form("LIST")]
ShellLine = Annotated[str, Form("LINE")]
OfSbatch = Annotated[str, Form("KEY=VALUE", r"(--)?[a-z][a-z-]*(=.*)?", "options of sbatch: nodelist=n1, exclusive")]


@dataclass(frozen=True)
class SlurmOptions:
    """What every job asks of Slurm.

    Attributes:
        nodes: nodes of each run.
        gpus_per_node: GPUs on each node; 0 trains on CPUs.
        ranks_per_node: tasks of Slurm on each node, each of which is a rank [a rank for each GPU, or one].
        cpus_per_task: CPU cores of each rank [the cluster's default].
        mem: memory of each node: 32G, 500M [the cluster's default].
        time: limit of a job: minutes, 4:00:00 or 1-12:00:00.
        grace: seconds before the limit, for a run to save its last round.
        requeues: how often a run that reaches its limit goes on in a new job; with 0 none does, whatever ended its job.
        slurm_partition: Slurm's partition; --partition is that of the data [the cluster's default].
        account: Slurm's account, which pays [the cluster's default].
        qos: Slurm's quality of service [the cluster's default].
        constraint: features that the nodes must have.
        sbatch: any other option of sbatch: nodelist=n1, exclusive.
        setup: a line of shell before the run: module load cuda.
    """

    nodes: Annotated[Count, Sbatch("nodes")] = 1
    gpus_per_node: Annotated[CountOrZero, Sbatch("gpus-per-node")] = 0
    ranks_per_node: Annotated[Count, Sbatch("ntasks-per-node", is_given=False)] | None = None
    cpus_per_task: Annotated[Count, Sbatch("cpus-per-task")] | None = None
    mem: Annotated[Memory, Sbatch("mem")] | None = None
    time: Annotated[str, Sbatch("time", is_given=False)] = "4:00:00"
    grace: Annotated[Count, Sbatch("signal", is_given=False)] = 90
    requeues: Annotated[CountOrZero, Sbatch("requeue", is_given=False)] = 20
    slurm_partition: Annotated[Name, Sbatch("partition")] | None = None
    account: Annotated[Name, Sbatch("account")] | None = None
    qos: Annotated[Name, Sbatch("qos")] | None = None
    constraint: Annotated[Features, Sbatch("constraint")] | None = None
    sbatch: tuple[OfSbatch, ...] = ()
    setup: tuple[ShellLine, ...] = ()

    def __post_init__(self) -> None:
        gpus, ranks = self.gpus_per_node, self.ranks_of_node
        if gpus and ranks > gpus:
            raise ConfigError("--ranks_per_node", f"{ranks} ranks for {gpus} GPU(s)", "at most one for each GPU")
        if self.grace >= 60 * self.minutes:
            accepted = f"1 to {60 * self.minutes - 1}"
            raise ConfigError("--grace", f"{self.grace} seconds are not less than --time", accepted)
        instead = {**_OF_LAUNCHER, **{each.name: f"--{field}" for field, each in _of_fields(type(self)).items()}}
        for key in (each for each in self.further if each in instead):
            raise ConfigError("--sbatch", f"{key} is not the user's to give here; give {instead[key]}")

    @property
    def ranks_of_node(self) -> int:
        """Ranks on each node, given or not."""
        return self.ranks_per_node or self.gpus_per_node or 1

    @property
    def minutes(self) -> int:
        """Limit of a job.

        Raises:
            ConfigError: it is not written as Slurm writes it, or is nothing or more than a year.
        """
        return read_minutes(self.time)

    @property
    def given_to_sbatch(self) -> Mapping[str, object]:
        """Values of fields that go to sbatch as they are, by its names for them."""
        stand_for = {field: each for field, each in _of_fields(type(self)).items() if each.is_given}
        return {each.name: value for field, each in stand_for.items() if (value := getattr(self, field))}

    @property
    def further(self) -> Mapping[str, str]:
        """Values of the other options of sbatch, by name; empty where an option has none."""
        parts = (text.removeprefix("--").partition("=") for text in self.sbatch)
        return {key: value for key, _, value in parts}


def _of_fields(owner: type) -> dict[str, Sbatch]:
    """Options of sbatch by the fields that stand for them."""
    hints = get_type_hints(owner, include_extras=True)
    return {field: told for field, hint in hints.items() if (told := _told_by(hint))}


def _told_by(hint: object) -> Sbatch | None:
    """The option of sbatch that a type tells, wherever in it."""
    parts = (each if isinstance(each, Sbatch) else _told_by(each) for each in get_args(hint))
    return next(filter(None, parts), None)


def read_minutes(text: str) -> int:
    """A limit as Slurm writes it: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]].

    Raises:
        ConfigError: it is written otherwise, or is nothing or more than a year.
    """
    found = _CLOCK.fullmatch(text)
    minutes = 0
    if found:
        days, *parts = found.groups()
        numbers = [int(part) for part in parts if part is not None]
        # without days a lone number is minutes, and two are minutes and seconds
        hours, mins, seconds = (*numbers, 0, 0)[:3] if days or len(numbers) == 3 else (0, *numbers, 0)[:3]
        minutes = -(-(((int(days or 0) * 24 + hours) * 60 + mins) * 60 + seconds) // 60)
    if not 0 < minutes <= _MOST_MINUTES:
        raise ConfigError("--time", f"{text} is no time", "minutes, 4:00:00 or 1-12:00:00, up to a year")
    return minutes
