"""Runs of other versions of a user's file: a sweep tells of them, and a table whose rows mix them says so."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from launching import SMALL, options
from written_runs import Written

from launch.results import main as results
from launch.run.edited import differing_versions, tell_of_devices
from launch.run.stored import read_run
from launch.run.trial import Trial
from launch.sweep import main as sweep

METHOD = '''
from dataclasses import dataclass
from fl_ddp.api import FedAvg

@dataclass(frozen=True)
class Slower(FedAvg):
    """FedAvg of half a step."""

    def mean_delta(self, total):
        return {share} * super().mean_delta(total)
'''


@pytest.mark.slow
def test_a_sweep_of_a_file_that_was_edited_says_which_runs_are_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "of_an_edited_sweep.py"
    file.write_text(METHOD.format(share=0.5))
    base = {key: value for key, value in SMALL.items() if key != "name"} | {"rounds": 1}
    grid = [*options(base), "--name", "own", "--grid", f"method=FedAvg,{file}:Slower"]
    assert sweep([*grid, "--grid", "seed=0"]) == 0
    assert sweep([*grid, "--grid", "seed=0"]) == 0
    assert results(["sweeps/own"]) == 0
    said = capfd.readouterr()
    assert "edited" not in said.err and "versions" not in said.out

    file.write_text(METHOD.format(share=0.25))
    sys.modules.pop("of_an_edited_sweep", None)
    assert sweep([*grid, "--grid", "seed=0..1"]) == 0
    (before,), (after,) = (list(Path("sweeps/own").glob(f"*Slower,seed={seed}*/")) for seed in (0, 1))
    warning = f"warning: finished before {file} was edited: 1 run ({before.name}); remove their folders to have them"
    err = capfd.readouterr().err
    assert f"{warning} made anew\n" in err and err.count("warning") == 1
    assert results(["sweeps/own"]) == 0
    versions = f"of different versions of {file}: 1 run ({before.name}); 1 run ({after.name})"
    assert versions in capfd.readouterr().out and versions in Path("sweeps/own/results.md").read_text()


@pytest.mark.parametrize(
    ("began", "rounds", "asked", "told"),
    [
        ("cpu", 2, ["--device=cuda"], True),
        ("cpu", 2, ["--device=auto"], False),
        ("cpu", 2, ["--device=cpu"], False),
        ("cpu", 2, [], False),
        ("cpu", 1, ["--device=cuda"], False),
        ("auto", 2, ["--device=cuda"], False),
    ],
)
def test_a_run_that_goes_on_where_it_began_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], began: str, rounds: int, asked: list[str], told: bool
) -> None:
    base = {**SMALL, "rounds": rounds}
    folder = Written({**base, "device": began, "name": "a"}, [0.5], rounds).at(tmp_path / "a")
    if rounds == 1:
        (folder / "summary.json").write_text(json.dumps({"rounds": 1}))
    given = [word for word in options({k: v for k, v in base.items() if k not in ("name", "device")}) if word]
    trial = Trial("a", folder, (*given, *asked))
    tell_of_devices([trial, Trial("b", tmp_path / "b", (*given, *asked))])
    warning = f"warning: begun with --device {began}, and going on with that: 1 run (a)\n"
    assert capfd.readouterr().err == (warning if told else "")


def test_a_sweep_says_which_points_go_on_where_they_began(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    base = {key: value for key, value in SMALL.items() if key not in ("name", "device")} | {"rounds": 2}
    grid = [*options(base), "--name", "d", "--grid", "seed=0..1"]
    Written({**base, "seed": 0, "device": "cpu"}, [0.5], 2).at(Path("sweeps/d/seed=0"))
    assert sweep([*grid, "--device", "cuda", "--dry_run"]) == 0
    assert "warning: begun with --device cpu, and going on with that: 1 run (seed=0)\n" in capfd.readouterr().err


def test_runs_that_cannot_tell_are_of_no_other_version(tmp_path: Path) -> None:
    told = {"old": None, "a": {"f.py": "1"}, "b": {"f.py": "1"}, "c": {"f.py": "2", "g.py": "3"}}
    runs = []
    for name, code in told.items():
        folder = Written({**SMALL, "name": name}, [0.5]).at(tmp_path / name)
        (folder / "summary.json").write_text(json.dumps({"rounds": 1} | ({"code": code} if code else {})))
        run = read_run(folder)
        assert run
        runs.append(run)
    assert differing_versions(runs) == ["of different versions of f.py: 2 runs (a and others); 1 run (c)"]
    assert differing_versions(runs[:3]) == differing_versions([runs[0], runs[3]]) == []
