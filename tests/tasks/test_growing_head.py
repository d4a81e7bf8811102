"""A head that grows with the tasks: classes count from theirs on."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.tasks.data import OwnTest, TaskTest

FOUR = {
    "data": "digits", "partition": "IID", "clients": 4, "compile": False, "device": "cpu", "model.hidden": 4, "seed": 5,
    "stream": "ClassGroups", "stream.tasks": 4, "stream.size": 2, "stream.task_rounds": 3,
}  # fmt: skip
SHRINKS = """
from dataclasses import dataclass
from fl_ddp.streams.class_groups import ClassGroups


@dataclass(frozen=True, kw_only=True)
class Shrinks(ClassGroups):
    head_grows = True

    def allowed(self, task):
        return self._of(task)
"""


def federation(settings: dict[str, object]) -> Federation:
    return build_federation(from_mapping(FOUR | settings), SOLO)


def test_a_head_that_grows_has_the_classes_so_far() -> None:
    built = federation({"stream.scenario": "seen", "stream.keep": True, "local_test": 0.2})
    for task in range(4):
        world, so_far = built.worlds.at(3 * task), [2 * task + 2] * (task + 1)
        of_all, of_own = built.worlds.all_tests(task), built.worlds.own_tests(task)
        assert world.allowed is not None and world.allowed.sum() == 2 * task + 2
        assert [allowed_in(test) for test in world.tests] == [allowed_in(test) for test in of_own] == so_far
        assert [allowed_in(test) for test in of_all] == [*so_far, *(2 * later + 2 for later in range(task + 1, 4))]
    assert allowed_in(built.worlds.own_tests(1)[0]) == 4, "also when a later task was looked at before"


def test_a_stream_whose_head_shrinks_is_refused(tmp_path: Path) -> None:
    """Without a word all tests of earlier tasks would be among labels that their samples have not."""
    (tmp_path / "shrinks.py").write_text(SHRINKS)
    with pytest.raises(ConfigError, match="without 0, which counted in the task before"):
        federation({"stream": f"{tmp_path}/shrinks.py:Shrinks"})


def allowed_in(test: TaskTest | OwnTest) -> int:
    """How many labels are allowed, the first ones."""
    assert test.allowed is not None
    number = int(test.allowed.sum())
    assert test.allowed[:number].all()
    return number
