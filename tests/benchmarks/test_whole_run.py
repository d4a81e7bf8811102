"""What a whole run took, by its own rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import whole_run
from whole_run import numbers_of


def test_the_first_round_compiles_and_counts_apart() -> None:
    walls, training, padded = ("100.0", "101.5", "103.0"), ("60.0", "1.0", "1.25"), ("0.5", "0.5", "0.5")
    rows = [
        {"round": str(i), "time_wall": w, "time_training": t, "time_other": "0.25", "time_padded_lanes": p}
        for i, (w, t, p) in enumerate(zip(walls, training, padded, strict=True))
    ]
    assert numbers_of(rows) == {
        "rounds": 2, "seconds": 3.0, "milliseconds_a_round": 1500.0, "training_seconds": 2.25, "other_seconds": 0.5
    }  # fmt: skip


@pytest.mark.slow
def test_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "whole.json"
    command = [sys.executable, whole_run.__file__, "--smoke", "--device", "cpu", "--results", str(file)]
    subprocess.run(command, check=True)
    found = json.loads(file.read_text())["results"]
    assert found["rounds"] == 3 and 0 < found["seconds"] < found["process_seconds"]
    assert len(found["parameters_sha256"]) == 64
