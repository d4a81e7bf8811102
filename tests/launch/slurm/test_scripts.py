"""When a job of a script in slurm/ has itself requeued; Slurm's commands are stand-ins here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from written_runs import Written

SCRIPTS = Path(__file__).parents[3] / "slurm"


@pytest.mark.parametrize(
    ("rounds", "left", "options", "requeued"),
    [
        (2, {"rounds": 2}, [], False),
        (2, {"rounds": 2}, ["--rounds", "2"], False),
        (2, {"rounds": 2}, ["--rounds", "5"], True),
        (2, {"rounds": 2}, ["--round", "5"], False),
        (9, {"rounds": 2, "stopped": "accuracy is 0.5"}, [], False),
        (9, None, [], True),
        (9, {"rounds": 1, "stopped": "accuracy was 0.4, and it went on"}, [], True),
        (None, None, [], True),
    ],
)
@pytest.mark.parametrize("script", ["train.sbatch", "train_multinode.sbatch"])
def test_a_job_comes_again_until_its_run_has_ended(
    script: str, rounds: int | None, left: dict[str, object] | None, options: list[str], requeued: bool, tmp_path: Path
) -> None:
    if rounds:
        run = Written({}, [0.5, 0.5], rounds).at(tmp_path / "runs" / "mine")
        if left:
            (run / "summary.json").write_text(json.dumps(left))
    (commands := tmp_path / "bin").mkdir()
    for name, words in {"srun": "exit 0", "scontrol": f'echo "$1" >> {tmp_path}/said; echo node0'}.items():
        (commands / name).write_text(f"#!/bin/sh\n{words}\n")
        (commands / name).chmod(0o755)
    path = f"{commands}:{Path(sys.executable).parent}:/usr/bin:/bin"
    slurm = {
        "SLURM_CPUS_PER_TASK": "1",
        "SLURM_JOB_ID": "12",
        "SLURM_JOB_NODELIST": "node0",
        "SLURM_JOB_NUM_NODES": "1",
    }
    command = ["bash", str(SCRIPTS / script), "mine", *options]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **slurm, "PATH": path})
    assert done.returncode == (2 if "--round" in options else 0)
    said = (tmp_path / "said").read_text().split() if (tmp_path / "said").exists() else []
    assert ("requeue" in said) == requeued
