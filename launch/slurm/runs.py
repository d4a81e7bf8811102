"""Runs made by Slurm: those that are not in its queue yet go there as one job array."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from submitit import SlurmJob

from fl_ddp.errors import RankLostError
from fl_ddp.host.stdout import say
from launch.run.outcome import Outcome
from launch.run.trial import Trial
from launch.slurm.following import JobFailure, follow
from launch.slurm.jobs import submit
from launch.slurm.options import SlurmOptions
from launch.slurm.queue import check_slurm
from launch.slurm.submitted import Submitted, unfinished

_CAN_GO_ON = ("CANCELLED", "GONE", "NODE_FAIL", "PREEMPTED", "TIMEOUT")
"""States of jobs whose runs have no fault of their own."""


def make_there(
    trials: Sequence[Trial],
    options: SlurmOptions,
    folder: Path,
    parallel: int | None,
    *,
    wait: bool,
    note: Callable[[Outcome], None],
) -> list[Outcome]:
    """Submit the trials that are neither finished nor in the queue.

    Args:
        trials: to be made.
        options: what every job asks for.
        folder: for the files of submitit and of Slurm.
        parallel: most jobs at once; None is all.
        wait: follow the jobs to their ends.
        note: is called with each outcome.

    Returns:
        the outcomes in the order of the trials.

    Raises:
        ConfigError: Slurm is not there or refuses; nothing is submitted.
    """
    check_slurm(options)
    damaged = {trial.label: Outcome(trial, "failed", why) for trial in trials if (why := trial.damage())}
    left = [trial for trial in trials if trial.label not in damaged and not trial.is_finished()]
    jobs = unfinished(left)
    new = [trial for trial in left if trial.label not in jobs]
    if jobs:
        say(f"{len(jobs)} runs are in Slurm's queue already")
    if new:
        submitted = submit(new, options, folder, parallel)
        for trial, job in zip(new, submitted, strict=True):
            jobs[trial.label] = Submitted(job.job_id, str(folder))
        array = submitted[0].job_id.partition("_")[0]
        say(f"submitted {len(new)} runs as job {array}; squeue --me shows it, scancel {array} ends it")
    failures = _followed(left, jobs) if wait else None
    outcomes = [damaged.get(trial.label) or _outcome(trial, jobs, failures) for trial in trials]
    for outcome in outcomes:
        note(outcome)
    return outcomes


def _followed(trials: Sequence[Trial], jobs: Mapping[str, Submitted]) -> dict[str, JobFailure] | None:
    """Wait for the ends of jobs; nothing where the user does not wait any longer."""
    try:
        mine = [jobs[trial.label] for trial in trials]
        return follow([SlurmJob(each.files, each.job) for each in mine], trials, say)
    except KeyboardInterrupt:
        arrays = " ".join(dict.fromkeys(each.job.partition("_")[0] for each in jobs.values()))
        print(f"\nthe jobs go on; scancel {arrays} ends them", file=sys.stderr)
        return None


def _outcome(trial: Trial, jobs: Mapping[str, Submitted], failures: Mapping[str, JobFailure] | None) -> Outcome:
    if trial.label not in jobs:
        return Outcome(trial, "finished", "was finished")
    if failures is None:
        return Outcome(trial, "submitted", f"job {jobs[trial.label].job}")
    if trial.label not in failures:
        return Outcome(trial, "finished", "finished")
    # what was cancelled or lost can go on; all else would come again
    failure = failures[trial.label]
    can_go_on = failure.state in _CAN_GO_ON or failure.code == RankLostError.exit_code
    return Outcome(trial, "stopped" if can_go_on else "failed", failure.why)
