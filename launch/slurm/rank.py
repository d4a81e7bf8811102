"""What a job of Slurm does: one rank of a run, which goes on wherever an earlier job left it.

Jobs wait in the queue as pickles that name launch.slurm.rank.Rank: neither this module nor its class is ever moved or
renamed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from io import FileIO
from pathlib import Path
from types import FrameType

from submitit import JobEnvironment
from submitit.helpers import DelayedSubmission

from fl_ddp.errors import ConfigError, RankLostError, error_line
from fl_ddp.host.failure_note import NOTE
from fl_ddp.results.run_folder import FolderInUseError, RunFolder
from launch.run.failure import Failure, failure_beside, read_failure
from launch.run.log import killed, last_words, log_beside
from launch.run.trial import clear, starting_options
from launch.slurm.ended import has_ended
from launch.slurm.queue import GONE, job_states

_WARNING = 3.0
"""Seconds within which SIGUSR2 follows a SIGTERM that announces it."""
_PATIENCE = 600.0
"""Seconds for Slurm to find out that a node is lost; it is told to look every few minutes."""
_STOPS = (-signal.SIGTERM, -signal.SIGUSR2, 0)
"""How a run ends that is stopped; by a signal if it came in its first moments."""


class Rank:
    """One task of a job: a process of fl_ddp.main, and what becomes of the job when that ends.

    It returns only where the run is finished, and else ends with an exit code: what was only stopped must not look like
    a result. A pickle of it holds the arguments of its constructor and nothing else; a later version must take them,
    too.
    """

    def __init__(
        self, folder: str, first: tuple[str, ...], free: tuple[str, ...], grace: int, comes_again: bool = True
    ) -> None:
        """Make a rank that waits to be called.

        Args:
            folder: of the run, absolute.
            first: options of fl_ddp.main that begin the run.
            free: those that may be others when it goes on.
            grace: seconds a run has to save its last round before Slurm kills it.
            comes_again: whether the job may be requeued.
        """
        self._asked = (folder, first, free, grace, comes_again)
        self._folder, self._first, self._free, self._grace = Path(folder), first, free, grace
        self._comes_again = comes_again
        self._log = log_beside(self._folder)
        self._child: int | None = None
        self._terminated = False

    def __reduce__(self) -> tuple[type[Rank], tuple[str, tuple[str, ...], tuple[str, ...], int, bool]]:
        return Rank, self._asked

    def __call__(self) -> None:
        """Start the run, or go on with it, and wait for its end."""
        signal.signal(signal.SIGTERM, self._remember)
        task = JobEnvironment()
        log = self._log if task.global_rank == 0 else task.paths.stderr
        note = task.paths.stderr.with_name(f"{task.job_id}_{task.global_rank}_failure.json")
        note.unlink(missing_ok=True)
        attempt = int(os.environ.get("SLURM_RESTART_COUNT", 0))
        failure, finished = None, False
        with log.open("ab", buffering=0) as file:
            on = f"{task.num_tasks} rank(s) on {os.environ['SLURM_STEP_NODELIST']}"
            file.write(f"fl_ddp: job {task.job_id}, attempt {attempt}, {on}\n".encode())
            place = log.stat().st_size
            try:
                if task.global_rank == 0:
                    self._forget_failure(task.job_id, attempt)
                    self._free_folder(attempt > 0)
                code = self._train(file, note)
                if code not in _STOPS:
                    told = read_failure(note)
                    failure = told or _untold(code, log, place)
                    if code < 0 and not told:
                        file.write(f"{error_line(killed(code))}\n".encode())
                finished = code == 0 and has_ended(self._folder, self._free)
            except ConfigError as error:
                code, failure = error.exit_code, Failure(error.exit_code, str(error))
                file.write(f"{error_line(str(error))}\n".encode())
        if failure:
            self._failed(task, replace(failure, job=task.job_id, attempt=attempt))
        elif finished:
            return
        else:
            code = 0 if task.global_rank else self._stopped(task.job_id)
        sys.exit(code if code >= 0 else 128 - code)

    def checkpoint(self) -> DelayedSubmission | None:
        """Wait until the run has saved its last round; submitit calls this in rank 0 at SIGUSR2, and requeues the job.

        Returns:
            the same rank, which goes on from there; nothing if the job may not come again, which fails then.
        """
        end = time.monotonic() + max(self._grace - 5, 1)
        while self._child and not _has_ended(self._child) and time.monotonic() < end:
            time.sleep(0.05)
        return DelayedSubmission(Rank(*self._asked)) if self._comes_again else None

    def _free_folder(self, requeued: bool) -> None:
        """Have the run's folder to ourselves; what was begun there without a first round goes.

        Where Slurm lost sight of a node, the first attempt of a requeued job lives on there until Slurm finds it again.
        """
        end = time.monotonic() + _PATIENCE
        while requeued and self._folder.is_dir():
            try:
                with RunFolder(self._folder):
                    break
            except FolderInUseError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
        clear(self._folder)

    def _forget_failure(self, job_id: str, attempt: int) -> None:
        """Remove what an earlier attempt left; another rank of this one may have failed already."""
        file = failure_beside(self._folder)
        if (before := read_failure(file)) and (before.job, before.attempt) != (job_id, attempt):
            file.unlink()

    def _train(self, log: FileIO, note: Path) -> int:
        """Run fl_ddp.main, which leaves a note if it fails; its exit code.

        No rank makes the run's folder before all have joined, and so have looked at it: all decide alike here whether
        the run begins or goes on.
        """
        options = starting_options(self._folder, self._first, self._free)
        command = [sys.executable, "-u", "-m", "fl_ddp.main", *options]
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, NOTE: str(note)})
        self._child = child.pid
        # not reaped here: checkpoint(), which may interrupt this at any point, looks at it, too
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return child.wait()

    def _failed(self, task: JobEnvironment, failure: Failure) -> None:
        """What a rank does when the run has failed: only the one that is to blame ends the job at once.

        Of the others one says that a rank is gone, and the rest say nothing. They wait: where a node is lost Slurm
        requeues the job.
        """
        file = failure_beside(self._folder)
        if failure.why is not None and failure.would_come_again:
            failure.write(file)
            if task.global_rank:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(f"{error_line(failure.why)}\n")
            return
        if failure.why is not None and not file.is_file():
            failure.write(file)
        if task.num_nodes > 1:
            time.sleep(_PATIENCE)

    def _stopped(self, job_id: str) -> int:
        """What rank 0 does when the run was stopped: go on in a new job, unless Slurm is ending this one anyway."""
        time.sleep(_WARNING)  # SIGUSR2 ends this, by way of checkpoint()
        try:
            state = job_states().get(job_id, GONE)
        except ConfigError:
            state = GONE
        if self._terminated and state.name == "RUNNING":
            signal.raise_signal(signal.SIGUSR2)
        return 1

    def _remember(self, number: int, _: FrameType | None) -> None:
        """SIGTERM reaches the run, too, which stops."""
        self._terminated = True


def _untold(code: int, log: Path, place: int) -> Failure:
    """The failure of a process that left no note; one that noticed a lost rank leaves the word to another.

    Args:
        code: exit code of the process.
        log: that it wrote into.
        place: size of the log when it began.
    """
    if code == RankLostError.exit_code:
        return Failure(code, None)
    return Failure(code, killed(code) if code < 0 else last_words(log, place))


def _has_ended(process: int) -> bool:
    try:
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True
