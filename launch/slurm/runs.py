"""Runs made by Slurm: those that are not in its queue yet go there as one job array."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from submitit import SlurmJob

from fl_ddp.host.stdout import say
from launch.run.outcome import Outcome
from launch.run.planned import PlannedRun
from launch.slurm.jobs import Failure, follow, submit, unfinished
from launch.slurm.options import SlurmOptions
from launch.slurm.queue import check_slurm

_CAN_GO_ON = ("CANCELLED", "GONE", "NODE_FAIL", "PREEMPTED", "TIMEOUT")
"""States of jobs whose runs have no fault of their own."""


def make_there(
    runs: Sequence[PlannedRun],
    options: SlurmOptions,
    folder: Path,
    parallel: int | None,
    *,
    wait: bool,
    note: Callable[[Outcome], None],
) -> list[Outcome]:
    """Submit the runs that are neither finished nor in the queue.

    Args:
        runs: to be made.
        options: what every job asks for.
        folder: for the files of submitit and of Slurm.
        parallel: most jobs at once; None leaves it to Slurm.
        wait: follow the jobs to their ends.
        note: is called with each outcome.

    Returns:
        the outcomes in the order of the runs.

    Raises:
        ConfigError: Slurm is not there or refuses; nothing is submitted.
    """
    check_slurm(options)
    left = [run for run in runs if not ((found := run.found()) and found.ended)]
    jobs = unfinished(left, folder)
    new = [run for run in left if run.label not in jobs]
    if jobs:
        say(f"{len(jobs)} runs are in Slurm's queue already")
    if new:
        submitted = submit(new, options, folder, parallel)
        for run, job in zip(new, submitted, strict=True):
            jobs[run.label] = job.job_id
            with run.log.open("a", encoding="utf-8") as log:  # what the log says before this is of an earlier job
                log.write(f"fl_ddp: submitted as job {job.job_id}\n")
        array = submitted[0].job_id.partition("_")[0]
        say(f"submitted {len(new)} runs as job {array}; squeue --me shows it, scancel {array} ends it")
    failures = _followed(left, jobs, folder) if wait else None
    outcomes = [_outcome(run, jobs, failures) for run in runs]
    for outcome in outcomes:
        note(outcome)
    return outcomes


def _followed(runs: Sequence[PlannedRun], jobs: Mapping[str, str], folder: Path) -> dict[str, Failure] | None:
    """Wait for the ends of jobs; nothing where the user does not wait any longer."""
    try:
        return follow([SlurmJob(folder, jobs[run.label]) for run in runs], runs, say)
    except KeyboardInterrupt:
        arrays = " ".join(dict.fromkeys(job.partition("_")[0] for job in jobs.values()))
        print(f"\nthe jobs go on; scancel {arrays} ends them", file=sys.stderr)
        return None


def _outcome(run: PlannedRun, jobs: Mapping[str, str], failures: Mapping[str, Failure] | None) -> Outcome:
    if run.label not in jobs:
        return Outcome(run, "finished", "was finished")
    if failures is None:
        return Outcome(run, "submitted", f"job {jobs[run.label]}")
    if run.label not in failures:
        return Outcome(run, "finished", "finished")
    # what was cancelled or lost can go on; all else would come again
    failure = failures[run.label]
    return Outcome(run, "stopped" if failure.state in _CAN_GO_ON else "failed", failure.why)
