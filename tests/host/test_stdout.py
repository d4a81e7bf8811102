"""Standard output that is none."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from launching import SMALL, one_thread

import fl_ddp


@pytest.mark.parametrize("place", [None, io.StringIO()])
def test_a_run_is_quiet_where_nothing_is_printed(
    place: io.StringIO | None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with one_thread(), contextlib.redirect_stdout(place):
        result = fl_ddp.simulate({**SMALL, "rounds": 1, "out": str(tmp_path)})
    said = capfd.readouterr()
    assert result["accuracy"] and said.out == said.err == ""


def test_what_is_said_to_a_terminal_that_was_closed_is_lost_and_no_more() -> None:
    terminal, end = pty.openpty()
    script = "from fl_ddp.host.stdout import say; input(); say('one'); say('two')"
    talker = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=end, stderr=subprocess.PIPE)
    os.close(end)
    os.close(terminal)
    assert talker.communicate(b"\n")[1] == b"" and talker.returncode == 0
