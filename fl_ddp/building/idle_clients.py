"""Clients that never train though they have samples, since --drop_last leaves out all they have."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl_ddp.config.settings import Config
from fl_ddp.engine.plan import Plan, num_held_out
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Factors
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.data import Parts
from fl_ddp.tasks.world import Worlds


def num_idle(config: Config, clients: Parts, work: Factors | None = None, held_out: float = 0.0) -> int:
    """Number of these.

    Args:
        config: the plan of a round.
        clients: samples of each client [K].
        work: what part of the plan each does [K]; all of it if None.
        held_out: share of its samples that a client never trains on.
    """
    plan = Plan(config.batch_size, config.epochs, config.local_steps, config.lr, drop_last=config.drop_last)
    if work is not None:
        plan = plan.of_parts(work)
    n = np.array([len(samples) for samples in clients])
    trained = n - num_held_out(n, held_out) if held_out else n
    return int(((plan.num_steps(trained) == 0) & (n > 0)).sum())


def refuse_idle(config: Config, stream: Stream, worlds: Worlds, work: Factors | None, held_out: float) -> None:
    """Refuse a task in which they are all that have samples.

    Args:
        config: the plan of a round.
        stream: the tasks.
        worlds: their samples and clients.
        work: what part of the plan each client does [K]; all of it if None.
        held_out: share of its samples that a client never trains on.

    Raises:
        ConfigError: there is one.
    """
    for task in range(stream.num_tasks):
        clients = worlds.clients_in(task)
        largest = max(map(len, clients))
        if largest and num_idle(config, clients, work, held_out) == sum(1 for part in clients if len(part)):
            in_task = f" in task {task + 1}" if stream.num_tasks > 1 else ""
            aside = f", a share of {held_out:g} of which is held out" if held_out else ""
            what = f"no client has a full batch of {config.batch_size}{in_task}, "
            what += f"the largest has {largest} training samples{aside}"
            instead = "a smaller --batch_size, or more --local_epochs"
            if config.client_work is not None:
                instead += f", of which clients do the parts --client_work {config.client_work}"
            raise ConfigError("--drop_last", what, instead)


def idle_remarks(
    config: Config, stream: Stream, worlds: Worlds, work: Factors | None, held_out: float
) -> Iterator[str]:
    """What to say of them in the tasks that a run comes to; as refuse_idle() is told."""
    idle: dict[int, int] = {}
    for task in range(stream.task(max(config.rounds - 1, 0)) + 1):
        if number := num_idle(config, worlds.clients_in(task), work, held_out):
            idle[task + 1] = number
    if not idle:
        return
    who, what = f"{idle.get(1)} of {config.clients} clients", "never train"
    if stream.num_tasks > 1:
        each = ", ".join(f"{number} in task {task}" for task, number in idle.items())
        who, what = f"of the {config.clients} clients {each}", "do not train in it"
    so_do = "without --drop_last, or with a smaller --batch_size, they do"
    yield f"warning: {who} have no full batch of {config.batch_size} and {what}; {so_do}"
