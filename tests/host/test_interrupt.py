"""Ctrl-C, SIGTERM and SIGUSR2: what was finished is saved, and the run goes on from there to the same bits."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from launching import (
    GONE,
    SMALL,
    Launch,
    Numbers,
    checkpoints,
    launched,
    numbers,
    own_model,
    resumed,
    rounds_done,
    simulated,
)

from fl_ddp.errors import InterruptedRunError

HELD = own_model("Held")
RARELY_SAVED = {**HELD, "rounds": 4, "checkpoint_every": 4, "method": "Scaffold"}
COMPILER = """#!/bin/sh
case "$*" in *.cpp*) touch {compiling}; while [ -e {hold} ]; do sleep 0.05; done;; esac
exec g++ "$@"
"""
"""What g++ is, but it waits before it compiles."""
STOPPED_EARLY = "fl_ddp: stopped before a round was finished"


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    return numbers(simulated(RARELY_SAVED, tmp_path_factory.mktemp("uninterrupted")))


def send(launch: Launch, number: int) -> None:
    """SIGINT the way a terminal does, to all processes of its group; SIGTERM to the launcher alone."""
    (os.killpg if number == signal.SIGINT else os.kill)(launch.launcher.pid, number)


def listens(launch: Launch) -> bool:
    """Whether every rank has a handler for SIGTERM, which Python itself has not."""
    caught = [
        int(line.split()[1], 16)
        for pid in launch.ranks()
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigCgt")
    ]
    return all(mask >> (signal.SIGTERM - 1) & 1 for mask in caught)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "number"),
    [(1, signal.SIGINT), (1, signal.SIGTERM), (1, signal.SIGUSR2), (2, signal.SIGINT), (2, signal.SIGTERM)],
)
def test_stopped_run_saves_its_last_round_and_goes_on_to_the_same_bits(
    tmp_path: Path, uninterrupted: Numbers, ranks: int, number: int
) -> None:
    run, hold = tmp_path / "run", tmp_path / "hold"
    hold.write_text("2")
    with launched({**RARELY_SAVED, "out": tmp_path}, ranks, tmp_path) as launch:
        launch.until(lambda: launch.left("waits"))
        send(launch, number)
        launch.until(lambda: launch.left("asked"))
        hold.unlink()
        ended = launch.ended(GONE)
    assert ended.code == 0 or ranks > 1  # torchrun has a code of its own
    assert not ended.ours, ended.err
    assert rounds_done(run) == 2 and f"stopped after round 2; go on with --resume {run}" in ended.out
    assert checkpoints(run) == ["round_000002"] and not list(run.glob("checkpoints/.*"))
    assert numbers(resumed(run)) == uninterrupted


@pytest.mark.slow
def test_second_ctrl_c_quits_at_once(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (tmp_path / "hold").write_text("1")
    with launched({**HELD, "out": tmp_path}, 1, tmp_path) as launch:
        launch.until(lambda: launch.left("waits"))
        send(launch, signal.SIGINT)
        launch.until(lambda: launch.left("asked"))
        assert launch.alive(), "the first one did not wait for the local step"
        send(launch, signal.SIGINT)
        ended = launch.ended()
    assert ended.code == 130 and "Traceback" not in ended.err
    assert numbers(resumed(run)) == numbers(simulated(HELD, tmp_path / "uninterrupted"))


@pytest.mark.parametrize(("ranks", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_signal_while_importing_ends_the_run_at_once(tmp_path: Path, ranks: int, number: int) -> None:
    (tmp_path / "jsonargparse.py").write_text("import time\ntime.sleep(600)\n")  # in place of an import that takes long
    with launched({**SMALL, "out": tmp_path}, ranks, tmp_path) as launch:
        launch.until(lambda: len(launch.ranks()) == ranks and listens(launch))
        send(launch, number)
        ended = launch.ended(GONE)
    assert ended.ours == [STOPPED_EARLY] and not (tmp_path / "run").exists()
    assert ranks > 1 or (ended.code == 0 and "Traceback" not in ended.err)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_signal_while_compiling_ends_the_run_at_once(tmp_path: Path, ranks: int, number: int) -> None:
    compiler, compiling, hold = (tmp_path / name for name in ("held-g++", "compiling", "hold"))
    compiler.write_text(COMPILER.format(compiling=compiling, hold=hold))
    compiler.chmod(0o755)
    hold.touch()
    environment = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "CXX": str(compiler)}
    with launched({**SMALL, "compile": True, "out": tmp_path}, ranks, tmp_path, environment) as launch:
        launch.until(compiling.exists)
        send(launch, number)
        hold.unlink()
        ended = launch.ended(GONE)
    assert ended.ours == [STOPPED_EARLY], ended.err
    assert ranks > 1 or (ended.code == 0 and "Traceback" not in ended.err), ended.err


def test_interrupted_notebook_goes_on_in_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interrupt").touch()
    settings = own_model("InterruptsItself")
    with pytest.raises(InterruptedRunError, match=rf"^stopped after round 1; go on with --resume {tmp_path / 'run'}$"):
        simulated(settings, tmp_path)
    assert numbers(resumed(tmp_path / "run")) == numbers(simulated(settings, tmp_path / "uninterrupted"))


@pytest.mark.slow
def test_second_ctrl_c_in_a_notebook_is_a_keyboard_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "interrupt").write_text("twice")
    settings = own_model("InterruptsItself")
    before = signal.getsignal(signal.SIGINT)  # ignored, where a shell has put the tests into the background
    with pytest.raises(KeyboardInterrupt):
        simulated(settings, tmp_path)
    assert signal.getsignal(signal.SIGINT) is before
    assert numbers(resumed(tmp_path / "run")) == numbers(simulated(settings, tmp_path / "uninterrupted"))
