"""launch.submit as far as it needs no Slurm: what is refused, named and told before anything is submitted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import pytest
from launching import SMALL, options, simulated

from fl_ddp.errors import ConfigError
from launch.run.trial import Trial
from launch.slurm.folders import job_folder
from launch.slurm.options import SlurmOptions
from launch.submit import main, reserved, trial_of


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, on a machine without Slurm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))


def settings(**changed: object) -> list[str]:
    return options({**SMALL, **changed})


def test_help_tells_of_every_option(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capfd.readouterr().out
    names = [*(each.name for each in fields(SlurmOptions)), "dry_run", "wait"]
    assert [name for name in names if f"--{name} " not in out] == []


def test_dry_run_prints_the_plan_and_the_sbatch_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["--nodes=2", "--gpus_per_node=8", "--cpus_per_task=4", "--time=1-0", "--slurm_partition=gpu", "--mem=9G"]
    more = ["--account=a", "--qos=q", "--constraint=c", "--grace=60", "--sbatch=exclusive", "--setup=module load x"]
    assert main([*settings(), *asked, *more, "--dry_run"]) == 0
    out = capfd.readouterr().out
    assert f"run      {tmp_path}/runs/run\n" in out and "8 with 8 GPU(s) on each of 2 node(s)" in out
    assert f"--out={tmp_path}/runs --name=run\n" in out and f"log      {tmp_path}/runs/run.log\n" in out
    flags = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", out, re.MULTILINE))
    wanted = {
        "nodes": "2", "gpus-per-node": "8", "ntasks-per-node": "8", "cpus-per-task": "4", "time": "1440",
        "partition": "gpu", "mem": "9G", "account": "a", "qos": "q", "constraint": "c", "signal": "USR2@60",
        "exclusive": "", "requeue": "", "job-name": "run",
    }  # fmt: skip
    assert {key: flags[key] for key in wanted} == wanted
    assert "\nmodule load x\n" in out and re.search(r"\nsrun .*--cpus-per-task=4 .*submitit", out)
    assert list(tmp_path.iterdir()) == []


def test_the_run_is_named_when_it_is_submitted(capfd: pytest.CaptureFixture[str]) -> None:
    words = [word for word in settings() if not word.startswith("--name")]
    assert main([*words, "--dry_run", "--seed=4"]) == 0
    assert re.search(r"--name=digits-FedAvg-seed4-\d{8}-\d{6}\n", capfd.readouterr().out)


def test_a_run_is_resumed_with_what_may_change(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = simulated({**SMALL, "rounds": 1}, tmp_path)
    assert main([f"--resume={run}", "--rounds=2", "--eval_every=2", "--dry_run"]) == 0
    out = capfd.readouterr().out
    assert f"command  python -m fl_ddp.main --resume={run} --rounds=2 --eval_every=2 --checkpoint_every=1" in out
    assert main([f"--resume={run}", "--lr=2"]) == 2
    assert "with --resume only" in capfd.readouterr().err
    assert main([f"--resume={run}"]) == 0
    assert f"{run} is finished; a larger --rounds goes on with it" in capfd.readouterr().out
    assert main(settings(out=tmp_path)) == 2
    assert f"--name: {run} exists already; go on with it by --resume {run}" in capfd.readouterr().err


def test_two_commands_at_the_same_moment_have_different_names(monkeypatch: pytest.MonkeyPatch) -> None:
    words, now = [word for word in settings() if not word.startswith("--name")], datetime.now()
    with reserved(words, now) as first, reserved(words, now) as second:
        assert second.folder.name == f"{first.folder.name}-2"

    def beaten(options: Sequence[str], now: datetime) -> Trial:
        trial = trial_of(options, now)
        if not job_folder(trial.folder).name.endswith("-4.slurm"):
            job_folder(trial.folder).mkdir()
        return trial

    monkeypatch.setattr("launch.submit.trial_of", beaten)
    with reserved(words, now) as fourth:
        assert fourth.folder.name == f"{first.folder.name}-4"


@pytest.mark.parametrize("named", [True, False])
def test_what_is_not_submitted_keeps_no_name(named: bool, tmp_path: Path) -> None:
    words = [word for word in settings() if named or not word.startswith("--name")]
    with pytest.raises(ConfigError), reserved(words, datetime.now()):
        raise ConfigError("sbatch refuses", "no")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "there is no Slurm on this machine: sbatch is not on PATH"),
        (["--nodse=2"], "--nodse: unknown option; did you mean --nodes?"),
        (["--method=FedProxx"], "--method: "),
        (["--lr=fast"], "--lr: fast has the wrong type; accepted: a number"),
        (["--name=a/b"], "--name: 'a/b' is not the name of a folder"),
        ([f"--name={'a' * 161}"], f"--name: {'a' * 20}... is of 161 bytes; accepted: up to 160"),
        ([f"--resume={'a' * 300}"], f"--resume: {'a' * 20}... is too long for a path"),
        (["--wait=maybe"], "--wait: maybe is unknown; accepted: true or false"),
        (["--time=soon"], "--time: soon is no time"),
        (["here"], "here: belongs to no option"),
        (["--resume=nowhere"], "--resume: nowhere: no such folder"),
    ],
)
def test_bad_input_is_one_line_and_submits_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main([*settings(), *words]) == 2
    err = capfd.readouterr().err
    assert err.count("\n") == 1 and err.startswith(f"submit: error: {message}")
    assert list(tmp_path.iterdir()) == []
