"""What a run tells of its last model where a callback ends it between two evaluations."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import SMALL

import fl_ddp
from fl_ddp.notebook.result import Result


def folder(result: Result) -> Path:
    return Path(str(result["folder"]))


def test_tasks_are_told_of_the_model_that_a_callback_ends_with(tmp_path: Path) -> None:
    tasks = {**SMALL, "stream": {"name": "Permuted", "tasks": 3, "task_rounds": 2}, "rounds": 6}
    part = fl_ddp.simulate(tasks, eval_every=2, out=str(tmp_path / "a"), callbacks=[lambda record: record.round == 3])
    third = fl_ddp.simulate({**tasks, "rounds": 3}, out=str(tmp_path / "b"))
    own, whole = (list(each["task_accuracy"])[-1][:2] for each in (part, third))
    assert own == whole and part["average_accuracy"] == third["average_accuracy"] == pytest.approx(sum(own) / 2)
    assert part["average_forgetting"] == third["average_forgetting"] is not None
    table = folder(part) / "tasks.csv"
    assert table.read_text().splitlines()[-1].startswith("3,2,2,")
    again = fl_ddp.simulate(resume=str(folder(part)), rounds=6)
    straight = fl_ddp.simulate(tasks, eval_every=2, out=str(tmp_path / "c"))
    assert again["average_accuracy"] == straight["average_accuracy"]
    assert (folder(again) / "tasks.csv").read_text() == (folder(straight) / "tasks.csv").read_text()
