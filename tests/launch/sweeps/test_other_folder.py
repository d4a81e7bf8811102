"""A sweep that goes on from another folder than that in which it began."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from launching import options

from launch.executor import Executor
from launch.run.outcome import Outcome
from launch.run.trial import Trial
from launch.sweep import main
from launch.sweeps.folder import Entry, Sweep, kept


def test_what_a_sweep_keeps_means_the_same_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {
        "config": "a.yaml",
        "data": "mine.npz",
        "data.root": "data",
        "partition.path": "../counts.csv",
        "method": "own.py:Mine",
        "measures": "[own.py:drift,other.py:norm]",
        "availability": "~/who.csv",
        "lr": "0.1",
    }
    found = {
        "config": f"{tmp_path}/a.yaml",
        "data": f"{tmp_path}/mine.npz",
        "data.root": f"{tmp_path}/data",
        "partition.path": f"{tmp_path.parent}/counts.csv",
        "method": f"{tmp_path}/own.py:Mine",
        "measures": f"{tmp_path}/own.py:drift,{tmp_path}/other.py:norm",
        "availability": "~/who.csv",
        "lr": "0.1",
    }
    assert [*map(kept, options(given)), kept("--flag")] == [*options(found), "--flag"]
    sweep = Sweep(Path("mine"), entries={"data=mine.npz,lr=0.2": Entry({"data": "mine.npz", "lr": "0.2"}, "it broke")})
    names = sweep.add([{"data": "mine.npz", "lr": lr} for lr in ("0.1", "0.2")])
    assert names == ["data=mine.npz,lr=0.1", "data=mine.npz,lr=0.2"], "short, as they were given"
    assert sweep.entries == {
        "data=mine.npz,lr=0.1": Entry({"data": found["data"], "lr": "0.1"}),
        "data=mine.npz,lr=0.2": Entry({"data": found["data"], "lr": "0.2"}, "it broke"),
    }


def test_a_sweep_goes_on_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[dict[str, object]] = []

    def make_all(_: Executor, trials: Sequence[Trial], __: Path, ___: Callable[[Outcome], None]) -> list[Outcome]:
        made.append({trial.label: trial.config.data.init_args["path"] for trial in trials})
        return []

    monkeypatch.setattr(Executor, "make_all", make_all)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["--name=mine", "--data=mine.npz", "--grid=seed=0"]) == 0
    assert main(["--name=others", "--grid=data=mine.npz"]) == 0
    monkeypatch.chdir(tmp_path / "there")
    assert main(["--name=mine", f"--out={tmp_path}/here/sweeps"]) == 0
    assert main(["--name=others", f"--out={tmp_path}/here/sweeps"]) == 0
    file = str(tmp_path / "here" / "mine.npz")
    assert made == 2 * [{"seed=0": file}, {"data=mine.npz": file}]
