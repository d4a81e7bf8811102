"""Where the files of submitit and of Slurm go."""

from __future__ import annotations

from pathlib import Path


def job_folder(run: Path) -> Path:
    """For the files of a run's own job; beside its folder, which does not exist before the run has begun."""
    return run.with_name(f"{run.name}.slurm")


def array_folder(runs: Path) -> Path:
    """For the files of a job array; in the folder of its runs, whose name is the array's."""
    return runs / f"{runs.name}.slurm"
