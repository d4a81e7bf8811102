"""Where a user's runs keep what is long in the making, and what decides their bits."""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path

import pytest

from fl_ddp.host.environment import cache_folder, prepare


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


def test_powers_are_tritons_whatever_else_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "triton" / "backends" / "nvidia" / "lib" / "libdevice.10.bc"
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", "")
    monkeypatch.delenv("TRITON_LIBDEVICE_PATH")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    prepare()
    assert "TRITON_LIBDEVICE_PATH" not in os.environ, "there is no Triton"
    file.parent.mkdir(parents=True)
    (tmp_path / "triton-3.dist-info").mkdir()
    (tmp_path / "triton-3.dist-info" / "METADATA").write_text("Name: triton\nVersion: 3\n")
    file.touch()
    importlib.invalidate_caches()
    prepare()
    assert os.environ["TRITON_LIBDEVICE_PATH"] == str(file)
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", "/own")
    prepare()
    assert os.environ["TRITON_LIBDEVICE_PATH"] == "/own"
