"""What cannot be run or fails is told in one line on stderr, by one rank, and leaves nothing half-written."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from launching import SMALL, checkpoints, failed, launched, numbers, one_thread, options, own_model, resumed, simulated

from fl_ddp import simulate
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.main import main
from fl_ddp.results.run_folder import RunFolder

USER, FAULT = 2, 1

REFUSED: Mapping[str, tuple[Mapping[str, object], str]] = {
    "unknown_key": ({"learning_rate": 1}, "learning_rate: .*"),
    "misspelt_key": ({"clientss": 3}, "clientss: .*--clients"),
    "wrong_type": ({"rounds": "many"}, "rounds: .*many"),
    "no_participation": ({"cohort": None, "participation": 0}, "participation: 0.* 0 < participation <= 1"),
    "seed_of_65_bits": ({"partition.seed": 2**64}, r"partition.seed: 18446744073709551616 .*below 2\*\*63"),
    "negative_seed": ({"partition.seed": -1}, "partition.seed: -1 is impossible"),
    "no_lanes": ({"lanes": 0}, "lanes: 0 .* from 1 up"),
    "more_shards_than_samples": (
        {"partition": "Shards", "partition.shards_per_client": 500},
        r"partition.shards_per_client: 500 .*\(1437 training samples",
    ),
    "both_cohorts": ({"participation": 0.5}, "participation and --cohort"),
    "unknown_method": ({"method": "FedAvgg"}, "method: .*FedAvg"),
    "tf32_on_a_cpu": ({"precision": "tf32"}, "precision: tf32 .*CPU; accepted: float32 or bfloat16"),
    "missing_data": ({"data": "MNIST", "data.root": "nowhere"}, "MNIST.*nowhere.*--data.download true"),
    "missing_npz": ({"data": "no.npz"}, "no.npz"),
    "missing_run": ({"resume": "nowhere"}, "resume: nowhere"),
    "missing_yaml": ({"config": "no.yaml"}, "no.yaml"),
    "more_than_memory": ({"model.hidden": 10**9}, "model: MLP with hidden 1000000000 needs .* GiB .* this machine has"),
    "refused_model": ({"model": "torch.nn.BatchNorm2d", "model.num_features": 1}, "GroupNorm"),
}


def told(settings: Mapping[str, object], code: int, capfd: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr of a run that must end with a code."""
    settings = {key: value for key, value in settings.items() if value is not None}
    capfd.readouterr()
    with one_thread():
        assert main(options(settings)) == code
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("fl_ddp: error: "), lines
    return lines[0].removeprefix("fl_ddp: error: ")


@pytest.mark.parametrize("case", REFUSED)
def test_impossible_input_is_told_in_one_line_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    changes, message = REFUSED[case]
    base = {} if "resume" in changes or "config" in changes else SMALL
    if "model" in changes or "partition" in changes:
        base = {key: value for key, value in SMALL.items() if not key.startswith("model")}
    line = told({**base, **changes}, USER, capfd)
    assert re.search(message, line), line
    assert not list(tmp_path.iterdir())


@pytest.mark.data
def test_truncated_data_file_is_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    raw = Path(shutil.copytree(Path(os.environ["FL_DDP_DATA"]) / "MNIST", tmp_path / "MNIST"))
    file = max((f for f in raw.rglob("train-labels*") if f.is_file()), key=lambda f: f.stat().st_size)
    for each in raw.rglob("train-labels*"):
        os.truncate(each, each.stat().st_size // 2)
    settings = {"data": "MNIST", "data.root": tmp_path, "out": tmp_path / "runs"}
    assert file.name.removesuffix(".gz") in told(settings, USER, capfd)
    assert not (tmp_path / "runs").exists()


def test_taken_name_is_refused_and_names_resume(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = simulated({**SMALL, "rounds": 1}, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    assert f"--resume {run}" in told({**SMALL, "out": tmp_path}, USER, capfd)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


def test_folder_another_run_writes_in_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = simulated({**SMALL, "rounds": 1}, tmp_path)
    with RunFolder.reopen(run):
        line = told({"resume": run, "rounds": 2}, USER, capfd)
    assert "another run is writing" in line and str(os.getpid()) in line
    assert checkpoints(resumed(run, rounds=2))[-1] == "round_000002"


@pytest.mark.parametrize("too_large", [{"lr": 1e20}, {"lr": 1e39}, {"weight_decay": 1e39}])
def test_loss_that_is_not_finite_names_client_and_round(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], too_large: dict[str, float]
) -> None:
    line = told({**SMALL, **too_large, "out": tmp_path}, FAULT, capfd)
    assert re.match(r"round 1, client \d+: '\w+' is (not finite|out of range)", line)


@pytest.mark.parametrize(
    ("method", "lam", "step", "helps"),
    [
        ("FedCurv", 1.0, "explicit", True),
        ("FedCurv", 0.0, "explicit", False),
        ("FisherAvg", 1.0, "explicit", True),
        pytest.param("FisherAvg", 1.0, "proximal", False, marks=pytest.mark.slow),
        pytest.param("FedCL", 1.0, "proximal", False, marks=pytest.mark.slow),
        pytest.param("OnlineEWC", 1.0, "explicit", True, marks=pytest.mark.slow),
    ],
)
def test_the_proximal_step_is_advised_where_a_penalty_can_diverge(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], method: str, lam: float, step: str, helps: bool
) -> None:
    of_method = {"method": method, "method.lam": lam, "method.penalty_step": step}
    line = told({**SMALL, "lr_decay": 1e15, **of_method, "out": tmp_path}, FAULT, capfd)
    assert re.match(r"round 2, client \d+: '\w+' is (not finite|out of range)", line)
    assert ("so does --method.penalty_step proximal" in line) == helps


@pytest.mark.parametrize(("model", "helps"), [("Normed", True), ("Small", False)])
def test_scaled_inputs_are_advised_where_batch_norm_keeps_their_variance(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], model: str, helps: bool
) -> None:
    line = told({**own_model(model), "lr": 1e20, "out": tmp_path}, FAULT, capfd)
    assert "a smaller --lr usually helps" in line
    assert (", so do inputs scaled to about 1, whose variance BatchNorm sends (--data.normalize true)" in line) == helps


def test_loss_that_diverges_later_names_the_last_good_round(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # 0.1, then 1e14
    settings = {**SMALL, "lr_decay": 1e15, "checkpoint_every": 10, "out": tmp_path}
    line = told(settings, FAULT, capfd)
    assert re.match(r"round 2, client \d+: ", line)
    assert line.endswith(f"round 1 is saved in {tmp_path / 'run' / 'checkpoints'}")
    assert checkpoints(tmp_path / "run") == ["round_000001"]


@pytest.mark.slow
def test_loss_that_is_not_finite_is_told_once_by_two_ranks(tmp_path: Path) -> None:
    ended = failed({**SMALL, "lr_decay": 1e15, "out": tmp_path}, 2, tmp_path)
    assert re.match(r"fl_ddp: error: round 2, client \d+: ", ended.ours[0])
    assert codes(ended.err) == [FAULT] * 2
    assert checkpoints(tmp_path / "run") == ["round_000001"] and not list(tmp_path.rglob("*.tmp"))
    with pytest.raises(RunError, match="round 2, client"):
        resumed(tmp_path / "run")


def codes(report: str) -> list[int]:
    """The exit codes of all ranks in torchrun's report."""
    return [int(code) for code in re.findall(r"^ +exitcode +: (-?\d+)", report, re.MULTILINE)]


@pytest.mark.slow
def test_more_ranks_than_clients_in_a_cohort_are_refused(tmp_path: Path) -> None:
    ended = failed({**SMALL, "cohort": 1, "out": tmp_path}, 2, tmp_path)
    assert "nproc_per_node: 2 ranks" in ended.ours[0] and codes(ended.err) == [USER] * 2
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_unknown_key_is_told_once_by_two_ranks(tmp_path: Path) -> None:
    ended = failed({**SMALL, "clientss": 2, "out": tmp_path}, 2, tmp_path)
    assert "clientss" in ended.ours[0] and codes(ended.err) == [USER] * 2
    assert "Traceback" not in ended.err.partition("torch/distributed/elastic")[0]


@pytest.mark.slow
def test_plain_python_exits_with_2_for_a_user_error(tmp_path: Path) -> None:
    ended = failed({**SMALL, "lanes": 0, "out": tmp_path}, 1, tmp_path)
    assert ended.code == USER and ended.err.count("\n") == 1 and not ended.out


@pytest.mark.slow
def test_error_of_one_rank_ends_all_and_is_shown_once(tmp_path: Path) -> None:
    run, settings = tmp_path / "run", own_model("FailsOnRankOne")
    (tmp_path / "fail").write_text("1")
    ended = failed({**settings, "out": tmp_path}, 2, tmp_path)
    mistake = "ValueError: a mistake of the user's model"
    assert len(ended.ours) == 1 and re.fullmatch(rf"fl_ddp: error: own_models\.py:\d+: {mistake}", ended.ours[0])
    assert ended.err.count(mistake) == 1 and codes(ended.err) == [FAULT] * 2
    assert checkpoints(run) == ["round_000001"] and not list(run.glob("checkpoints/.*"))
    assert numbers(resumed(run)) == numbers(simulated(settings, tmp_path / "alone"))


@pytest.mark.slow
def test_full_disk_is_told_and_leaves_no_half_written_file(tmp_path: Path) -> None:
    settings = {**SMALL, "model.hidden": 20000, "local_steps": 1, "rounds": 2}
    with launched({**settings, "out": tmp_path}, 1, tmp_path) as launch:
        # files of up to 2 MiB: enough for all but a checkpoint of 6 MB
        resource.prlimit(launch.launcher.pid, resource.RLIMIT_FSIZE, (2**21, resource.RLIM_INFINITY))
        ended = launch.ended()
    assert ended.code == FAULT and len(ended.ours) == 1 and "server.safetensors: cannot be written" in ended.ours[0]
    assert "Traceback" not in ended.err
    assert not checkpoints(tmp_path / "run") and not list(tmp_path.rglob("*tmp*"))
    assert numbers(resumed(tmp_path / "run")) == numbers(simulated(settings, tmp_path / "alone"))


def test_notebook_gets_an_exception_and_the_folder_is_free_again(tmp_path: Path) -> None:
    settings = {**SMALL, "lr_decay": 1e15}
    with pytest.raises(RunError, match="round 2"):
        simulated(settings, tmp_path)
    with pytest.raises(RunError, match="round 2"):
        resumed(tmp_path / "run")
    with pytest.raises(ConfigError, match="lanes: 0"):
        simulate({"lanes": 0})


@pytest.mark.slow
def test_machine_without_a_compiler_is_told_before_the_run_begins(tmp_path: Path) -> None:
    settings = {**SMALL, "compile": True, "out": tmp_path}
    with launched(settings, 1, tmp_path, {"CXX": "no-such-g++"}) as launch:
        ended = launch.ended()
    assert ended.code == USER and not (tmp_path / "run").exists()
    (line,) = ended.ours
    assert "no-such-g++" in line and line.endswith("install g++, or give --compile false"), line
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("words", [options(SMALL), ["--help"]], ids=["run", "help"])
def test_a_reader_that_has_gone_away_stops_nothing(tmp_path: Path, words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        ended = subprocess.run(
            [sys.executable, "-m", "fl_ddp.main", *words, f"--out={tmp_path}"],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert words == ["--help"] or (tmp_path / "run" / "summary.json").is_file()
