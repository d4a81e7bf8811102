"""Who trains in each round on this rank, side by side, and what they share as long as their samples are the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from fl_ddp.config.settings import Config
from fl_ddp.engine.graphed import recordings_on
from fl_ddp.engine.group import Group
from fl_ddp.engine.looped import Loops, loops_on
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.transfer import upload
from fl_ddp.engine.workplace import Workplace
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Indices
from fl_ddp.ranks.cohort import cut, deal, owner
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.threads import apart, workers_on
from fl_ddp.tasks.data import World
from fl_ddp.tasks.pace import Pace
from fl_ddp.tasks.turnout import Turnout
from fl_ddp.tasks.world import Worlds


class Ahead(NamedTuple):
    """A round that is put together before it begins: its clients, those of each rank, and groups of this rank's."""

    round: int
    ids: Indices
    hands: list[Indices]
    groups: list[Group]


class Lineup:
    """The groups of a run's rounds; a function of the configuration and of the number of ranks.

    Attributes:
        world: of the present round.
        workplace: of its groups.
        plan: of a round, from 0.
    """

    def __init__(
        self,
        config: Config,
        ranks: Ranks,
        *,
        worlds: Worlds,
        turnout: Turnout,
        pace: Pace,
        plan: Callable[[int], Plan],
        model: FlatModel,
        check: Callable[[], None],
        lanes: int,
        first: int,
        at_home: bool,
    ) -> None:
        """Of a run's rounds.

        Args:
            config: of the run.
            ranks: that it runs on.
            worlds: samples and clients of its rounds.
            turnout: who takes part.
            pace: what is of each client in its plan.
            plan: of a round, from 0.
            model: that is trained, on its device.
            check: is called between steps; it raises if the run is asked to stop.
            lanes: clients side by side.
            first: the round whose world comes first, from 0.
            at_home: whether clients train where their memory is, and are not dealt evenly.
        """
        self._config, self._ranks, self._worlds, self._turnout, self._pace = config, ranks, worlds, turnout, pace
        self.plan, self._lanes, self._at_home = plan, lanes, at_home
        loops = loops_on(ranks.device, compile=config.compile)
        self._places = partial(put_up, config, worlds.largest_client, model, check, loops)
        self._ahead: Ahead | None = None
        self.world = worlds.at(first)
        self.workplace = self._places(self.world)

    def enter(self, index: int) -> None:
        """Take the samples and the clients of a round."""
        before, self.world = self.world, self._worlds.at(index)
        if self.world.clients is not before.clients:
            self.workplace, self._ahead = self._places(self.world), None

    def prepare(self, index: int) -> Ahead | None:
        """Put a round's groups together before it begins, unless it has other samples or clients than the present one.

        So that a GPU, which has one worker, need not wait for it between two rounds. No number changes.
        """
        self._ahead = None
        if index >= self._config.rounds or not self._turnout.goes_on(index):
            return None
        ids = self._turnout.of_round(index)
        if len(ids) and self._worlds.at(index).clients is self.world.clients:
            hands = self.hands(ids, index)
            groups = [self.in_training(each, index) for each in cut(hands[self._ranks.index], self._lanes)]
            for group in groups:
                group.put_steps()
            self._ahead = Ahead(index, ids, hands, groups)
        return self._ahead

    def hands(self, ids: Indices, index: int) -> list[Indices]:
        """Clients on each rank: where their memory is, or dealt evenly."""
        size, ahead = self._ranks.size, self._ahead
        if ahead and ahead.round == index and ahead.ids is ids:
            return ahead.hands
        plan = self._pace.of(self.plan(index), index, ids)
        cost = plan.num_steps(np.array([len(self.world.clients[i]) for i in ids]))
        if not self._at_home:
            return deal(ids, cost, size)
        longest = ids[np.argsort(-cost, kind="stable")]
        return [longest[owner(longest, size) == rank] for rank in range(size)]

    def in_training(self, ids: Indices, index: int) -> Group:
        """Clients side by side, with their own samples and their pace."""
        padded = np.concatenate([ids, np.full(self._lanes - len(ids), -1, np.int64)])
        ready = self._ahead.groups if self._ahead and self._ahead.round == index else []
        for place, group in enumerate(ready):
            if np.array_equal(group.client, padded):
                return ready.pop(place)
        plan = self._pace.of(self.plan(index), index, padded)
        return self.group(self.workplace, ids, index, plan, [self.world.clients[i] for i in ids], self._lanes)

    def group(self, work: Workplace, ids: Indices, index: int, plan: Plan, samples: list[Indices], lanes: int) -> Group:
        """Clients, or whatever has these samples, side by side."""
        return Group(work, plan, ids, samples, lanes, self._config.seed, self._turnout.round(index))


def put_up(
    config: Config,
    largest: int,
    model: FlatModel,
    check: Callable[[], None],
    loops: Loops | None,
    world: World,
) -> Workplace:
    """The workplace of one of a run's worlds.

    Args:
        config: of the run.
        largest: the most samples that any client has in any world.
        model: that is trained, on its device.
        check: is called between steps; it raises if the run is asked to stop.
        loops: of all worlds' steps.
        world: the one.
    """
    device, classes = model.device, torch.zeros(model.num_classes, dtype=torch.bool)
    classes[torch.from_numpy(world.classes)] = True
    return Workplace(
        world.train,
        model.dtype,
        config.precision == "bfloat16",
        config.compile,
        check,
        largest,
        upload(torch.from_numpy(world.shared), device),
        world.task,
        world.allowed,
        config.batch_size,
        classes=upload(classes, device),
        recordings=recordings_on(device, compile=config.compile),
        loops=loops,
        convolution=config.convolution,
        spread=workers_on(device.type).spread,
        apart=apart(model),
    )
