"""What clients have before a round, or after one, where that is their own: a model, a part of one, or statistics."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.engine.transfer import upload
from fl_ddp.guards.hooks import Hooks
from fl_ddp.network.running_statistics import Statistics
from fl_ddp.protocol import Indices, Tensors, Term, Upload
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exchange import Exchange, Kept, Work
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.retention.own_table import OwnTask
from fl_ddp.tasks.data import OwnTest
from fl_ddp.tasks.lineup import Lineup

Tested = tuple[Mapping[str, Tensor | Term], Tensors]
"""Sums over clients [G], -1 for a padded lane, and rows of them."""
Test = Callable[[Indices, Tensor], Tested]
"""Of clients [G] and their models [G, V]."""


class OwnModels:
    """Those of one run's clients.

    Attributes:
        are_kept: whether clients have any; if not, what they have is the server's model.
    """

    def __init__(
        self,
        own_model: Callable[..., object],
        statistics: Statistics,
        ranks: Ranks,
        *,
        hooks: Hooks,
        lineup: Lineup,
        exchange: Exchange,
        memory: ClientMemory,
        lanes: int,
        remembered: Tensors,
    ) -> None:
        """Of a run's clients.

        Args:
            own_model: the method's.
            statistics: what becomes of the model's running statistics.
            ranks: that the run is on.
            hooks: of the method.
            lineup: of the run's rounds.
            exchange: between its clients and the server.
            memory: of its clients.
            lanes: clients side by side.
            remembered: what the method has a client remember at first.
        """
        self._own_model, self._statistics, self._ranks = own_model, statistics, ranks
        self._hooks, self._lineup = hooks, lineup
        self._exchange, self._memory, self._lanes, self._remembered = exchange, memory, lanes, remembered
        self.are_kept = hooks.keeps_models or statistics.are_local

    def tested(
        self,
        index: int,
        clients: Indices,
        server: Tensors,
        test: Test,
        newest: Sequence[Kept] = (),
        kind: Hashable = None,
    ) -> Tensors:
        """What comes of a test of clients' models, all ranks together.

        Args:
            index: of the round, from 0.
            clients: ids [k].
            server: the state that they have, or will have received.
            test: is made of each group of them.
            newest: what they remember of a round that is not over, on this rank.
            kind: what the names and shapes of its rows depend on.

        Returns:
            its rows that are only reported, [k, ...].
        """
        own, statistics, lineup = self._own_model, self._statistics, self._lineup
        copies, plan = {name: t.clone() for name, t in server.items()}, lineup.plan(index)
        places = {int(client): (of, lane) for of in newest for lane, client in enumerate(of.clients)}

        def look(ids: Indices) -> tuple[Group, Upload]:
            nothing = [np.zeros(0, np.int64)] * len(ids)
            group = lineup.group(lineup.workplace, ids, index, plan, nothing, self._lanes)
            kept = _as_after(places, self._memory.take(group.client), ids)
            theta = self._hooks.own_models(own, copies, {n: kept[n] for n in self._remembered}, group.client)
            given = Upload({}, statistics.own(theta, kept))
            sums, rows = test(group.client, given.theta)
            return group, replace(given, sums={**sums}, rows=rows, sent=given.on_the_wire)

        work = Work("own_model", f"round {index + 1}, client", clients, look, "evaluation", kind)
        hand = lineup.hands(clients, index)[self._ranks.index]
        return self._exchange.sum(hand, work, server).reported

    def in_tasks(
        self,
        index: int,
        server: Tensors,
        tests: Sequence[OwnTest],
        received: Callable[[], npt.NDArray[np.float64]],
        own: Callable[[Sequence[OwnTest], Indices, Tensor], Tested],
        newest: Sequence[Kept],
    ) -> list[OwnTask]:
        """How what clients have after a round does on their own test samples of the tasks so far.

        Args:
            index: of the round, from 0.
            server: its state after it.
            tests: of the tasks.
            received: accuracies [K, tests] of the server's model.
            own: the row own_accuracy [G, tests] of clients' own models.
            newest: as tested() has it.
        """
        sizes = np.array([[len(part) for part in test.parts] for test in tests]).T
        ids = np.flatnonzero(sizes.sum(1))
        if not len(ids):
            return []
        if self.are_kept:
            test, kind = partial(own, tests), ("tasks", len(tests))
            found = self.tested(index, ids, server, test, newest, kind)["own_accuracy"].numpy()
        else:
            found = received()[ids]
        pairs = ((at, i, task) for at, i in enumerate(ids) for task in np.flatnonzero(sizes[i]))
        return [OwnTask(int(i), int(task) + 1, int(sizes[i, task]), float(found[at, task])) for at, i, task in pairs]


def _as_after(places: Mapping[int, tuple[Kept, int]], memory: Tensors, clients: Indices) -> Tensors:
    """Memory [G, ...], a copy, of clients [<= G] with what the newest round leaves, at these places, of those in it."""
    there = [(places[int(client)], lane) for lane, client in enumerate(clients) if int(client) in places]
    for of in {id(kept): kept for (kept, _), _ in there}.values():
        lanes, kept_lanes = zip(*((lane, place) for (kept, place), lane in there if kept is of), strict=True)
        for name, t in memory.items():
            to, given = upload(torch.tensor([lanes, kept_lanes]), t.device)
            t[to] = of.memory[name][given].detach()
    return memory
