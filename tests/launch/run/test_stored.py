"""Runs as they are read, also those of before an option."""

from __future__ import annotations

from pathlib import Path

import yaml
from written_runs import Written

from launch.run.stored import read_run


def test_a_run_of_before_other_samplings_is_one_of_the_uniform_one(tmp_path: Path) -> None:
    file = Written({}, [0.5]).at(tmp_path / "old") / "config.yaml"
    config = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({key: value for key, value in config.items() if key != "client_sampling"}))
    run = read_run(tmp_path / "old")
    assert run is not None and run.config["client_sampling"] == "uniform"
