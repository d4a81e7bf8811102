"""Whether a run has ended as it was asked to, which decides whether its job comes again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from written_runs import Written

from fl_ddp.errors import ConfigError
from launch.slurm.ended import has_ended


@pytest.mark.parametrize(
    ("options", "ended"),
    [
        ([], True),
        (["--rounds=2"], True),
        (["--rounds=2", "--eval_every=1", "--checkpoint_every=7"], True),
        (["--rounds=3"], False),
        (["--rounds=1"], True),
        (["--rounds=2", "--stop_at=accuracy=0.9"], True),
        (["--rounds=3", "--patience=5"], False),
    ],
    ids=str,
)
def test_a_run_that_was_asked_for_more_since_has_not_ended(options: list[str], ended: bool, tmp_path: Path) -> None:
    assert has_ended(Written({}, [0.5, 0.5]).at(tmp_path / "run"), options) == ended


def test_a_run_that_ended_by_an_earlier_rule_has_not_by_another_one(tmp_path: Path) -> None:
    run = Written({"stop_at": "accuracy=0.5"}, [0.5, 0.5], 9).at(tmp_path / "run")
    assert not has_ended(run, [])
    (run / "summary.json").write_text(json.dumps({"rounds": 2, "stopped": "accuracy is 0.5"}))
    assert has_ended(run, []) and has_ended(run, ["--rounds=9", "--stop_at=accuracy=0.5"])
    assert not has_ended(run, ["--stop_at=accuracy=0.7"])
    (run / "summary.json").write_text(json.dumps({"rounds": 1, "stopped": "accuracy was 0.4, and it went on"}))
    assert not has_ended(run, [])


def test_a_file_of_another_place_asks_for_no_other_run(tmp_path: Path) -> None:
    run = Written({}, [0.5, 0.5]).at(tmp_path / "run")
    (file := tmp_path / "mine.yaml").write_text("name: other\nout: elsewhere\nrounds: 2\n")
    assert has_ended(run, [f"--config={file}"])
    assert not has_ended(run, [f"--config={file}", "--rounds=3"])


def test_what_has_not_begun_has_not_ended(tmp_path: Path) -> None:
    assert not has_ended(tmp_path / "run", ["--rounds=2"])


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    run = Written({}, [0.5, 0.5]).at(tmp_path / "run")
    with pytest.raises(ConfigError, match="--round: "):
        has_ended(run, ["--round=3"])
