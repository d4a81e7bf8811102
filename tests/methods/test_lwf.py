"""Learning without Forgetting: what is distilled, of which classes, and when."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, simulated
from quadratic import approx
from table import of_rows, reading, table
from torch.func import grad_and_value

from fl_ddp.check.runs import Unwritten, play
from fl_ddp.methods.lwf import LwF
from fl_ddp.protocol import Batch

TASKS: dict[str, object] = {
    "method": "LwF", "stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2,
    "rounds": 6, "forgetting_every": 0,
}  # fmt: skip
NONE, FIRST, SECOND = [0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]


def told(old: list[list[float]], known: list[float], present: list[float]) -> dict[str, torch.Tensor]:
    """What clients receive: the old model's logits of each sample, known classes and those of the present task."""
    return {"old": table(old).init(), "known": torch.tensor(known) > 0, "classes": torch.tensor(present) > 0}


def loss_of(
    own: list[float],
    old: list[float],
    known: list[float],
    label: int,
    present: list[float] = SECOND,
    **options: object,
) -> tuple[float, list[float]]:
    """The loss of one sample, and its gradient in the logits."""
    model = table([own])
    server = told([old], known, present)
    g, value = grad_and_value(LwF(model, **options).loss)(  # type: ignore[arg-type]
        model.leaves(model.init()), reading([label], 1), server, {}
    )
    return value.item(), of_rows(g, model)[0].tolist()


def test_what_is_distilled_is_the_old_opinion_of_known_classes() -> None:
    """KL((3/4, 1/4) || (1/3, 2/3)) of logits / 2; gradient lam (q - p) / 2, whatever the other logits are."""
    own, old = [0.0, 2 * math.log(2), 5.0, -1.0], [2 * math.log(3), 0.0, -3.0, 8.0]
    plain, g_plain = loss_of(own, old, FIRST, 2, lam=0.0)
    value, g = loss_of(own, old, FIRST, 2, lam=3.0)
    gap = 0.75 * math.log(0.75 * 3) + 0.25 * math.log(0.25 * 1.5)
    assert value - plain == approx(3 * gap)
    assert [a - b for a, b in zip(g, g_plain, strict=True)] == approx([-5 / 8, 5 / 8, 0.0, 0.0])
    other, _ = loss_of(own, [*old[:2], 0.0, 0.0], FIRST, 2, lam=3.0)
    assert other == approx(value)


def test_each_earlier_task_may_have_a_softmax_of_its_own() -> None:
    """KL((3/4, 1/4) || (1/3, 2/3)) of two tasks' logits, whatever one task's are beside the other's."""
    own, old = [0.0, math.log(2), 7.0, 7.0 + math.log(2)], [math.log(3), 0.0, math.log(3) - 9.0, -9.0]
    model, gap = table([[*own, 4.0]]), 0.75 * math.log(0.75 * 3) + 0.25 * math.log(0.25 * 1.5)
    for first, tasks in (([1.0, 1.0, 2.0, 2.0, 0.0], 2), ([2.0, 2.0, 0.0, 0.0, 0.0], 1), ([0.0] * 5, 0)):
        server = told([[*old, -3.0]], first, [0.0, 0.0, 0.0, 0.0, 1.0]) | {"known": torch.tensor(first).short()}
        plain, found = (
            LwF(model, lam=lam, tau=1.0, heads="each").loss(model.leaves(model.init()), reading([4], 1), server, {})
            for lam in (0.0, 3.0)
        )
        assert (found - plain).item() == approx(3 * tasks * gap)


def test_a_class_is_of_the_task_that_it_first_came_in() -> None:
    method = LwF(table([[0.0] * 4]), heads="each")
    server = method.init()
    for seen, first in (([1, 0, 0, 0], [1, 0, 0, 0]), ([1, 1, 0, 1], [1, 2, 0, 2]), ([1, 1, 1, 1], [1, 2, 3, 2])):
        server = method.end_of_task(server | {"seen": torch.tensor(seen) > 0}, max(first) - 1)
        assert server["known"].tolist() == first


def test_the_temperature_flattens_both() -> None:
    own, old = [0.0, 4 * math.log(2), 5.0, -1.0], [4 * math.log(3), 0.0, -3.0, 8.0]
    cold, hot = (loss_of(own, old, FIRST, 2, tau=tau)[0] for tau in (2.0, 4.0))
    same, _ = loss_of([z / 2 for z in own[:2]] + own[2:], [z / 2 for z in old[:2]] + old[2:], FIRST, 2, tau=2.0)
    assert hot == approx(same) and hot < cold


def softmax(logits: list[float], label: int) -> tuple[float, list[float]]:
    """Cross-entropy, and its gradient."""
    z = torch.tensor(logits, dtype=torch.float64)
    p = z.softmax(0)
    return -float(p[label].log()), [float(p[c]) - (c == label) for c in range(len(logits))]


@pytest.mark.parametrize(
    ("known", "present", "label", "among"),
    [
        pytest.param([1, 0, 0, 0], [0, 1, 1, 0], 2, [1, 2], id="a new class, among the task's"),
        pytest.param([0, 0, 0, 0], [1, 1, 0, 0], 0, [0, 1], id="the first task"),
        pytest.param([1, 0, 0, 0], [0, 1, 1, 0], 0, [0, 1, 2], id="one that is kept, among all so far"),
        pytest.param([1, 1, 0, 0], [0, 1, 1, 0], 1, [0, 1, 2], id="one that comes again"),
        pytest.param([1, 1, 0, 0], [0, 1, 1, 1], 2, [2, 3], id="a new class beside one that comes again"),
        pytest.param([0, 1, 0, 0], [0, 0, 1, 0], 0, [0, 2], id="one that is kept and nobody was drawn with"),
    ],
)
def test_what_a_sample_is_classified_among_has_no_class_of_tasks_to_come(
    known: list[float], present: list[float], label: int, among: list[int]
) -> None:
    own = [1.0, -2.0, 0.5, 2.0]
    value, g = loss_of(own, own, known, label, present)
    expected, slope = softmax([own[c] for c in among], among.index(label))
    assert value == approx(expected)
    assert g == approx([slope[among.index(c)] if c in among else 0.0 for c in range(4)])
    value, g = loss_of(own, own, known, label, present, classes="all")
    expected, slope = softmax(own, label)
    assert value == approx(expected) and g == approx(slope)


@pytest.mark.parametrize("label", [0, 3])
def test_nothing_is_distilled_before_a_task_is_over(label: int) -> None:
    own = [1.0, -2.0, 0.5, 2.0]
    value, g = loss_of(own, [9.0, -9.0, 3.0, 0.0], NONE, label, [1.0] * 4, lam=100.0)
    expected, slope = softmax(own, label)
    assert value == approx(expected) and g == approx(slope)


def test_a_known_head_classifies_among_its_own_classes_and_keeps_the_others() -> None:
    own, old = [0.0, 2 * math.log(2), 0.5, 2.0], [2 * math.log(3), 0.0, 0.0, 0.0]
    model, server = table([own]), told([old], FIRST, SECOND)
    batch: Batch = reading([3], 1)._replace(allowed=torch.tensor([False, False, True, True]))
    value = LwF(model, classes="all").loss(model.leaves(model.init()), batch, server, {})
    gap = 0.75 * math.log(0.75 * 3) + 0.25 * math.log(0.25 * 1.5)
    assert value.item() == approx(softmax(own[2:], 1)[0] + gap)


def test_a_padded_sample_adds_nothing() -> None:
    model = table([[1.0, 0.0, 2.0, 0.0], [5.0, -3.0, 1.0, 1.0]])
    server = told([[0.0, 1.0, 0.0, 0.0]] * 2, FIRST, SECOND)
    method, leaves = LwF(model), model.leaves(model.init())
    alone = method.loss(leaves, reading([2], 2), server, {})
    assert method.loss(leaves, reading([2, 0], 2, [1.0, 0.0]), server, {}).item() == approx(alone.item())


@pytest.fixture(scope="module")
def run() -> Unwritten:
    return play(TASKS)


def test_the_model_and_the_classes_at_the_end_of_a_task_are_kept_until_the_next_one_ends(run: Unwritten) -> None:
    servers = [run.first.server, *(state.server for state in run.states)]
    for index, server in enumerate(servers):
        over = min(2 * (index // 2), 4)  # rounds at which a task was over; the third has no end
        assert torch.equal(server["old"], servers[over]["theta"]), index
        known = torch.arange(len(server["known"])) < 3 * (over // 2)
        assert torch.equal(server["known"], known), index


def test_the_first_task_is_fedavg_s_with_a_known_head_and_a_later_one_is_not() -> None:
    heads = {**TASKS, "stream.scenario": "task"}
    pairs = zip(play(heads).states, play({**heads, "method": "FedAvg"}).states, strict=True)
    assert [torch.equal(a.server["theta"], b.server["theta"]) for a, b in pairs] == [True, True, *[False] * 4]


def test_outputs_of_tasks_to_come_are_not_trained(run: Unwritten) -> None:
    def biases(server: Mapping[str, torch.Tensor]) -> list[float]:
        found: list[float] = server["theta"][-len(server["known"]) :].tolist()
        return found

    first = biases(run.first.server)
    for index, state in enumerate(run.states):
        begun = 3 * (index // 2 + 1)
        now = biases(state.server)
        assert now[begun:] == first[begun:], index
        assert all(a != b for a, b in zip(now[:begun], first[:begun], strict=True)), index


def test_it_is_fedavg_without_weight_and_among_all(run: Unwritten) -> None:
    ours, theirs = play({**TASKS, "method.lam": 0.0, "method.classes": "all"}), play({**TASKS, "method": "FedAvg"})
    for a, b in zip(ours.states, theirs.states, strict=True):
        assert torch.equal(a.server["theta"], b.server["theta"])


def test_classes_of_all_clients_are_known_though_each_has_few() -> None:
    run = play({**TASKS, "partition.alpha": 0.05, "cohort": 2, "stream.task_rounds": 5, "rounds": 6})
    seen = [state.server["seen"] for state in run.states]
    assert seen[0].sum() < 3, "what the first two clients have"
    assert seen[4].sum() == 3 and torch.equal(run.states[-1].server["known"], seen[4])
    for before, after in pairwise(seen):
        assert bool((after | ~before).all())


def test_a_model_of_as_many_parameters_as_classes_is_trained(tmp_path: Path) -> None:
    (tmp_path / "one_weight_a_class.py").write_text(
        "from torch import nn\n\n\ndef net():\n    return nn.Linear(1, 4, bias=False)\n"
    )
    rng = np.random.default_rng(0)
    x, y = rng.random((200, 1), np.float32), rng.integers(0, 4, 200)
    np.savez(tmp_path / "four.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    here = {"data": str(tmp_path / "four.npz"), "model": f"{tmp_path}/one_weight_a_class.py:net"}
    tasks = {"method": "LwF", "stream": "ClassGroups", "stream.tasks": 2, "stream.task_rounds": 1, "rounds": 2}
    run = simulated(
        {**{k: v for k, v in SMALL.items() if k != "model.hidden"}, **here, **tasks, "partition": "IID"}, tmp_path
    )
    assert len((run / "tasks.csv").read_text().splitlines()) > 2
