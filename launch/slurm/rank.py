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
from io import FileIO
from pathlib import Path
from types import FrameType

from submitit import JobEnvironment
from submitit.helpers import DelayedSubmission

from fl_ddp.errors import ConfigError, RankLostError
from fl_ddp.results.run_folder import FolderInUseError, RunFolder
from launch.run.log import ERROR, heading, killed, log_beside, words_of_job
from launch.run.stored import read_run
from launch.run.trial import clear, starting_options
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

    def __init__(self, folder: str, first: tuple[str, ...], free: tuple[str, ...], grace: int) -> None:
        """Make a rank that waits to be called.

        Args:
            folder: of the run, absolute.
            first: options of fl_ddp.main that begin the run.
            free: those that may be others when it goes on.
            grace: seconds a run has to save its last round before Slurm kills it.
        """
        self._asked = (folder, first, free, grace)
        self._folder, self._first, self._free, self._grace = Path(folder), first, free, grace
        self._log = log_beside(self._folder)
        self._child: int | None = None
        self._terminated = False

    def __reduce__(self) -> tuple[type[Rank], tuple[str, tuple[str, ...], tuple[str, ...], int]]:
        return Rank, self._asked

    def __call__(self) -> None:
        """Start the run, or go on with it, and wait for its end."""
        signal.signal(signal.SIGTERM, self._remember)
        task = JobEnvironment()
        log = self._log if task.global_rank == 0 else task.paths.stderr
        with log.open("ab", buffering=0) as file:
            attempt = int(os.environ.get("SLURM_RESTART_COUNT", 0))
            nodes = os.environ["SLURM_STEP_NODELIST"]
            file.write(f"{heading(task.job_id)}attempt {attempt}, {task.num_tasks} rank(s) on {nodes}\n".encode())
            try:
                if task.global_rank == 0:
                    self._free_folder(attempt > 0)
                code = self._train(file)
            except ConfigError as error:
                file.write(f"{ERROR}{error}\n".encode())
                code = 2
            if code not in _STOPS and code < 0:
                file.write(f"{ERROR}{killed(code)}\n".encode())
        if code == 0 and (found := read_run(self._folder)) and found.ended:
            return
        if code in _STOPS:
            code = 0 if task.global_rank else self._stopped(task.job_id)
        else:
            self._failed(task, code, words_of_job(task.job_id, [log]))
        sys.exit(code if code >= 0 else 128 - code)

    def checkpoint(self) -> DelayedSubmission:
        """Wait until the run has saved its last round; submitit calls this in rank 0 at SIGUSR2, and requeues the job.

        Returns:
            the same rank, which goes on from there.
        """
        end = time.monotonic() + max(self._grace - 5, 1)
        while self._child and not _has_ended(self._child) and time.monotonic() < end:
            time.sleep(0.05)
        return DelayedSubmission(Rank(*self._asked))

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

    def _train(self, log: FileIO) -> int:
        """Run fl_ddp.main; its exit code.

        No rank makes the run's folder before all have joined, and so have looked at it: all decide alike here whether
        the run begins or goes on.
        """
        options = starting_options(self._folder, self._first, self._free)
        child = subprocess.Popen([sys.executable, "-u", "-m", "fl_ddp.main", *options], stdout=log, stderr=log)
        self._child = child.pid
        # not reaped here: checkpoint(), which may interrupt this at any point, looks at it, too
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        return child.wait()

    def _failed(self, task: JobEnvironment, code: int, words: str | None) -> None:
        """What a rank does when the run has failed: only the one that is to blame ends the job at once.

        Of the others one says that a rank is gone, and the rest say nothing. They wait: where a node is lost Slurm
        requeues the job.

        Args:
            task: of this rank.
            code: exit code of its process.
            words: that it ended with.
        """
        if words is not None and code != RankLostError.exit_code:
            if task.global_rank:
                with self._log.open("a", encoding="utf-8") as log:
                    log.write(f"{ERROR}{words}\n")
        elif task.num_nodes > 1:
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


def _has_ended(process: int) -> bool:
    try:
        return os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    except ChildProcessError:
        return True
