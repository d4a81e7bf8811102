"""What a job of Slurm does: one rank of a run, which goes on wherever an earlier job left it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from submitit import JobEnvironment
from submitit.helpers import DelayedSubmission

from fl_ddp.errors import ConfigError
from launch.planned_run import PlannedRun
from launch.runs import read_run

_ERROR = "fl_ddp: error: "


def words_of_job(job_id: str, logs: Iterable[Path]) -> str | None:
    """The line that says why a job's run failed, if it said so.

    Args:
        job_id: of the job; what earlier jobs wrote into the same log does not count.
        logs: of the run and of the job's tasks; the first that says something counts.
    """
    for log in logs:
        text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        said = [line for line in text.rpartition(_header(job_id))[2].splitlines() if line.startswith(_ERROR)]
        if said:
            return said[-1].removeprefix(_ERROR)
    return None


def _header(job_id: str) -> str:
    """What rank 0 writes into the run's log before anything else."""
    return f"fl_ddp: job {job_id}, "


class Rank:
    """One task of a job: a process of fl_ddp.main, and what becomes of the job when that ends.

    It ends with the exit code of fl_ddp.main, and returns only where the run is finished: what was only stopped must
    not look like a result.
    """

    def __init__(self, run: PlannedRun, grace: int) -> None:
        """Plan a rank.

        Args:
            run: whose rank it is.
            grace: seconds a run has to save its last round before Slurm kills it.
        """
        self._run, self._grace = run, grace
        _ = run.config  # travels with the run: reading options takes seconds
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = False

    def __call__(self) -> None:
        """Start the run, or go on with it, and wait for its end."""
        signal.signal(signal.SIGTERM, self._stop)
        code = self._rank() if os.environ["SLURM_PROCID"] != "0" else self._first_rank()
        if code == 0 and (found := read_run(self._run.folder)) and found.ended:
            return
        sys.stdout.flush()
        sys.exit(code)

    def checkpoint(self) -> DelayedSubmission:
        """Wait until the run has saved its last round; submitit calls this in rank 0 at SIGUSR2, and requeues the job.

        Returns:
            the same rank, which goes on from there.
        """
        if self._child:
            try:
                self._child.wait(max(self._grace - 5, 1))
            except subprocess.TimeoutExpired:
                self._child.kill()  # an older checkpoint is there to go on with
        return DelayedSubmission(Rank(self._run, self._grace))

    def _first_rank(self) -> int:
        """Rank 0, which alone writes."""
        job, attempt = JobEnvironment().job_id, os.environ.get("SLURM_RESTART_COUNT", "0")
        with self._run.log.open("ab") as log:
            log.write(f"{_header(job)}attempt {attempt}, on {os.environ['SLURM_STEP_NODELIST']}\n".encode())
            log.flush()
            try:
                self._run.clear()
            except ConfigError as error:
                log.write(f"fl_ddp: error: {error}\n".encode())
                return 2
            code = self._rank(log.fileno())
            if code < 0 and not self._stopped:
                log.write(f"fl_ddp: error: killed by {signal.Signals(-code).name}; out of memory?\n".encode())
        return code

    def _rank(self, log: int | None = None) -> int:
        """Run fl_ddp.main; its exit code.

        No rank makes the run's folder before all have joined, and so have looked at it: all decide alike here whether
        the run begins or goes on.
        """
        command = [sys.executable, "-u", "-m", "fl_ddp.main", *self._run.options_now()]
        self._child = subprocess.Popen(command, stdout=log, stderr=log)
        return self._child.wait()

    def _stop(self, number: int, _: FrameType | None) -> None:
        """SIGTERM reaches the run, too: what is left to do is to remember it."""
        self._stopped = True
