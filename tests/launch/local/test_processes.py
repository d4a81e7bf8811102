"""Runs on this machine as processes of their own."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from launching import PATIENCE, SMALL, checkpoints, launched, options, own_model

from launch.local.processes import Stop
from launch.run.stored import read_run

TOLD = """
import signal, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
print("on", flush=True)
while not Path("go").exists():
    time.sleep(0.02)
"""
"""Says each SIGTERM that it hears of."""


def until(condition: Callable[[], object]) -> None:
    """Wait for something that must come."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def own_the_terminal() -> None:
    """Have standard input as this process's terminal, and hear of its end even where the tests run under nohup."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def hangup() -> Iterator[None]:
    """SIGHUP that does not end this process."""
    before = signal.signal(signal.SIGHUP, lambda *_: None)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
def test_a_terminal_that_is_closed_stops_what_runs_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGHUP comes from the shell and from the kernel."""
    monkeypatch.chdir(tmp_path)
    log = tmp_path / "log"
    with ThreadPoolExecutor(1) as threads, Stop() as stop:
        code = threads.submit(stop.run, [sys.executable, "-c", TOLD], log, {})
        until(lambda: log.exists() and "on" in log.read_text())
        signal.raise_signal(signal.SIGHUP)
        asked = stop.asked
        if not asked:
            stop.ask()
        until(lambda: "told" in log.read_text())
        signal.raise_signal(signal.SIGHUP)
        (tmp_path / "go").touch()
        assert code.result() == 0
    assert asked and log.read_text() == "on\ntold\n"


def test_a_third_interrupt_kills_what_hears_of_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    deaf = TOLD.replace('SIGTERM, lambda *_: print("told", flush=True)', "SIGINT, signal.SIG_IGN")
    log = tmp_path / "log"
    with ThreadPoolExecutor(1) as threads, Stop() as stop:
        code = threads.submit(stop.run, [sys.executable, "-c", deaf], log, {})
        until(lambda: log.exists() and "on" in log.read_text())
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        time.sleep(0.2)
        heard = code.done()
        signal.raise_signal(signal.SIGINT)
        assert code.result(PATIENCE) is None and not heard


@pytest.mark.usefixtures("hangup")
def test_nohup_goes_on_when_its_terminal_is_closed() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Stop() as stop:
        signal.raise_signal(signal.SIGHUP)
        assert not stop.asked


@pytest.mark.slow
def test_runs_are_saved_when_their_launchers_terminal_is_closed(tmp_path: Path) -> None:
    settings = {key: value for key, value in own_model("Held").items() if key != "name"}
    words = [*options(settings), "--name=mine", "--grid=seed=0..1", "--parallel=1"]
    (tmp_path / "hold").write_text("2")
    terminal, end = pty.openpty()
    fcntl.ioctl(end, termios.TIOCSWINSZ, struct.pack("4H", 24, 80, 0, 0))  # one of no size has no bar
    launcher = subprocess.Popen(
        [sys.executable, "-m", "launch.sweep", *words], stdin=end, stdout=end, stderr=end, cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, start_new_session=True,
        preexec_fn=own_the_terminal,
    )  # fmt: skip
    os.close(end)
    try:
        until(lambda: list(tmp_path.glob("waits.*")))
        os.close(terminal)
        until(lambda: list(tmp_path.glob("asked.*")) or launcher.poll() is not None)
        (tmp_path / "hold").unlink()
        assert launcher.wait(PATIENCE) == 1
    finally:
        launcher.kill()
    run = read_run(tmp_path / "sweeps" / "mine" / "seed=0")
    assert run and (run.ended, run.rounds, checkpoints(run.folder)[-1]) == (False, 2, "round_000002")
    assert not (tmp_path / "sweeps" / "mine" / "seed=1").exists()


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_runs_end_with_a_launcher_that_is_killed(tmp_path: Path, ranks: int) -> None:
    settings = {key: value for key, value in SMALL.items() if key != "name"} | {"rounds": 100_000}
    words = ["-m", "launch.sweep", *options(settings), "--name=mine", "--grid=seed=0", f"--ranks={ranks}"]
    with launched(words, 1, tmp_path) as launch:
        launch.until(lambda: checkpoints(tmp_path / "sweeps" / "mine" / "seed=0"))
        launch.launcher.kill()
        ended = launch.ended()
    assert ended.code == -signal.SIGKILL
