"""Jobs that wait in Slurm's queue as pickles: what they hold, and what becomes of those of other versions."""

from __future__ import annotations

import os
import pickletools
import subprocess
import sys
from pathlib import Path

import pytest
from launching import SMALL, options
from submitit.core.utils import pickle_load

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import parse
from launch.run.trial import Trial
from launch.slurm.jobs import submit
from launch.slurm.options import SlurmOptions
from launch.slurm.rank import Rank

FIRST_RANK = b"claunch.slurm.rank\nRank\n(V/x/run\n(V--config=/x/a.yaml\nt(V--rounds=3\nV--eval_every=1\ntI90\ntR."
RANK = FIRST_RANK.replace(b"I90\n", b"I90\nI01\n")
"""A job's rank, as it has to be understood for ever; FIRST_RANK, too."""
ASKED = ("/x/run", ("--config=/x/a.yaml",), ("--rounds=3", "--eval_every=1"), 90, True)
RANK_OF_AN_EARLIER_VERSION = b"claunch.job\nRank\n(NtR."


@pytest.fixture(autouse=True)
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that play Slurm, before the system's on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "srun"):
        (folder / name).write_text("#!/bin/sh\necho Submitted batch job 12\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)


def submitted(*words: str, requeues: int = 1) -> Path:
    """The pickle of a job that was submitted."""
    submit([Trial("a", Path("runs/a"), words)], SlurmOptions(requeues=requeues), Path("runs/a.slurm"), None)
    (pickle,) = Path("runs/a.slurm").glob("*_submitted.pkl")
    return pickle


def test_a_pickle_names_one_class_of_ours_and_holds_plain_data() -> None:
    content = submitted(*options({**SMALL, "method": "FedProx"})).read_bytes()
    texts = [argument for _, argument, _ in pickletools.genops(content) if isinstance(argument, str)]
    assert [text for text in texts if text.startswith(("launch", "fl_ddp"))] == ["launch.slurm.rank"]


@pytest.mark.parametrize("pickle", [FIRST_RANK, RANK])
def test_the_pickle_of_today_is_understood_for_ever(pickle: bytes, tmp_path: Path) -> None:
    (tmp_path / "rank.pkl").write_bytes(pickle)
    rank: Rank = pickle_load(tmp_path / "rank.pkl")
    assert rank.__reduce__() == (Rank, ASKED)
    assert (again := rank.checkpoint()) and again.function.__reduce__() == rank.__reduce__()


def test_without_requeues_a_job_comes_no_more_whatever_ends_it() -> None:
    """Slurm refuses to requeue such a job: neither is it asked to."""
    rank: Rank = pickle_load(submitted(*options(SMALL), requeues=0)).function
    (file,) = Path("runs/a.slurm").glob("*_submission.sh")
    assert "#SBATCH --no-requeue\n" in file.read_text() and "--requeue\n" not in file.read_text()
    assert rank.checkpoint() is None


def test_a_job_has_the_options_of_its_submission_whatever_becomes_of_the_files() -> None:
    Path("mine.yaml").write_text("lr: 0.5\nclients: 10\nparticipation: 0.2\nmodel: {name: MLP, hidden: [16, 8]}\n")
    words = ("--config=mine.yaml", "--cohort=3", "--targets=0.5,0.9")
    before = with_absolute_paths(parse([*words, "--out=runs", "--name=a"]))
    rank: Rank = pickle_load(submitted(*words)).function
    Path("mine.yaml").write_text("lr: 0.25\n")
    folder, first, free, *_ = rank.__reduce__()[1]
    assert folder == str(Path("runs/a").absolute()) and before.lr == 0.5
    assert with_absolute_paths(parse(first)) == before
    others = ("--stop_at=null", "--patience=null", "--rank_timeout=600.0", "--figures=true", "--targets=[0.5,0.9]")
    assert free == ("--rounds=100", "--eval_every=1", "--checkpoint_every=10", "--keep_checkpoints=2", *others)


@pytest.mark.parametrize("pickle", [RANK_OF_AN_EARLIER_VERSION, b"claunch.job\nRank\n."])
def test_a_job_of_an_earlier_version_says_so_in_one_line(tmp_path: Path, pickle: bytes) -> None:
    (tmp_path / "12_submitted.pkl").write_bytes(pickle)
    job = {"SUBMITIT_EXECUTOR": "local", "SUBMITIT_LOCAL_JOB_ID": "12"}
    command = [sys.executable, "-m", "submitit.core._submit", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **job})
    assert ended.returncode == 2 and "Traceback" not in ended.stdout + ended.stderr
    message = "this job was submitted by an earlier version of fl_ddp; cancel it and submit the run again"
    assert ended.stderr == f"fl_ddp: error: {message}\n"
