"""A real Slurm of two nodes for the tests, and what they do with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from launching import PATIENCE, options

import fl_ddp
from launch.submit import main

PROJECT = Path(fl_ddp.__file__).parents[1]
SCRIPT = PROJECT / "slurm" / "dev_cluster.sh"


@contextmanager
def dev_cluster(folder: Path) -> Iterator[None]:
    """A cluster within a block; skips the test where none can be had, unless FL_DDP_NEEDS_SLURM is set."""
    started = subprocess.run([SCRIPT, "up", folder], capture_output=True, text=True)
    if started.returncode:
        why = f"no Slurm here: {started.stderr[-500:]}"
        (pytest.fail if "FL_DDP_NEEDS_SLURM" in os.environ else pytest.skip)(why)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        patch.setenv("PYTHONPATH", str(PROJECT))
        patch.setenv("OMP_NUM_THREADS", "1")
        try:
            yield
        finally:
            subprocess.run([SCRIPT, "down", folder], check=True)


@contextmanager
def without_slurmd(folder: Path, node: str) -> Iterator[None]:
    """Kill Slurm's daemon on a node, and start it anew at the end of the block."""
    pid = folder / "run" / f"slurmd-{node}"
    os.kill(int(pid.read_text()), signal.SIGKILL)
    try:
        yield
    finally:
        with (folder / "log" / f"slurmd-{node}").open("ab") as log:
            daemon = ["slurmd", "-D", "-N", node, "-f", str(folder / "slurm.conf")]
            anew = subprocess.Popen(daemon, stdout=log, stderr=log, start_new_session=True, cwd=folder)
        pid.write_text(str(anew.pid))


def command(*words: str) -> str:
    """What a command of Slurm prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def submitted(settings: Mapping[str, object], out: Path, *words: str) -> tuple[Path, str]:
    """Submit a run with a limit of an hour; its folder and job."""
    assert main([*options({**settings, "out": out}), "--time=60", *words]) == 0
    run = out / str(settings["name"])
    return run, newest_job(run)


def newest_job(run: Path) -> str:
    """Id of the job that was submitted last for a run."""
    return max(
        (file.name.partition("_")[0] for file in run.with_name(f"{run.name}.slurm").glob("*_submitted.pkl")), key=int
    )


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}; {command('squeue', '--states=all')}"
        time.sleep(0.1)


def state(job: str) -> str:
    """Of a job, as Slurm tells it."""
    return command("squeue", "--noheader", "--states=all", f"--jobs={job}", "--format=%T").strip()


def ended(job: str) -> str:
    """Wait for the end of a job; how it ended."""
    until(lambda: state(job) in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL"), f"the end of job {job}")
    return state(job)
