"""A process that has imported a user's file does not run it as it was under the name of what it is."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from itertools import count
from pathlib import Path

import pytest
from launching import SMALL, one_thread

import fl_ddp
from fl_ddp.errors import ConfigError

METHOD = """
from dataclasses import dataclass
from fl_ddp.api import FedAvg
{more}

@dataclass(frozen=True)
class Pull(FedAvg):
    def penalty(self, theta, server, mine):
        return {factor} / 2 * (theta - server["theta"]).square().sum()
"""


NUMBERS = count()


def final_loss(method: str) -> object:
    with one_thread():
        given = {**SMALL, "method": method, "figures": False, "rounds": 1, "name": f"run{next(NUMBERS)}"}
        return fl_ddp.simulate(given)["loss"]


def test_an_edited_file_is_refused_until_it_is_imported_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "pulling.py"
    file.write_text(METHOD.format(more="", factor=1.0))
    weak = final_loss("pulling.py:Pull")
    assert final_loss("pulling.py:Pull") == weak
    file.write_text(METHOD.format(more="", factor=9.25))
    told = re.escape(f"{file}: was edited since this process imported it, and what it said then would run")
    with pytest.raises(ConfigError, match=told):
        final_loss("pulling.py:Pull")
    with one_thread(), pytest.raises(ConfigError, match=told):
        fl_ddp.simulate(resume=str(next((tmp_path / "runs").iterdir())), rounds=2)
    importlib.reload(sys.modules["pulling"])
    strong = final_loss("pulling.py:Pull")
    assert strong != weak
    file.write_text(METHOD.format(more="", factor=1.0))
    del sys.modules["pulling"]
    assert final_loss("pulling.py:Pull") == weak


def test_so_is_one_that_it_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "factors.py").write_text("FACTOR = 1.0\n")
    (tmp_path / "pulling_by.py").write_text(METHOD.format(more="from factors import FACTOR", factor="FACTOR"))
    weak = final_loss("pulling_by.py:Pull")
    (tmp_path / "factors.py").write_text("FACTOR = 9.25\n")
    with pytest.raises(ConfigError, match=r"factors\.py: was edited since this process imported it"):
        final_loss("pulling_by.py:Pull")
    importlib.reload(sys.modules["factors"])
    with pytest.raises(ConfigError, match=r"pulling_by\.py: imports factors\.py, as it was before that was edited"):
        final_loss("pulling_by.py:Pull")
    importlib.reload(sys.modules["pulling_by"])
    assert final_loss("pulling_by.py:Pull") != weak


def test_so_is_one_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.py").write_text(METHOD.format(more="", factor=1.0))
    (tmp_path / "pulling_there.py").symlink_to("first.py")
    final_loss("pulling_there.py:Pull")
    (tmp_path / "first.py").write_text(METHOD.format(more="", factor=9.25))
    with pytest.raises(ConfigError, match="was edited since this process imported it"):
        final_loss("pulling_there.py:Pull")


def test_a_loaded_run_is_compared_with_what_this_process_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes the model with that, whatever the file says by now."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "net_of_mine.py"
    file.write_text(
        "from torch import nn\n\n\ndef make():\n    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))\n"
    )
    given = {key: each for key, each in SMALL.items() if key != "model.hidden"}
    with one_thread():
        run = fl_ddp.simulate({**given, "model": "net_of_mine.py:make", "figures": False, "rounds": 1})
    file.write_text(file.read_text() + "# edited\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fl_ddp.load(run["folder"]).model
    del sys.modules["net_of_mine"]
    with pytest.warns(UserWarning, match="net_of_mine.py is not as it was when the run was made"):
        assert fl_ddp.load(run["folder"]).model
