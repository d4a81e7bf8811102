"""What a user's stream makes of its tasks: what Stream says it may be, or one line that names its function."""

from __future__ import annotations

import random  # noqa: TID251
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, one_thread, options
from torch import Tensor

from fl_ddp.errors import ConfigError, RunError
from fl_ddp.main import main
from fl_ddp.protocol import Indices, Origin
from fl_ddp.streams.permuted import Permuted
from fl_ddp.tasks.of_stream import (
    allowed_in,
    classes_in,
    head_grows_in,
    inputs_in,
    labels_in,
    refuse_lost_label,
    refuse_other_tasks,
)

Y = np.array([0, 1, 2, 1, 0])
X = torch.arange(10.0).view(5, 2)


class Mine(Permuted):
    """Gives what a test says, of what it is given."""

    def __init__(self, given: object) -> None:
        super().__init__()
        object.__setattr__(self, "given", given)

    def of(self, *known: object) -> object:
        given = self.given  # type: ignore[attr-defined]
        return given(*known) if callable(given) else given


class Labels(Mine):
    def labels(self, task: int, y: Indices, num_classes: int) -> Indices:
        return self.of(y)  # type: ignore[return-value]


class OfTask(Mine):
    def of_task(self, task: int, labels: Indices, origin: Origin) -> Indices:
        return self.of(labels)  # type: ignore[return-value]


class Allowed(Mine):
    def allowed(self, task: int) -> Sequence[int] | None:
        return self.of()  # type: ignore[return-value]


class Grows(Mine):
    @property
    def head_grows(self) -> bool:
        return self.of()  # type: ignore[return-value]


class Inputs(Mine):
    def inputs(self, task: int, x: Tensor, rng: np.random.Generator) -> Tensor:
        return self.of(x)  # type: ignore[return-value]


class Classes(Mine):
    def classes(self, names: tuple[str, ...]) -> tuple[str, ...]:
        return self.of(names)  # type: ignore[return-value]


class NumTasks(Mine):
    @property
    def num_tasks(self) -> int:
        return self.of()  # type: ignore[return-value]


class Task(Mine):
    @property
    def num_tasks(self) -> int:
        return 3

    def task(self, index: int) -> int:
        return self.of(index)  # type: ignore[return-value]


def test_names_of_the_runs_labels() -> None:
    names = ("a", "b", "c")
    assert classes_in(Classes(lambda names: names), names) == names
    assert classes_in(Classes(lambda names: [*names[1:], "d"]), names) == ("b", "c", "d")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "gives int; accepted: a tuple of names, of at least one label"),
        ("abc", "gives str; accepted: a tuple of names, of at least one label"),
        ((), "gives (); accepted: a tuple of names, of at least one label"),
        ((0, 1), "gives (0, 1); accepted: a tuple of names, of at least one label"),
        (("a", "b", "a"), "names two labels 'a'; accepted: names that are distinct"),
    ],
)
def test_what_names_no_labels_is_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^test_of_stream\.py:\d+: classes of Classes: " + re.escape(words) + "$"):
        classes_in(Classes(given), ("a", "b", "c"))


def test_tasks_one_after_the_other() -> None:
    refuse_other_tasks(NumTasks(np.int64(3)), 4)
    refuse_other_tasks(Task(lambda index: min(index // 2, 2)), 9)
    refuse_other_tasks(Task(lambda index: np.int64(0)), 9)
    refuse_other_tasks(Task(lambda index: index), 2)


@pytest.mark.parametrize(("given", "words"), [(0, "0"), (2.0, "2.0"), (True, "True"), (None, "NoneType")])
def test_no_number_of_tasks_is_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"^--stream: num_tasks of NumTasks: is {words}; accepted: a whole number"):
        refuse_other_tasks(NumTasks(given), 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda index: index, "gives 3 in round 4; accepted: whole numbers from 2 to 2,"),
        (lambda index: index - 1, "gives -1 in round 1; accepted: whole numbers from 0 to 2,"),
        (lambda index: index % 2, "gives 0 in round 3; accepted: whole numbers from 1 to 2,"),
        (lambda index: 0.0, "gives 0.0 in round 1; accepted: whole numbers from 0 to 2,"),
        (None, "gives None in round 1; accepted: whole numbers from 0 to 2,"),
    ],
)
def test_rounds_of_no_task_are_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^test_of_stream\.py:\d+: task of Task: " + words):
        refuse_other_tasks(Task(given), 3)


def test_labels_of_a_task() -> None:
    assert labels_in(Labels(lambda y: y), 0, Y, 3, "train") is Y
    assert labels_in(Labels(lambda y: y.astype(np.int32)), 0, Y, 3, "train") is Y
    assert labels_in(Labels(lambda y: (y + 1) % 3), 0, Y, 3, "train").tolist() == [1, 2, 0, 2, 1]
    assert labels_in(Labels(lambda y: np.where(y == 1, y, -1)), 0, Y, 3, "train").tolist() == [-1, 1, -1, 1, -1]


def test_samples_of_a_task() -> None:
    assert labels_in(OfTask(lambda y: np.arange(5)), 0, Y, 3, "train") is Y
    assert labels_in(OfTask(lambda y: [4, 1]), 0, Y, 3, "train").tolist() == [-1, 1, -1, -1, 0]
    assert labels_in(OfTask([]), 0, Y, 3, "train").tolist() == [-1] * 5
    assert labels_in(Labels(lambda y: np.where(y == 1, y, -100)), 0, Y, 3, "train").tolist() == [-1, 1, -1, 1, -1]
    first_two = labels_in(OfTask(lambda y: np.flatnonzero(y < 2)), 0, Y, 2, "train")
    assert first_two.tolist() == [0, 1, -1, 1, 0]


def test_labels_among_which_samples_are() -> None:
    assert allowed_in(Allowed(None), 0, Y, 3) is None
    for given in ([2, 0, 1], range(3), np.arange(3), {0, 1, 2}, (0, 1, 2)):
        found = allowed_in(Allowed(given), 0, Y, 5)
        assert found is not None and found.tolist() == [0, 1, 2]
    some = allowed_in(Allowed([1, 0]), 0, np.array([-1, 0]), 3)
    assert some is not None and some.tolist() == [0, 1]


def test_inputs_of_a_task() -> None:
    assert inputs_in(Inputs(lambda x: x), 0, X, np.random.default_rng()) is X
    assert torch.equal(inputs_in(Inputs(lambda x: x.mul_(2)), 0, X, np.random.default_rng()), 2 * X)
    assert X[0, 1] == 1


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (Labels, None, "labels of Labels: gives NoneType in task 2; accepted: an array or a list of whole numbers [n]"),
        (Labels, torch.from_numpy(Y), "gives int64 [5] in task 2; accepted: an array or a list of whole numbers [n]"),
        (Labels, Y / 2, "gives float64 [5] in task 2; accepted: an array or a list of whole numbers [n]"),
        (Labels, Y[:, None], "gives int64 [5, 1] in task 2; accepted: an array or a list of whole numbers [n]"),
        (Labels, Y > 0, "gives bool [5] in task 2; accepted: an array or a list of whole numbers [n]"),
        (Labels, Y[:3], "gives [3] labels in task 2; accepted: one of each sample, [5]"),
        (Labels, Y + 1, "gives the label 3 in task 2; accepted: -1 to 2, of the 3 classes()"),
        (
            OfTask,
            None,
            "of_task of OfTask: gives NoneType in task 2; accepted: an array or a list of whole numbers [n]",
        ),
        (OfTask, Y > 0, "gives bool [5] in task 2; accepted: an array or a list of whole numbers [n]"),
        (OfTask, [0, 5], "gives the sample 5 in task 2; accepted: 0 to 4"),
        (OfTask, np.arange(-1, 2), "gives the sample -1 in task 2; accepted: 0 to 4"),
        (OfTask, np.full(5, 3), "gives a sample twice in task 2; accepted: each at most once"),
    ],
)
def test_labels_and_samples_that_are_none_are_refused(kind: type[Mine], given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^test_of_stream\.py:\d+: .*" + re.escape(words) + "$"):
        labels_in(kind(given), 1, Y, 3, "test")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (3, "allowed of Allowed: gives int in task 2; accepted: an array or a list of whole numbers [n]"),
        (["0", "1", "2"], "gives <U1 [3] in task 2; accepted: an array or a list of whole numbers [n]"),
        ([True, True, False], "gives bool [3] in task 2; accepted: an array or a list of whole numbers [n]"),
        ([0, 1, 2, 3], "gives the label 3 in task 2; accepted: 0 to 2"),
        ([-1, 0, 1, 2], "gives the label -1 in task 2; accepted: 0 to 2"),
        ([], "gives [], without 0, which samples of the task have in task 2; accepted: all labels of the task"),
        ([0, 2], "gives [0, 2], without 1, which samples of the task have in task 2; accepted: all labels of the task"),
    ],
)
def test_labels_that_cannot_be_allowed_are_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=r"^test_of_stream\.py:\d+: .*" + re.escape(words) + "$"):
        allowed_in(Allowed(given), 1, Y, 3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda x: x[:, :1], "inputs of Inputs: turns float32 [5, 2] into float32 [5, 1]"),
        (lambda x: x.double(), "inputs of Inputs: turns float32 [5, 2] into float64 [5, 2]"),
        (None, "inputs of Inputs: turns float32 [5, 2] into NoneType"),
    ],
)
def test_inputs_of_another_form_are_refused(given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(words) + "; accepted: inputs of the same shape and type$"):
        inputs_in(Inputs(given), 1, X, np.random.default_rng())


@pytest.mark.parametrize(("given", "number"), [(lambda x: (x + 1) / 0, "inf"), (lambda x: x.sub_(9).sqrt_(), "nan")])
def test_inputs_that_are_not_finite_are_refused_by_their_own_name(given: object, number: str) -> None:
    """They would make every loss so, which is otherwise blamed on the learning rate."""
    with pytest.raises(ConfigError, match=f"inputs of Inputs: gives {number} in task 2; accepted: numbers that are fi"):
        inputs_in(Inputs(given), 1, X, np.random.default_rng())


@pytest.mark.parametrize(
    "given", [lambda x: x - x.float().mean(0), lambda x: x.flip(0), lambda x: x / 2 + x.float().mean(0) / 2]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64])
def test_inputs_that_depend_on_their_company_are_refused(given: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    x = torch.arange(0, 200, 10).view(10, 2).to(dtype)
    with pytest.raises(ConfigError, match=r"inputs of Inputs: .* alone into something else than among 10"):
        inputs_in(Inputs(lambda x: given(x).to(x.dtype)), 1, x, np.random.default_rng())


def test_a_samples_own_randomness_is_refused_and_the_tasks_own_is_not() -> None:
    class Noisy(Permuted):
        def inputs(self, task: int, x: Tensor, rng: np.random.Generator) -> Tensor:
            return x + torch.from_numpy(rng.normal(size=(1, *x.shape[1:]) if self.tasks > 2 else x.shape)).to(x)

    nothing = torch.zeros(5, 2)
    alike = inputs_in(Noisy(tasks=3), 1, nothing, np.random.default_rng(0))
    assert alike.any() and alike.equal(alike[:1].expand(5, 2))
    with pytest.raises(ConfigError, match="alone into something else"):
        inputs_in(Noisy(tasks=2), 1, nothing, np.random.default_rng(0))


def test_other_roundings_in_other_company_are_taken() -> None:
    x = torch.rand(100, 1, 28, 28)
    turned = Inputs(lambda x: torch.nn.functional.interpolate(x, scale_factor=1.3, mode="bilinear")[..., :28, :28])
    assert inputs_in(turned, 1, x, np.random.default_rng()).shape == x.shape
    bright = Inputs(lambda x: x * (1 + 1e-6 * len(x) / 100))
    assert inputs_in(bright, 1, x, np.random.default_rng()).shape == x.shape


@pytest.mark.parametrize("kind", [Labels, OfTask])
def test_labels_of_the_run_cannot_be_written_into(kind: type[Mine]) -> None:
    with pytest.raises(ValueError, match="read-only"):
        labels_in(kind(lambda y: y.sort()), 1, Y, 3, "train")


def test_draws_from_global_generators_are_refused() -> None:
    with pytest.raises(RunError, match="labels of Labels draws from Python's global generator"):
        labels_in(Labels(lambda y: (y + random.randint(0, 2)) % 3), 0, Y, 3, "train")
    with pytest.raises(RunError, match="inputs of Inputs draws from torch's global generator"):
        inputs_in(Inputs(torch.rand_like), 0, X, np.random.default_rng())


def test_a_stream_in_a_file_is_refused_before_a_run(tmp_path: Path) -> None:
    file = tmp_path / "mask_of_task.py"
    body = "    def of_task(self, task, labels, origin):\n        return labels % 2 == task\n"
    file.write_text(f"from fl_ddp.api import Permuted\n\nclass Mine(Permuted):\n{body}")
    with one_thread():
        assert main(options({**SMALL, "stream": f"{file}:Mine", "out": tmp_path})) == 2


@pytest.mark.parametrize("given", ["no", 1, None, lambda: print])
def test_whether_a_head_grows_is_a_bool(given: object) -> None:
    with pytest.raises(ConfigError, match=r"head_grows of Grows: is .*accepted: a property that is True or False"):
        head_grows_in(Grows(given))
    assert head_grows_in(Grows(True)) and not head_grows_in(Grows(False))


@pytest.mark.parametrize(
    ("before", "now", "lost"),
    [([0, 1], [1, 2], "0"), (None, [0, 1], "2"), ([0, 1], [0, 1, 2], None), ([0], None, None), (None, [0, 1, 2], None)],
)
def test_a_head_that_grows_loses_no_label(before: list[int] | None, now: list[int] | None, lost: str | None) -> None:
    first, second = (None if each is None else np.array(each) for each in (before, now))
    if lost is None:
        refuse_lost_label(Grows(True), 1, first, second, 3)
        return
    with pytest.raises(
        ConfigError, match=rf"allowed of Grows: gives labels without {lost}, which counted in the task before"
    ):
        refuse_lost_label(Grows(True), 1, first, second, 3)
