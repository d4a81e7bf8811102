"""Jobs of Slurm, followed to their ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from submitit import Job

from fl_ddp.errors import ConfigError, RunError
from launch.run.failure import failure_beside, read_failure
from launch.run.trial import Trial
from launch.slurm.queue import GONE, JobState, job_states

_LONGEST_PAUSE = 10.0


class JobFailure(NamedTuple):
    """How a job ended whose run is not finished.

    Attributes:
        why: one line.
        code: exit code of fl_ddp.main; 1 where something else ended it.
        state: how its job ended, as Slurm calls it; FAILED wherever the run itself complains.
    """

    why: str
    code: int
    state: str


def follow(
    jobs: Sequence[Job[None]],
    trials: Sequence[Trial],
    say: Callable[[str], None],
    meanwhile: Callable[[], None] = lambda: None,
) -> dict[str, JobFailure]:
    """Wait until all jobs have ended.

    Args:
        jobs: that submit() returned.
        trials: that they are for.
        say: is told of every run that ends, and why a single one waits.
        meanwhile: is called every few seconds.

    Returns:
        failures by label of the trial.
    """
    left = dict(zip((job.job_id for job in jobs), zip(jobs, trials, strict=True), strict=True))
    failed: dict[str, JobFailure] = {}
    start, silent, waits = time.monotonic(), False, ""
    while left:
        try:
            states, silent = job_states(), False
        except ConfigError as error:  # slurmctld is restarted now and then
            states = dict.fromkeys(left, JobState("UNKNOWN"))
            if not silent:
                say(f"{error}; asking on")
            silent = True
        meanwhile()
        if len(jobs) == 1 and waits != (waits := states.get(jobs[0].job_id, GONE).waits) and waits:
            say(f"{trials[0].label} waits: {waits}")
        for job_id in [each for each in left if states.get(each, GONE).ended]:
            job, trial = left.pop(job_id)
            failure = _failure(job, trial, states.get(job_id, GONE))
            how = f"failed: {failure.why}" if failure else "finished"
            say(f"[{len(jobs) - len(left)}/{len(jobs)}] {trial.label} {how}")
            if failure:
                failed[trial.label] = failure
        if left:
            time.sleep(min(_LONGEST_PAUSE, 1 + (time.monotonic() - start) / 30))
    return failed


def _failure(job: Job[None], trial: Trial, state: JobState) -> JobFailure | None:
    """What is wrong with a run whose job has ended; what lies in its folder counts, whatever Slurm says."""
    try:
        found = trial.read_run()
    except ConfigError as error:
        return JobFailure(str(error), 2, "FAILED")
    if found and found.ended:
        return None
    try:
        failure = read_failure(failure_beside(trial.folder))
    except ConfigError as error:
        return JobFailure(str(error), RunError.exit_code, "FAILED")
    ended_by_itself = state.name in ("FAILED", "COMPLETED", GONE.name)
    if failure and failure.job == job.job_id and ended_by_itself:
        return JobFailure(f"{failure.why} ({trial.log})", max(failure.code, RunError.exit_code), "FAILED")
    rounds = f"after round {found.rounds}" if found else "before its first round"
    return JobFailure(f"{state.words} {rounds} (job {job.job_id}, {job.paths.folder})", 1, state.name)
