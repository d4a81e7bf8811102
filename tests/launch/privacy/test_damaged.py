"""launch.reconstruct: runs that cannot be read, and what attacks of before have left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from written_runs import Written

from launch.privacy import of_run
from launch.reconstruct import main
from launch.run.reconstruction_curves import COLUMNS, FILE, PICTURES


@pytest.fixture
def attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the runs that were attacked, of three in runs/, by an attack that takes no time."""
    monkeypatch.chdir(tmp_path)
    names: list[str] = []

    def attack(folder: Path, epochs: int) -> None:
        names.append(folder.name)
        Path(folder, FILE).write_text(f"{','.join(COLUMNS)}\n1,20.0,10.0,{epochs},abc\n2,18.0,9.0,{epochs},abc\n")
        pictures = {
            f"{name}/{task}": torch.zeros(4, 1, 8, 8) for name in ("images", "reconstructions") for task in "12"
        }
        save_file(pictures, folder / PICTURES)

    monkeypatch.setattr(of_run, "attack", attack)
    monkeypatch.setattr(of_run, "refuse_others", lambda folder: None)
    for seed in (0, 1, 2):
        Written({"seed": seed}, [0.5]).at(Path("runs", f"row-seed{seed}"))
    return names


@pytest.mark.parametrize(
    ("damaged", "remade"),
    [
        ("", True),
        ("round,accuracy\n", True),
        (f"{','.join(COLUMNS)}\n1,20.0,10.0,2,abc\n2,much,9.0,2,abc\n", True),
        (f"{','.join(COLUMNS)}\n1,20.0\n", True),
        (f"{','.join(COLUMNS)}\n1,20.0,10.0,2,abc\n2,18.0,9.0,2,abc\n", False),
    ],
)
def test_numbers_that_cannot_be_read_are_made_anew(
    damaged: str, remade: bool, attacked: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "--epochs", "2"]) == 0
    assert attacked == ["row-seed0", "row-seed1", "row-seed2"]
    Path("runs/row-seed1", FILE).write_text(damaged)
    assert main(["runs", "--epochs", "2"]) == 0
    assert attacked[3:] == (["row-seed1"] if remade else []) and capfd.readouterr().err == ""


def test_runs_that_cannot_be_read_are_told_and_left_out(attacked: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    Path("runs/row-seed1/metrics.csv").write_text("round,accuracy\n1,x\n")
    points = [{"folder": "late", "options": {}, "failed": "it broke"}]
    Path("runs/sweep.json").write_text(json.dumps({"base": [], "varied": [], "points": points}))
    assert main(["runs"]) == 1
    out, err = capfd.readouterr()
    assert attacked == ["row-seed0", "row-seed2"] and "20.00 ± 0.00" in out
    first, second = err.splitlines()
    assert (first, second.partition(" is not")[0]) == (
        "failed: late: it broke",
        "failed: row-seed1: runs/row-seed1/metrics.csv:",
    )


def test_where_no_run_can_be_read_there_is_no_table(attacked: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 1, 2):
        Path(f"runs/row-seed{seed}/config.yaml").write_text("- 1\n")
    assert main(["runs"]) == 2
    assert capfd.readouterr().err.startswith("reconstruct: error: runs/row-seed0/config.yaml: is not the configuration")
    Path("sweep").mkdir()
    points = [{"folder": "late", "options": {}, "failed": "it broke"}, {"folder": "later", "options": {}}]
    Path("sweep/sweep.json").write_text(json.dumps({"base": [], "varied": [], "points": points}))
    assert main(["sweep"]) == 2 and attacked == []
    told = "failed: late: it broke\nreconstruct: error: sweep: holds no run that has begun; accepted: finished runs\n"
    assert capfd.readouterr() == ("", told)
