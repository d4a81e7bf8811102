"""Standard output that is none."""

from __future__ import annotations

import contextlib
import io
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
