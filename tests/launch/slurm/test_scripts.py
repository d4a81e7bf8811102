"""What a job of a script in slurm/ refuses, begins anew or has requeued; Slurm's commands are stand-ins here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from written_runs import Written

SCRIPTS = Path(__file__).parents[3] / "slurm"
SLURM = {
    "SLURM_CPUS_PER_TASK": "1",
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NODELIST": "node0",
    "SLURM_JOB_NUM_NODES": "1",
}

Batch = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(params=["train.sbatch", pytest.param("train_multinode.sbatch", marks=pytest.mark.slow)])
def batch(request: pytest.FixtureRequest, tmp_path: Path) -> Batch:
    """A script with NAME mine, in a folder in which `said` has what it asks of srun and scontrol."""
    (commands := tmp_path / "bin").mkdir()
    for name, words in {"srun": "echo srun", "scontrol": 'echo "$1"'}.items():
        (commands / name).write_text(f"#!/bin/sh\n{words} >> {tmp_path}/said\necho node0\n")
        (commands / name).chmod(0o755)

    def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        path = f"{commands}:{Path(sys.executable).parent}:/usr/bin:/bin"
        env = {**os.environ, **SLURM, "PATH": path, **environment}
        command = ["bash", str(SCRIPTS / request.param), "mine", *words]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)

    return run


def said(folder: Path) -> list[str]:
    """What a script has asked of srun and scontrol, by their first words."""
    file = folder / "said"
    return [word for word in file.read_text().split() if word in ("srun", "requeue")] if file.exists() else []


@pytest.mark.parametrize(
    ("rounds", "left", "options", "requeued"),
    [
        (2, {"rounds": 2}, [], False),
        (2, {"rounds": 2}, ["--rounds", "5"], True),
        pytest.param(2, {"rounds": 2}, ["--config", "other.yaml"], False, marks=pytest.mark.slow),
        (9, {"rounds": 2, "stopped": "accuracy is 0.5"}, [], False),
        (9, None, ["--config", "other.yaml"], True),
        (None, None, [], True),
    ],
)
def test_a_job_comes_again_until_its_run_has_ended(
    rounds: int | None, left: dict[str, object] | None, options: list[str], requeued: bool, batch: Batch, tmp_path: Path
) -> None:
    (tmp_path / "other.yaml").write_text("name: other\nout: elsewhere\n")
    if rounds:
        run = Written({}, [0.5, 0.5], rounds).at(tmp_path / "runs" / "mine")
        if left:
            (run / "summary.json").write_text(json.dumps(left))
    done = batch(*options)
    assert (done.returncode, done.stderr) == (0, "")
    assert said(tmp_path) == (["srun", "requeue"] if requeued else ["srun"])


def test_outside_a_job_nothing_is_begun(batch: Batch, tmp_path: Path) -> None:
    done = batch(SLURM_JOB_ID="")
    assert done.returncode and done.stderr.endswith("SLURM_JOB_ID: this is a job for sbatch\n") and not said(tmp_path)


def test_a_mistaken_option_ends_a_job(batch: Batch, tmp_path: Path) -> None:
    Written({}, [0.5, 0.5]).at(tmp_path / "runs" / "mine")
    assert batch("--round", "5").returncode == 2 and "requeue" not in said(tmp_path)


def test_a_job_that_comes_no_more_says_that_its_run_is_not_finished(batch: Batch, tmp_path: Path) -> None:
    run = Written({}, [0.5, 0.5], 9).at(tmp_path / "out" / "mine")
    done = batch(OUT="out", SLURM_RESTART_COUNT="20")
    told = "out/mine is not finished after 20 restarts of its job; the same sbatch command goes on with it\n"
    assert (done.returncode, done.stderr) == (1, told) and said(tmp_path) == ["srun"]
    (run / "summary.json").write_text('{"rounds": 2, "stopped": "accuracy is 0.5"}')
    assert (done := batch(OUT="out", SLURM_RESTART_COUNT="20")).returncode == 0 and done.stderr == ""


def test_an_option_that_leads_elsewhere_ends_a_job_before_its_run(batch: Batch, tmp_path: Path) -> None:
    done = batch("--out=other")
    told = "sbatch script: error: --out: is not the user's to give here; give OUT=FOLDER before sbatch\n"
    assert (done.returncode, done.stderr) == (2, told) and said(tmp_path) == []


def test_a_run_that_was_stopped_before_it_had_begun_begins_anew(batch: Batch, tmp_path: Path) -> None:
    (run := tmp_path / "runs" / "mine").mkdir(parents=True)
    (run / ".lock").touch()
    assert batch("--lr", "0.5").returncode == 0 and not run.exists()
