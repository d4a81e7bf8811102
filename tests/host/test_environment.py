"""Where a user's runs keep what is long in the making."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from fl_ddp.host.environment import cache_folder


def test_caches_are_where_users_have_theirs_and_else_among_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/own")
    assert cache_folder() == Path("/own/fl_ddp")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somebody")
    assert cache_folder() == Path("/somebody/.cache/fl_ddp")

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_folder() == Path(tempfile.gettempdir(), f"fl_ddp_{os.getuid()}")
