"""Paths of the user's that begin with a home, or that no file can have."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import SMALL, one_thread, options

import fl_ddp
from fl_ddp import simulate
from fl_ddp.errors import ConfigError
from fl_ddp.main import main
from fl_ddp.reading.homes import users_path

NOWHERE = "~nosuchuser"
OWN = """
from fl_ddp.api import FedAvg, GlobalModel

class Mine(FedAvg):
    pass

def mine(model: GlobalModel) -> float:
    return 1.0
"""


@pytest.mark.parametrize(
    "given",
    [
        {"availability": f"{NOWHERE}/a.csv"},
        {"class_reduction": f"{NOWHERE}/a.csv"},
        {"client_lr": f"{NOWHERE}/a.csv"},
        {"client_work": f"{NOWHERE}/a.csv"},
        {"init": NOWHERE},
        {"resume": f"{NOWHERE}/run"},
        {"config": f"{NOWHERE}/a.yaml"},
        {"method": f"{NOWHERE}/own.py:Mine"},
        {"measures": f"{NOWHERE}/own.py:mine"},
        {"partition": "FromCounts", "partition.path": f"{NOWHERE}/a.csv"},
        {"partition": "FromFile", "partition.path": f"{NOWHERE}/a.json"},
        {"stream": "Rotated", "rounds": 4, "stream.task_rounds": 2, "stream.enrolment": f"{NOWHERE}/a.csv"},
        {"data": "Npz", "data.path": f"{NOWHERE}/a.npz"},
        {"data": "Npy", "data.path": NOWHERE},
        {"data": "Csv", "data.path": f"{NOWHERE}/a.csv"},
        {"data": "ImageFolder", "data.root": NOWHERE},
        {"data": "MNIST", "data.root": NOWHERE},
        {"data": "CIFAR10", "data.root": NOWHERE},
        {"data": "Shakespeare", "data.root": NOWHERE},
    ],
    ids=lambda given: list(given)[-1],
)
def test_a_home_of_nobody_is_refused(
    given: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option, path = list(given.items())[-1]
    assert main(options({**SMALL, **given, "out": tmp_path})) == 2
    told = f"--{option}: {path} begins with {NOWHERE}, a home that is not known here; accepted: a path from "
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "error" in each]
    assert told in line


def test_a_home_of_nobody_has_no_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options({**SMALL, "out": f"{NOWHERE}/runs"})) == 2
    assert f"--out: {NOWHERE}/runs begins with {NOWHERE}, a home" in capsys.readouterr().err


def test_what_a_shell_leaves_as_it_is_lies_in_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None expands what stands behind a =."""
    home, here = tmp_path / "home", tmp_path / "here"
    for folder in (home, here):
        folder.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(here)
    (home / "at_home.py").write_text(OWN)
    (home / "own.yaml").write_text("method: ~/at_home.py:Mine\nmeasures: [~/at_home.py:mine]\n")
    small = options({**SMALL, "config": "~/own.yaml", "out": "~/runs", "rounds": 1})
    with one_thread():
        assert main(small) == 0
        assert main(["--resume=~/runs/run", "--rounds=2"]) == 0
        assert simulate("~/own.yaml", resume="~/runs/run", rounds=3)["rounds"] == 3
    assert list(here.iterdir()) == []


def test_a_run_in_a_home_of_nobody_is_not_loaded() -> None:
    with pytest.raises(ConfigError, match=f"^folder: {NOWHERE}/run begins with {NOWHERE}, a home"):
        fl_ddp.load(f"{NOWHERE}/run")


LONG = "c" * 300


@pytest.mark.parametrize(
    "given",
    [
        {"init": LONG},
        {"resume": LONG},
        {"config": LONG},
        {"availability": f"{LONG}.csv"},
        {"data": "ImageFolder", "data.root": f"/{LONG}/pets"},
        {"data": "MNIST", "data.root": LONG},
        {"data": "Npy", "data.path": LONG},
        {"data": "Npz", "data.path": "a/" * 2500},
        {"method": f"{LONG}.py:Mine"},
        {"method": f"{LONG}.py"},
        {"measures": f"{LONG}.py:mine"},
        {"out": LONG},
    ],
    ids=lambda given: list(given)[-1],
)
def test_a_path_that_no_file_can_have_is_refused(
    given: dict[str, object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option, path = list(given.items())[-1]
    assert main(options({**SMALL, "out": tmp_path, **given})) == 2
    (line,) = [each for each in capsys.readouterr().err.splitlines() if "error" in each]
    accepted = "; accepted: names of up to 255 bytes, 4095 in all"
    assert f"--{option}: {str(path)[:20]}... is too long for a path" in line and line.endswith(accepted)


def test_no_run_has_such_a_path() -> None:
    with pytest.raises(
        ConfigError, match=r"^folder: cccccccccccccccccccc\.\.\. is too long for a path; accepted: names"
    ):
        fl_ddp.load(LONG)


def test_a_home_that_is_known_is_gone_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert users_path("--init", "~/a") == Path("/somewhere/a")
    assert users_path("--init", "a/~b") == Path("a/~b")
