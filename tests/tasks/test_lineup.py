"""Who trains side by side, in a round that is put together before it begins too, and what they share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from fl_ddp.check.runs import Unwritten
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.federation import build_federation
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.protocol import Indices, Tensors
from fl_ddp.ranks.cohort import cohort, cut
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.threads import workers_on
from fl_ddp.simulation import Simulation
from fl_ddp.tasks.lineup import Lineup

TASKS: dict[str, object] = {
    "data": "Digits", "stream": "ClassGroups", "stream.tasks": 2, "stream.task_rounds": 1, "clients": 4, "rounds": 2
}  # fmt: skip
PLAIN: dict[str, object] = {
    "data": "Digits", "clients": 9, "cohort": 5, "lanes": 2, "rounds": 4, "batch_size": 20, "model.hidden": 4,
    "compile": False,
}  # fmt: skip


def simulation(**settings: object) -> Simulation:
    config, ranks = from_mapping(settings), Ranks(0, 1, torch.device("cpu"))
    federation = build_federation(config, ranks)
    return Simulation(config, ranks, StopRequest(), federation, Unwritten(federation))


def test_loops_of_one_task_are_the_next_ones_too() -> None:
    """So that what cannot be one is told once in a run, and not compiled in vain for each task."""
    run = simulation(**TASKS)
    first = run._lineup.workplace
    run._enter(1)
    second = run._lineup.workplace
    assert (first.task, second.task) == (0, 1)
    assert first.loops is not None and second.loops is first.loops
    assert first.apart is second.apart is None, "a model without convolutions is looked at side by side"
    assert first.spread == second.spread == workers_on("cpu").spread, "an idle thread helps another's group"


def groups(lineup: Lineup, index: int) -> list[Group]:
    """All groups of a round."""
    lineup.enter(index)
    (hand,) = lineup.hands(lineup._turnout.of_round(index), index)
    return [lineup.in_training(each, index) for each in cut(hand, 2)]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "Scaffold"},
        {
            "client_work": "uniform(0.3,1)",
            "client_lr": "uniform(0.5,1)",
            "stragglers": 0.4,
            "dropout_rate": 0.2,
            "local_epochs": 2,
        },
        {"lr_schedule": "cosine", "lr_schedule_over": "steps"},
    ],
)
def test_a_round_that_was_put_together_before_is_the_same_one(settings: dict[str, object]) -> None:
    ahead, plain = (simulation(**PLAIN, **settings)._lineup for _ in range(2))
    for index in range(1, 4):
        ahead.prepare(index)
        theirs, ready = groups(plain, index), list(ahead._ahead.groups if ahead._ahead else ())
        ours = groups(ahead, index)
        assert ready == ours, "what was put together is what trains"
        assert not set(ours) & set(groups(ahead, index)), "and nothing else"
        everybody = ahead.world.present
        assert [[*map(int, hand)] for hand in ahead.hands(everybody, index)] == [
            [*map(int, hand)] for hand in plain.hands(everybody, index)
        ]
        assert len(ours) == len(theirs) > 1
        for one, other in zip(ours, theirs, strict=True):
            assert one.client.tolist() == other.client.tolist()
            assert one._ready and not other._ready
            planned = other._planned(other.plan, other._order_keys)
            for mine, its in zip(one._ready[1], planned, strict=True):
                assert (mine is its is None) or torch.equal(mine, its)  # type: ignore[arg-type]


@pytest.mark.parametrize("draw", [0, 1])
@pytest.mark.parametrize("epochs", [None, 2])
def test_steps_that_lie_ready_are_those_of_the_first_training_alone(draw: int, epochs: int | None) -> None:
    run = simulation(**PLAIN)
    method, index = run._federation.method, 1
    run._lineup.prepare(index)

    def trained(group: Group) -> torch.Tensor:
        plan: Plan | None = None if epochs is None else replace(group.plan, epochs=epochs)
        nothing: Tensors = {}
        return group.train(run.server["theta"], method, run.server, nothing, plan=plan, draw=draw).theta

    ready = groups(run._lineup, index)
    run._lineup._ahead = None
    for one, other in zip(ready, groups(run._lineup, index), strict=True):
        assert one._ready and not other._ready
        assert torch.equal(trained(one), trained(other))


def test_only_a_round_with_the_same_samples_and_clients_is_put_together_before() -> None:
    tasks, reduced, plain = (simulation(**s)._lineup for s in (TASKS, PLAIN | {"class_reduction": "0,1,2,1"}, PLAIN))
    tasks.prepare(1)
    assert tasks._ahead is None and tasks._worlds._present is tasks.world, "the next task's samples are not made"
    for index, is_ready in ((1, False), (2, True)):
        reduced.prepare(index)
        assert bool(reduced._ahead) == is_ready, "samples go before round 2"
        reduced.enter(index)
    plain.prepare(4)
    assert plain._ahead is None, "the run is over"


def test_a_round_is_drawn_once_though_it_is_looked_at_beside_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def noting(seed: int, index: int, *given: Any) -> Indices:
        drawn.append(index)
        return cohort(seed, index, *given)

    monkeypatch.setattr("fl_ddp.tasks.turnout.cohort", noting)
    it = simulation(**PLAIN)._federation.turnout
    for index in range(3):
        assert it.of_round(index) is it.of_round(index)
        it.of_round(index + 1)
        it.drawn(index)
    assert drawn == [0, 1, 2, 3]
