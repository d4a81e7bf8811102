"""Runs on this machine as processes of their own."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from launching import SMALL, checkpoints, launched, options


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
