"""The newest job of a run, as a file beside its folder: every command that asks for the run finds it there."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.reading.json_file import read_json_if_there
from launch.run.trial import Trial
from launch.slurm.queue import GONE, job_states


@dataclass(frozen=True)
class Submitted:
    """A job of a run.

    Attributes:
        job: its id.
        files: folder of what submitit and Slurm write of it.
    """

    job: str
    files: str

    def why_wait(self, whose: str, also: str = "") -> str:
        """Why something must wait for the job.

        Args:
            whose: what the job is of.
            also: what else is to be said of it.
        """
        return f"job {self.job} of {whose} has not ended{also}; wait for it, or scancel {self.job}"

    def write(self, run: Path) -> None:
        """Note that this is a run's newest job.

        Raises:
            RunError: it cannot be written.
        """
        write_text(job_beside(run), json.dumps(asdict(self)) + "\n")


def job_beside(run: Path) -> Path:
    """The file for a run's newest job; beside its folder, which does not exist before the run has begun."""
    return run.with_name(f"{run.name}.job.json")


def unfinished(trials: Iterable[Trial]) -> dict[str, Submitted]:
    """Jobs that wait or run, by label of the trial.

    Args:
        trials: of which some may have been submitted before.

    Raises:
        ConfigError: Slurm does not answer, or a file is not what submit() writes.
    """
    known = {trial.label: job for trial in trials if (job := _newest(job_beside(trial.folder)))}
    states = job_states() if known else {}
    return {label: job for label, job in known.items() if not states.get(job.job, GONE).ended}


def in_queue(trials: Iterable[Trial]) -> dict[str, Submitted]:
    """As unfinished(), on a machine that may have no Slurm: jobs that a folder from elsewhere names do not count."""
    return unfinished(trials) if shutil.which("squeue") else {}


def _newest(file: Path) -> Submitted | None:
    what = "is not what is left of a job"
    if (content := read_json_if_there(file, what)) is None:
        return None
    try:
        return Submitted(str(content["job"]), str(content["files"]))
    except KeyError as error:
        raise ConfigError(file, f"{what} ({error})") from error
