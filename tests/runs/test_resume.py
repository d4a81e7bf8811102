"""A run that was killed anywhere goes on to the bits it would have ended with anyway."""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from launching import (
    GONE,
    SMALL,
    SUPPORT,
    Ended,
    Launch,
    Numbers,
    checkpoints,
    content,
    copied,
    finished,
    launched,
    numbers,
    one_thread,
    own_model,
    resumed,
    rounds_done,
    simulated,
)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from fl_ddp.config.command_line import from_file
from fl_ddp.errors import ConfigError, InterruptedRunError
from fl_ddp.evaluation.models import Evaluation
from fl_ddp.evaluation.scores import Scores
from fl_ddp.main import main
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Round, Tensors

LONG = {**own_model("Held"), "rounds": 8}
METHODS = ("FedAvg", "Scaffold")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Numbers]:
    out = tmp_path_factory.mktemp("uninterrupted")
    return {method: numbers(simulated({**LONG, "method": method, "name": method}, out)) for method in METHODS}


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run of three rounds."""
    return simulated({**SMALL, "keep_checkpoints": 3}, tmp_path_factory.mktemp("short"))


def curves(run: Path) -> dict[str, list[int]]:
    """Steps by tag, as TensorBoard shows them."""
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
    return {tag: [event.step for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def kill_after_a_checkpoint(launch: Launch, run: Path, victims: str) -> tuple[Ended, str]:
    """Kill at a random moment after this launch's first checkpoint; how that ended, and the moment, to be told."""
    before = checkpoints(run)[-1:]
    # where killing takes long, the run must not be over before
    (run.parent / "hold").write_text(str(rounds_done(run) + 2))
    launch.until(lambda: checkpoints(run)[-1:] > before)
    delay = np.random.default_rng().uniform(0, 0.1)
    time.sleep(delay)
    ranks = launch.ranks()
    chosen = {"rank 0": ranks[:1], "rank 1": ranks[1:2], "all": ranks, "torchrun": [launch.launcher.pid]}[victims]
    assert chosen
    for pid in chosen:
        os.kill(pid, signal.SIGKILL)
    if victims.startswith("rank"):
        (run.parent / "hold").unlink()  # the others must come to the sum at which they find out
    ended = launch.ended(GONE)
    return ended, f"{victims} killed {delay:.3f} s after the first checkpoint beyond {before}; now {checkpoints(run)}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kills"),
    [
        ("FedAvg", [(2, "rank 1"), (3, "all"), (2, "torchrun")]),
        ("Scaffold", [(3, "rank 0"), (2, "torchrun"), (2, "rank 1")]),
    ],
)
def test_killed_run_goes_on_to_the_same_bits(
    tmp_path: Path, uninterrupted: dict[str, Numbers], method: str, kills: list[tuple[int, str]]
) -> None:
    run = tmp_path / "run"
    settings: Mapping[str, object] = {**LONG, "method": method, "out": tmp_path}
    for ranks, victims in kills:
        with launched(settings, ranks, tmp_path) as launch:
            ended, moment = kill_after_a_checkpoint(launch, run, victims)
        assert ended.code != 0 and not (run / "summary.json").exists(), moment
        assert ["another rank is gone" in line for line in ended.ours] == [True] * victims.startswith("rank"), moment
        assert not ended.ours or ended.ours[0].endswith(f"go on with --resume {run}")
        settings = {"resume": run}
    assert numbers(resumed(run)) == uninterrupted[method]
    assert {tuple(steps) for steps in curves(run).values()} == {tuple(range(1, 9))}


@pytest.mark.slow
def test_rank_lost_in_the_first_round_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "hold").write_text("0")
    with launched({**own_model("Held"), "out": tmp_path}, 3, tmp_path) as launch:
        launch.until(lambda: len(list(tmp_path.glob("waits.*"))) == 3)
        os.kill(launch.ranks()[0], signal.SIGKILL)
        ended = launch.ended(GONE)
    assert len(ended.ours) == 1, ended.err


@pytest.mark.slow
def test_a_rank_that_stands_still_ends_the_run_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "hold").write_text("1")
    settings = {**own_model("Held"), "rank_timeout": 20, "checkpoint_every": 1, "out": tmp_path}
    with launched(settings, 2, tmp_path) as launch:
        launch.until(lambda: len(list(tmp_path.glob("waits.*"))) == 2)
        os.kill(launch.ranks()[1], signal.SIGSTOP)
        (tmp_path / "hold").unlink()
        ended = launch.ended()  # torchrun waits half a minute for the rank that stands still
    (line,) = ended.ours
    assert "silent for longer than --rank_timeout 20 seconds; go on with --resume" in line
    assert numbers(resumed(tmp_path / "run")) == numbers(simulated(own_model("Held"), tmp_path / "alone"))


def test_more_rounds_equal_a_run_of_as_many(tmp_path: Path, short: Path) -> None:
    run = resumed(copied(short, tmp_path), rounds=5)
    assert numbers(run) == numbers(simulated({**SMALL, "rounds": 5}, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        {"method": "Scaffold"},  # whose clients remember
        {"method": "FedCL", "method.every": 2},  # which sends its Omega in the first round and not in the second
    ],
    ids=str,
)
def test_more_rounds_equal_a_run_of_as_many_for_methods_with_a_state(tmp_path: Path, method: dict[str, object]) -> None:
    whole = simulated({**SMALL, **method}, tmp_path / "whole")
    assert numbers(resumed(simulated({**SMALL, **method, "rounds": 1}, tmp_path), rounds=3)) == numbers(whole)


def test_checkpoints_come_when_they_are_due_with_the_accuracy_of_their_own_model(tmp_path: Path) -> None:
    settings = {**SMALL, "rounds": 7, "checkpoint_every": 3, "eval_every": 2, "keep_checkpoints": 9}
    run = simulated(settings, tmp_path)
    assert checkpoints(run) == ["round_000003", "round_000006", "round_000007"]
    with (run / "metrics.csv").open(newline="") as file:
        accuracies = {int(row["round"]): row["accuracy"] for row in csv.DictReader(file)}
    for name in checkpoints(run):
        stored = json.loads((run / "checkpoints" / name / "state.json").read_text())
        measured = accuracies[stored["round"]]
        assert stored["accuracy"] == (float(measured) if measured else None)


WRITES = """
from fl_ddp.api import FedAvg


class Mine(FedAvg):
    def server_update(self, server, total, info):
        after = super().server_update(server, total, info)
        {writes}
        return server
"""


@pytest.mark.parametrize("error", [RuntimeError("no"), pytest.param(InterruptedRunError(), marks=pytest.mark.slow)])
@pytest.mark.parametrize("writes", ["", 'server["theta"].copy_(after["theta"])', 'server["theta"] = after["theta"]'])
def test_a_round_that_cannot_be_evaluated_is_not_over(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, writes: str
) -> None:
    file = tmp_path / f"writes_{len(writes)}_{type(error).__name__}.py"
    file.write_text(WRITES.format(writes=writes))
    evaluated, calls = Evaluation.of_server, itertools.count(1)

    def fails(self: Evaluation, theta: Tensor, of_all_tasks: bool = False) -> Callable[[], Scores]:
        if next(calls) == 2:
            raise error
        return evaluated(self, theta, of_all_tasks)

    with monkeypatch.context() as patched, pytest.raises(type(error)):
        patched.setattr(Evaluation, "of_server", fails)
        simulated({**SMALL, "method": f"{file}:Mine" if writes else "FedAvg", "checkpoint_every": 10}, tmp_path)
    assert checkpoints(tmp_path / "run") == ["round_000001"]
    assert numbers(resumed(tmp_path / "run")) == numbers(short)


def test_a_round_whose_traffic_cannot_be_told_is_not_over(
    tmp_path: Path, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = FedAvg.sent_bytes

    def fails(self: FedAvg, server: Tensors, in_round: Round) -> int:
        if in_round.index == 1:
            raise RuntimeError("no")
        return sent(self, server, in_round)

    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="no"):
        patched.setattr(FedAvg, "sent_bytes", fails)
        simulated({**SMALL, "checkpoint_every": 10}, tmp_path)
    assert checkpoints(tmp_path / "run") == ["round_000001"]
    assert numbers(resumed(tmp_path / "run")) == numbers(short)


def test_finished_run_says_so_and_is_left_alone(short: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = content(short)
    assert main([f"--resume={short}"]) == 0
    assert f"{short} is finished" in capfd.readouterr().out and content(short) == before


@pytest.mark.slow
def test_finished_run_of_no_rounds_says_so_and_goes_on_with_more(
    tmp_path: Path, short: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = simulated({**SMALL, "rounds": 0}, tmp_path)
    before = content(run)
    resumed(run)
    out = capsys.readouterr().out
    assert f"{run} is finished; a larger --rounds goes on with it" in out and "no usable checkpoint" not in out
    assert content(run) == before
    assert numbers(resumed(run, rounds=3)) == numbers(short)


@pytest.mark.parametrize("older", [False, True])
def test_no_fewer_rounds_than_there_are_may_be_asked_for(tmp_path: Path, short: Path, older: bool) -> None:
    run = copied(short, tmp_path)
    if older:  # of a run that was over after fewer rounds, and then went on
        summary = json.loads((run / "summary.json").read_text())
        (run / "summary.json").write_text(json.dumps(summary | {"rounds": 1}))
    else:
        (run / "summary.json").unlink()
    before = content(run)
    said = "--rounds: 2, but .* has finished 3, which count, too; accepted: the number of all its rounds, or none"
    with pytest.raises(ConfigError, match=said):
        resumed(run, rounds=2)
    assert content(run) == before


def test_kill_between_the_last_checkpoint_and_the_results_loses_nothing(tmp_path: Path, short: Path) -> None:
    run = copied(short, tmp_path)
    for file in ("summary.json", "model.safetensors"):
        (run / file).unlink()
    assert numbers(resumed(run)) == numbers(short)
    assert (run / "model.safetensors").read_bytes() == (short / "model.safetensors").read_bytes()
    old, new = (json.loads((folder / "summary.json").read_text()) for folder in (short, run))
    assert {key for key in old if old[key] != new[key]} <= {"folder", "environment", "seconds"}
    assert curves(run) == curves(short)


def test_going_on_with_other_numerics_is_warned_of(
    tmp_path: Path, short: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied(short, tmp_path)
    numerics = json.loads((run / "summary.json").read_text())["numerics"]
    assert numerics.keys() == {"lanes", "device", "cpu", "torch", "compile", "precision", "mkl_cbwr", "reduction"}
    resumed(run, rounds=4)
    assert "the bits may differ" not in capsys.readouterr().out
    monkeypatch.setattr("fl_ddp.results.provenance.cpu_model", lambda: "Am486DX")
    resumed(run, rounds=5)
    assert f"warning: cpu was {numerics['cpu']} and is Am486DX; the bits may differ" in capsys.readouterr().out


def test_seconds_of_the_results_hold_the_last_checkpoint(tmp_path: Path) -> None:
    run = simulated({**SMALL, "rounds": 1}, tmp_path)
    with (run / "metrics.csv").open(newline="") as file:
        assert [float(row["time_checkpoint"]) for row in csv.DictReader(file)] == [0.0]
    assert json.loads((run / "summary.json").read_text())["seconds"]["checkpoint"] > 0


def test_run_without_a_checkpoint_starts_again(tmp_path: Path, short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = copied(short, tmp_path)
    shutil.rmtree(run / "checkpoints")
    (run / "summary.json").unlink()
    assert numbers(resumed(run)) == numbers(short)
    assert "no usable checkpoint; starting from round 0" in capsys.readouterr().out
    assert curves(run) == curves(short)


@pytest.mark.parametrize("file", ["server.safetensors", "state.json"])
def test_newest_checkpoint_cut_short_falls_back_to_the_one_before(
    tmp_path: Path, short: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    run = copied(short, tmp_path)
    newest = run / "checkpoints" / "round_000003" / file
    os.truncate(newest, newest.stat().st_size // 2)
    assert numbers(resumed(run)) == numbers(short)
    out = capsys.readouterr().out
    assert "skipped" in out and "going on after round 2" in out
    assert checkpoints(run) == checkpoints(short)


def test_all_checkpoints_cut_short_starts_again(tmp_path: Path, short: Path) -> None:
    run = copied(short, tmp_path)
    (run / "summary.json").unlink()
    for state in run.glob("checkpoints/*/state.json"):
        os.truncate(state, 0)
    assert numbers(resumed(run)) == numbers(short)


def test_refused_resume_leaves_the_folder_unlocked(tmp_path: Path, short: Path) -> None:
    run = copied(short, tmp_path)
    file = run / "checkpoints" / "round_000003" / "server.safetensors"
    intact = file.read_bytes()
    file.write_bytes(intact[:-1] + bytes([intact[-1] ^ 1]))
    with pytest.raises(ConfigError, match=r"server\.safetensors"):
        resumed(run, rounds=4)
    file.write_bytes(intact)
    assert checkpoints(resumed(run, rounds=4))[-1] == "round_000004"


@pytest.mark.slow
def test_run_of_relative_paths_goes_on_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    shutil.copy(SUPPORT / "own_models.py", "own_small.py")
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 5), np.float32), np.arange(60) % 3
    np.savez("mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    Path("mine.json").write_text(json.dumps({"clients": np.arange(60).reshape(12, 5).tolist()}))
    settings: Mapping[str, object] = {
        **own_model("Small"), "model": "own_small.Small", "data": "mine.npz", "partition": "FromFile",
        "partition.path": "mine.json",
    }  # fmt: skip
    simulated(settings, Path("runs"))
    run = tmp_path / "here" / "runs" / "run"
    monkeypatch.chdir(tmp_path / "there")
    finished({"resume": run, "rounds": 4, "partition.path": "../here/mine.json"}, 1, tmp_path / "there")
    assert checkpoints(run)[-1] == "round_000004"
    again = from_file(run / "config.yaml")
    assert (again.out, again.data.init_args["path"]) == (str(run.parent), str(tmp_path / "here" / "mine.npz"))
    assert again.model.class_path == f"{tmp_path / 'here' / 'own_small.py'}:Small"
    with one_thread():
        assert main([f"--config={run / 'config.yaml'}", "--name=again"]) == 0
    assert numbers(run.with_name("again")) == numbers(run)


def test_resume_accepts_options_that_are_the_stored_ones_and_refuses_others(tmp_path: Path, short: Path) -> None:
    run = copied(short, tmp_path)
    with pytest.raises(ConfigError, match=r"lr: 0\.2 is not .* 0\.1"):
        resumed(run, lr=0.2)
    assert checkpoints(resumed(run, lr=0.1, rounds=4))[-1] == "round_000004"


def test_a_run_goes_on_where_its_data_have_moved_if_they_are_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((60, 4), np.float32), np.arange(60) % 3
    for place in ("old", "new"):
        (tmp_path / place).mkdir()
        np.savez(tmp_path / place / "own.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    given = {
        "data": str(tmp_path / "old" / "own.npz"),
        "model.hidden": "4",
        "rounds": 1,
        "compile": False,
        "figures": False,
    }
    run = simulated({**given, "clients": 3, "partition": "IID", "device": "cpu", "name": "run"}, tmp_path)
    (tmp_path / "old" / "own.npz").unlink()
    with pytest.raises(ConfigError, match=r"own\.npz"):
        resumed(run, rounds=2)
    moved = tmp_path / "new" / "own.npz"
    assert rounds_done(resumed(run, rounds=2, **{"data.path": str(moved)})) == 2
    assert rounds_done(resumed(run, rounds=3)) == 3  # it knows where they are now
    np.savez(moved, x_train=1 - x, y_train=y, x_test=x[:9], y_test=y[:9])
    with pytest.raises(ConfigError, match="made with other samples"):
        resumed(run, rounds=4, **{"data.path": str(moved)})
