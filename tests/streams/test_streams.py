"""What the tasks of each stream make of inputs, labels and classes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2

from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError
from fl_ddp.streams.class_groups import ClassGroups
from fl_ddp.streams.from_file import FromFile
from fl_ddp.streams.permuted import Permuted
from fl_ddp.streams.rotated import Rotated
from fl_ddp.streams.static import Static
from fl_ddp.streams.stream import Stream

PIXELS = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (5, 3, 6, 6), np.uint8))
LABELS = np.array([0, 1, 2, 3, 4, 5, 0, 5])


def inputs(stream: Stream, task: int, x: Tensor = PIXELS) -> Tensor:
    return stream.inputs(task, x, generator(7, Purpose.STREAM, task))


@pytest.mark.parametrize("x", [PIXELS, PIXELS[:, 0], torch.rand(5, 7)], ids=["colour", "grey", "features"])
def test_permutations_are_numpys(x: Tensor) -> None:
    stream = Permuted(tasks=3)
    assert inputs(stream, 0, x) is x
    kept = x.shape[: 2 if x.ndim > 2 else 1]
    for task in (1, 2):
        flat = x.numpy().reshape(*kept, -1)
        order = generator(7, Purpose.STREAM, task).permutation(flat.shape[-1])
        assert sorted(order) != list(order)
        assert np.array_equal(inputs(stream, task, x).numpy().reshape(*kept, -1), flat[..., order])
    assert not torch.equal(inputs(stream, 1, x), inputs(stream, 2, x))


def test_rotations_are_torchvisions_and_whole_turns_none() -> None:
    stream = Rotated(tasks=5, angle=90)
    assert inputs(stream, 0) is PIXELS and inputs(stream, 4) is PIXELS
    assert torch.equal(inputs(stream, 1), PIXELS.rot90(1, (2, 3)))
    bilinear = v2.functional.rotate(PIXELS, 30.0, v2.InterpolationMode.BILINEAR)
    assert torch.equal(inputs(Rotated(angle=30), 1), bilinear)
    alone = torch.cat([inputs(Rotated(angle=30), 1, image[None]) for image in PIXELS])
    assert torch.equal(inputs(Rotated(angle=30), 1), alone)  # an image's bits do not depend on those beside it


def test_features_cannot_be_turned() -> None:
    with pytest.raises(ConfigError, match=r"^--stream: Rotated turns images, and samples have the shape \[7\]"):
        inputs(Rotated(), 1, torch.rand(5, 7))


@pytest.mark.parametrize(
    ("scenario", "second", "names", "allowed"),
    [
        ("class", [-1, -1, 2, 3, -1, -1, -1, -1], ("a", "b", "c", "d"), None),
        ("task", [-1, -1, 2, 3, -1, -1, -1, -1], ("a", "b", "c", "d"), [2, 3]),
        ("domain", [-1, -1, 0, 1, -1, -1, -1, -1], ("0", "1"), None),
    ],
)
def test_groups_of_classes(scenario: str, second: list[int], names: tuple[str, ...], allowed: list[int] | None) -> None:
    stream = ClassGroups(tasks=2, size=2, scenario=scenario)  # type: ignore[arg-type]
    assert stream.classes(("a", "b", "c", "d", "e", "f")) == names
    assert stream.labels(1, LABELS, len(names)).tolist() == second
    assert stream.of_task(1, stream.labels(1, LABELS, len(names)), "train").tolist() == [2, 3]
    found = stream.allowed(1)
    assert (None if found is None else list(found)) == allowed


@pytest.mark.parametrize(
    ("scenario", "names", "found"),
    [
        ("class", "abcdef", [[0, 1, 2, -1, -1, -1], [-1, -1, -1, 3, -1, -1], [-1, -1, -1, -1, 4, -1]]),
        ("task", "abcdef", [[0, 1, 2, -1, -1, -1], [-1, -1, -1, 3, -1, -1], [-1, -1, -1, -1, 4, -1]]),
        ("domain", "012", [[0, 1, 2, -1, -1, -1], [-1, -1, -1, 0, -1, -1], [-1, -1, -1, -1, 0, -1]]),
    ],
)
def test_the_first_group_may_be_of_another_size(scenario: str, names: str, found: list[list[int]]) -> None:
    stream = ClassGroups(tasks=3, size=1, first=3, scenario=scenario)  # type: ignore[arg-type]
    assert stream.classes(tuple("abcdefg")) == tuple(names[:5])
    assert [stream.labels(task, np.arange(6), 5).tolist() for task in range(3)] == found
    allowed = [stream.allowed(task) for task in range(3)]
    assert allowed == ([range(3), range(3, 4), range(4, 5)] if scenario == "task" else [None] * 3)


def test_a_later_group_may_be_the_largest() -> None:
    stream = ClassGroups(tasks=2, size=3, first=1, scenario="domain")
    assert stream.classes(tuple("abcd")) == ("0", "1", "2")
    assert stream.labels(1, np.arange(5), 3).tolist() == [-1, 0, 1, 2, -1]


def test_groups_and_a_first_one_need_as_many_classes_as_there_are() -> None:
    message = (
        r"^--stream.tasks: 3 classes \(--stream.first\) and 2 tasks of 2 classes \(--stream.size\) are 7, and .* 6 "
    )
    with pytest.raises(ConfigError, match=message):
        ClassGroups(tasks=3, size=2, first=3).classes(tuple("abcdef"))


def test_a_first_group_alone_needs_as_many() -> None:
    message = r"^--stream.first: 7 classes \(--stream.first\) are 7, and the data have 6 classes"
    with pytest.raises(ConfigError, match=message):
        ClassGroups(tasks=1, first=7).classes(tuple("abcdef"))


def test_a_random_order_is_numpys() -> None:
    assert ClassGroups().class_order(6, generator(7, Purpose.CLASS_ORDER)) is None
    order = ClassGroups(order="random").class_order(6, generator(7, Purpose.CLASS_ORDER))
    assert order == generator(7, Purpose.CLASS_ORDER).permutation(6).tolist() != [*range(6)]


def test_groups_need_as_many_classes_as_there_are() -> None:
    message = r"^--stream.tasks: 4 tasks of 2 classes \(--stream.size\) are 8, and the data have 6 classes"
    with pytest.raises(ConfigError, match=message):
        ClassGroups(tasks=4, size=2).classes(("a", "b", "c", "d", "e", "f"))


def test_tasks_follow_each_other_and_the_last_one_goes_on() -> None:
    stream = Static(tasks=3, task_rounds=2)
    assert [stream.task(index) for index in range(9)] == [0, 0, 1, 1, 2, 2, 2, 2, 2]
    assert [index for index in range(9) if stream.ends_task(index)] == [1, 3]


def test_tasks_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps({"train": [[3, 1], [0, 3], []], "test": [[0], [1], [2]]}))
    stream = FromFile(path=str(file))
    assert stream.num_tasks == 3
    assert [stream.of_task(task, LABELS, "train").tolist() for task in range(3)] == [[1, 3], [0, 3], []]
    assert [stream.of_task(task, LABELS, "test").tolist() for task in range(3)] == [[0], [1], [2]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "cannot be read as JSON"),
        ("{}", "lists no tasks; accepted: "),
        ('{"train": [[0]], "test": []}', "has 1 lists of training samples and 0 of test samples"),
        ('{"train": [[0, -1]], "test": [[0]]}', "train has a list that is none of sample indices"),
        ('{"train": [[0]], "test": [[2, 2]]}', "test has a list that is none of sample indices"),
        ('{"train": [[0]], "test": [3]}', "test has a list that is none of sample indices"),
        ('{"train": [[8]], "test": [[0]]}', "task 1 has train sample 8, which does not exist; accepted: 0 to 7"),
    ],
)
def test_files_that_list_no_tasks(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "tasks.json"
    file.write_text(content)
    with pytest.raises(ConfigError) as refused:
        FromFile(path=str(file)).of_task(0, LABELS, "train")
    assert str(refused.value).startswith(str(file)) and message in str(refused.value)


def test_a_file_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"^--stream.path: no file is named; accepted: a JSON file"):
        _ = FromFile().num_tasks


@pytest.mark.parametrize(("sizes", "left"), [([3, 4, 6], [0, 1, 1]), ([5, 7], [1, 2]), ([4, 4], [1, 1])])
def test_odd_samples_of_a_fixed_room_go_to_the_largest_remainders(sizes: list[int], left: list[int]) -> None:
    assert Permuted(keep=0.5, budget="fixed").kept(sizes) == left
