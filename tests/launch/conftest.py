"""What tests of the launchers share."""

from __future__ import annotations

from pathlib import Path

import pytest
from showing import Showing

from launch.results import main


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Showing:
    """launch.results, in a working directory of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(words)
        return (code, *capfd.readouterr())

    return call
