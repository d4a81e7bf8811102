"""The state of jobs, as Slurm's queue tells it: it needs no accounting, which not every cluster has."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass

from fl_ddp.config.options import suggestion
from fl_ddp.errors import ConfigError, one_line
from launch.slurm.options import SlurmOptions

_LONGEST_ANSWER = 120.0
"""Seconds; Slurm's commands themselves end sooner where its controller is gone."""

_ENDED = {
    "BOOT_FAIL": "its node did not start",
    "CANCELLED": "cancelled",
    "COMPLETED": "ended",
    "DEADLINE": "not done by its deadline",
    "FAILED": "failed",
    "GONE": "ended, and Slurm has forgotten how",
    "NODE_FAIL": "its node failed",
    "OUT_OF_MEMORY": "out of memory",
    "PREEMPTED": "preempted, and not requeued",
    "REVOKED": "revoked",
    "TIMEOUT": "at its time limit",
}


@dataclass(frozen=True)
class JobState:
    """What Slurm says of a job.

    Attributes:
        name: RUNNING, say; GONE where Slurm has forgotten the job.
        reason: why it waits.
    """

    name: str
    reason: str = ""

    @property
    def ended(self) -> bool:
        """Whether it will not run any more."""
        return self.name in _ENDED

    @property
    def waits(self) -> str:
        """Why it waits, as Slurm puts it; empty if it does not."""
        return self.reason if self.name == "PENDING" and self.reason != "None" else ""

    @property
    def words(self) -> str:
        """How it ended, for messages."""
        return _ENDED.get(self.name, self.name.lower())


GONE = JobState("GONE")
"""Of a job that Slurm does not remember."""


def job_states() -> dict[str, JobState]:
    """All of the user's jobs that Slurm remembers, by id; elements of arrays as 12_3.

    Raises:
        ConfigError: Slurm does not answer.
    """
    # --all: also of partitions that are hidden from the user
    table = _ask("squeue", "--all", "--noheader", "--array", "--states=all", f"--user={os.getuid()}",
                 "--Format=JobArrayID:|,State:|,Reason:|")  # fmt: skip
    rows = (line.split("|") for line in table.splitlines())
    found = [(row[0], JobState(row[1], row[2])) for row in rows]
    # of several clusters each may know of a job; the last in this order counts
    return dict(sorted(found, key=lambda job: not job[1].ended))


def check_slurm(options: SlurmOptions) -> None:
    """See whether there is a Slurm here, and the partition that is asked for.

    Raises:
        ConfigError: there is no Slurm, it does not answer, or has no such partition.
    """
    if not shutil.which("sbatch"):
        raise ConfigError("there is no Slurm on this machine", "sbatch is not on PATH; log in to the cluster first")
    known = list(dict.fromkeys(_ask("sinfo", "--all", "--noheader", "--format=%R").split()))
    for name in (each for each in (options.slurm_partition or "").split(",") if each and each not in known):
        near = suggestion(name, known)
        hint = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
        raise ConfigError("--slurm_partition", f"Slurm has no partition {name}; {hint}")


def _ask(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_ANSWER)
    except subprocess.TimeoutExpired as error:
        why = f"{command[0]} has said nothing for {error.timeout:.0f} s"
        raise ConfigError("Slurm does not answer", why) from error
    except OSError as error:
        raise ConfigError("Slurm does not answer", f"{command[0]} cannot be started ({error.strerror})") from error
    if done.returncode:
        raise ConfigError("Slurm does not answer", one_line(done.stderr) or f"{command[0]} failed")
    return done.stdout
