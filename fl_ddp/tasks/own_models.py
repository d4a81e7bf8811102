"""What clients have before they train where that is their own: a model, a part of one, or running statistics."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

import numpy as np
from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.guards.hooks import Hooks
from fl_ddp.network.running_statistics import Statistics
from fl_ddp.protocol import Indices, Tensors, Term, Upload
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exchange import Exchange, Work
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.tasks.lineup import Lineup

Test = Callable[[Indices, Tensor], tuple[Mapping[str, Tensor | Term], Tensors]]
"""Sums over clients [G], -1 for a padded lane, and rows of them, of models [G, V]."""


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

    def tested(self, index: int, clients: Indices, server: Tensors, test: Test, kind: Hashable = None) -> Tensors:
        """What comes of a test of clients' models, all ranks together.

        Args:
            index: of the round, from 0.
            clients: ids [k].
            server: the state that they have, or will have received.
            test: is made of each group of them.
            kind: what the names and shapes of its rows depend on.

        Returns:
            its rows that are only reported, [k, ...].
        """
        own, statistics, lineup = self._own_model, self._statistics, self._lineup
        copies, plan = {name: t.clone() for name, t in server.items()}, lineup.plan(index)

        def look(ids: Indices) -> tuple[Group, Upload]:
            nothing = [np.zeros(0, np.int64)] * len(ids)
            group = lineup.group(lineup.workplace, ids, index, plan, nothing, self._lanes)
            kept = self._memory.take(group.client)
            theta = self._hooks.own_models(own, copies, {n: kept[n] for n in self._remembered}, group.client)
            upload = Upload({}, statistics.own(theta, kept))
            sums, rows = test(group.client, upload.theta)
            return group, replace(upload, sums={**sums}, rows=rows, sent=upload.on_the_wire)

        work = Work("own_model", f"round {index + 1}, client", clients, look, "evaluation", kind)
        hand = lineup.hands(clients, index)[self._ranks.index]
        return self._exchange.sum(hand, work, server).reported
