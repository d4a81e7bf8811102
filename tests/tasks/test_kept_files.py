"""A run keeps the factors of its clients, and goes on with no others."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import SMALL, resumed, simulated

from fl_ddp.errors import ConfigError

HEAD = "client,factor\n"


@pytest.mark.parametrize("option", ["client_lr", "client_work"])
def test_a_run_does_not_go_on_with_other_factors(option: str, tmp_path: Path) -> None:
    given = tmp_path / "own.csv"
    given.write_text(HEAD + "3,0.5\n")
    run = simulated({**SMALL, "rounds": 1, option: str(given)}, tmp_path)
    kept = run / f"{option}.csv"
    assert kept.read_text() == HEAD + "".join(f"{k},{0.5 if k == 3 else 1.0}\n" for k in range(12))
    given.write_text(HEAD + "3,0.25\n")
    before = {file: file.stat().st_mtime_ns for file in run.rglob("*") if file.name != ".lock"}
    with pytest.raises(ConfigError) as error:
        resumed(run, rounds=2)
    what = f"the run was started with another {option} of its clients; restore the file of --{option}"
    assert str(error.value) == f"{kept}: {what}"
    assert {file: file.stat().st_mtime_ns for file in run.rglob("*") if file.name != ".lock"} == before
    given.write_text(HEAD + "0,1\n3,0.50\n")
    assert resumed(run, rounds=2) == run, "the same factors, written in another way"


@pytest.mark.slow
def test_a_law_s_factors_are_kept(tmp_path: Path) -> None:
    run = simulated({**SMALL, "rounds": 1, "client_lr": "uniform(0.5,0.5)"}, tmp_path)
    assert (run / "client_lr.csv").read_text() == HEAD + "".join(f"{k},0.5\n" for k in range(12))
    assert not (run / "client_work.csv").exists()
    assert resumed(run, rounds=2) == run
