"""What groups of clients share from task to task."""

from __future__ import annotations

import torch

from fl_ddp.check.runs import Unwritten
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import build_federation
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.threads import workers_on
from fl_ddp.simulation import Simulation

TASKS: dict[str, object] = {
    "data": "Digits", "stream": "ClassGroups", "stream.tasks": 2, "stream.task_rounds": 1, "clients": 4, "rounds": 2
}  # fmt: skip


def test_loops_of_one_task_are_the_next_ones_too() -> None:
    """So that what cannot be one is told once in a run, and not compiled in vain for each task."""
    config, ranks = from_mapping(TASKS), Ranks(0, 1, torch.device("cpu"))
    federation = build_federation(config, ranks)
    simulation = Simulation(config, ranks, StopRequest(), federation, Unwritten(federation))
    first = simulation._workplace
    simulation._enter(1)
    second = simulation._workplace
    assert (first.task, second.task) == (0, 1)
    assert first.loops is not None and second.loops is first.loops
    assert first.apart is second.apart is None, "a model without convolutions is looked at side by side"
    assert first.spread == second.spread == workers_on("cpu").spread, "an idle thread helps another's group"
