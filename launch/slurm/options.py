"""What a run asks of Slurm."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fl_ddp.errors import ConfigError
from launch.input.words import Words, whole_number

SLURM_HELP = """  --nodes N             nodes of each run [1]
  --gpus_per_node N     GPUs on each of them; 0 trains on CPUs [0]
  --ranks_per_node N    ranks on each of them [a rank for each GPU, or one]
  --cpus_per_task N     CPU cores of each rank [the cluster's default]
  --mem SIZE            memory of each node: 32G, 500M [the cluster's default]
  --time TIME           limit of a job: minutes, 4:00:00 or 1-12:00:00 [4:00:00]
  --grace SECONDS       before the limit, for a run to save its last round [90]
  --requeues N          how often a run that reaches its limit goes on in a new job [20]
  --slurm_partition P   Slurm's partition (--partition is that of the data) [the cluster's default]
  --account A, --qos Q, --constraint C
                        as Slurm's
  --sbatch KEY=VALUE    any other option of sbatch: nodelist=n1, exclusive; may be given several times
  --setup LINE          a line of shell before the run: module load cuda; may be given several times"""
"""Lines for a launcher's --help."""

SLURM_VALUES = (
    "nodes", "gpus_per_node", "ranks_per_node", "cpus_per_task", "mem", "time", "grace", "requeues",
    "slurm_partition", "account", "qos", "constraint", "sbatch", "setup",
)  # fmt: skip
"""Names of the options that read_slurm_options() reads."""

_CLOCK = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")
_MOST_MINUTES = 366 * 24 * 60
_OF_LAUNCHER: Mapping[str, str] = {
    "nodes": "--nodes", "gpus-per-node": "--gpus_per_node", "ntasks-per-node": "--ranks_per_node",
    "ntasks": "--nodes and --ranks_per_node", "cpus-per-task": "--cpus_per_task", "mem": "--mem", "time": "--time",
    "signal": "--grace", "partition": "--slurm_partition", "account": "--account", "qos": "--qos",
    "constraint": "--constraint", "array": "--parallel", "job-name": "--name", "output": "--out", "error": "--out",
    "requeue": "--requeues", "no-requeue": "--requeues 0", "chdir": "--out", "wait": "--wait",
}  # fmt: skip
"""Options of sbatch that the launcher sets itself, and what the user gives instead."""


@dataclass(frozen=True)
class SlurmOptions:
    """What every job of a submission asks for.

    Attributes:
        nodes: of a run.
        gpus_per_node: 0 trains on CPUs.
        ranks_per_node: tasks of Slurm, each of which is a rank.
        cpus_per_task: of each rank; None leaves it to the cluster.
        mem: of each node, as Slurm writes it; None leaves it to the cluster.
        minutes: limit of a job.
        grace: seconds before the limit at which a run is told to save.
        requeues: how often a run that reaches its limit goes on in a new job.
        slurm_partition: None takes the cluster's default; so do account, qos and constraint.
        account: that pays.
        qos: quality of service.
        constraint: on the nodes' features.
        sbatch: further options of sbatch, by name.
        setup: lines of shell before the run.
    """

    nodes: int = 1
    gpus_per_node: int = 0
    ranks_per_node: int = 1
    cpus_per_task: int | None = None
    mem: str | None = None
    minutes: int = 240
    grace: int = 90
    requeues: int = 20
    slurm_partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    sbatch: tuple[tuple[str, str], ...] = ()
    setup: tuple[str, ...] = ()


def read_slurm_options(words: Words) -> SlurmOptions:
    """Read the options named in SLURM_VALUES.

    Args:
        words: a command line, split with those among its values.

    Raises:
        ConfigError: one of them is not accepted, or there are more ranks than GPUs.
    """

    def number(key: str, default: int, least: int = 1) -> int:
        return whole_number(key, words.last(key, str(default)), least)

    def given(key: str) -> str | None:
        return words.last(key, "") or None

    gpus = number("gpus_per_node", 0, least=0)
    ranks = number("ranks_per_node", gpus or 1)
    if gpus and ranks > gpus:
        raise ConfigError("--ranks_per_node", f"{ranks} ranks for {gpus} GPU(s)", "at most one for each GPU")
    minutes, grace = read_minutes(words.last("time", "4:00:00")), number("grace", 90)
    if grace >= 60 * minutes:
        raise ConfigError("--grace", f"{grace} seconds are not less than --time", f"1 to {60 * minutes - 1}")
    return SlurmOptions(
        nodes=number("nodes", 1),
        gpus_per_node=gpus,
        ranks_per_node=ranks,
        cpus_per_task=number("cpus_per_task", 1) if given("cpus_per_task") else None,
        mem=_memory(given("mem")),
        minutes=minutes,
        grace=grace,
        requeues=number("requeues", 20, least=0),
        slurm_partition=given("slurm_partition"),
        account=given("account"),
        qos=given("qos"),
        constraint=given("constraint"),
        sbatch=tuple(_sbatch(each) for each in words.values["sbatch"]),
        setup=words.values["setup"],
    )


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


def _memory(text: str | None) -> str | None:
    if text is not None and not re.fullmatch(r"\d+[KMGT]?", text):
        raise ConfigError("--mem", f"{text} is no size", "500M, 32G and the like")
    return text


def _sbatch(text: str) -> tuple[str, str]:
    """Name and value; a bare name has none."""
    key, _, value = text.removeprefix("--").partition("=")
    if not re.fullmatch(r"[a-z][a-z-]*", key) or "\n" in value:
        raise ConfigError("--sbatch", f"{text} is no option of sbatch", "nodelist=n1, exclusive and the like")
    if key in _OF_LAUNCHER:
        raise ConfigError("--sbatch", f"{key} is not the user's to give here; give {_OF_LAUNCHER[key]}")
    return key, value
