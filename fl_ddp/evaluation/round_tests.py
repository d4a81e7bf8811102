"""The tests that belong to a round: of clients before and behind their training, of the server's model after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from torch import Tensor

from fl_ddp.clients.own_samples import batch_statistics
from fl_ddp.config.settings import Config
from fl_ddp.course.measures import Measures
from fl_ddp.course.tests_due import ends
from fl_ddp.engine.group import Group
from fl_ddp.engine.transfer import Readings
from fl_ddp.evaluation.models import Evaluation, Received
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import Federation
from fl_ddp.guards.hooks import Hooks
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.protocol import Indices, Tensors, Total, Upload
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exchange import Exchange, Kept, Summed, Work
from fl_ddp.ranks.threads import in_this_thread, workers_on
from fl_ddp.retention.own_table import OwnTask
from fl_ddp.tasks.lineup import Lineup
from fl_ddp.tasks.own_models import OwnModels

Result = TypeVar("Result")


class RoundTests:
    """Those of one run on this rank.

    Attributes:
        evaluation: on the test samples of the present round.
    """

    def __init__(
        self,
        config: Config,
        federation: Federation,
        ranks: Ranks,
        *,
        hooks: Hooks,
        watch: Stopwatch,
        lineup: Lineup,
        exchange: Exchange,
        own: OwnModels,
    ) -> None:
        """Of a run.

        Args:
            config: of it.
            federation: what it is made of.
            ranks: that it is on.
            hooks: of the method.
            watch: takes the time.
            lineup: of the rounds.
            exchange: between clients and server.
            own: what clients have of their own.

        Raises:
            ConfigError: a function of --measures is not there.
        """
        self._config, self._federation, self._ranks, self._hooks, self._watch = config, federation, ranks, hooks, watch
        self._lineup, self._exchange, self._own = lineup, exchange, own
        self._measures = Measures(config, federation.model, federation.fresh, ranks)
        self.enter()

    def enter(self) -> None:
        """Take the test samples of the round that the lineup is in."""
        self.evaluation = Evaluation(self._federation, self._lineup.world, self._ranks, self._hooks)

    def received(self, index: int, ids: Indices, server: Tensors) -> Received:
        """How the models that clients have do before they train: their own, if they keep such, or the received one."""
        if not self._own.are_kept:
            return self._looked("evaluation", Evaluation.received, server["theta"], ids)
        present, own = self._lineup.world.present, self.evaluation.own
        return self.evaluation.received_own(present, ids, self._own.tested(index, present, server, own))

    def with_own(self, group: Group, upload: Upload) -> Upload:
        """With how its clients' own models do; what only reports something does not travel."""
        sums, rows = self.evaluation.own(group.client, self._hooks.tested(upload.theta))
        return replace(upload, sums={**upload.sums, **sums}, rows=upload.rows | rows, sent=upload.on_the_wire)

    def with_right_by_class(self, upload: Upload) -> Upload:
        """With its clients' own models' right predictions of each class, which do not travel."""
        with self._watch.part_of("training", "forgetting", workers_on(self._ranks.device.type).size):
            rows = upload.rows | {"right": self.evaluation.by_class(self._hooks.tested(upload.theta))}
            return replace(upload, rows=rows, sent=upload.on_the_wire)

    def received_by_class(self, server: Tensors) -> Scores:
        """How the model that clients receive does, before their training changes its accuracy on each class."""
        return self._looked("forgetting", Evaluation.of_server, server["theta"])()

    def others(
        self,
        index: int,
        ids: Indices,
        server: Tensors,
        total: Total,
        train: Callable[[Indices], tuple[Group, Upload]],
        readings: Readings,
    ) -> tuple[Indices, Summed] | None:
        """How the other clients' own models do, if asked: they train, too, and nothing comes of it."""
        if self._config.personalise == "cohort" or "own_accuracy" not in total.rows:
            return None

        def tested(clients: Indices) -> tuple[Group, Upload]:
            group, upload = train(clients)
            return group, self.with_own(group, Upload({}, upload.theta))

        others = np.setdiff1d(self._lineup.world.present, ids)
        work = Work("client_update", f"round {index + 1}, client", others, tested, kind="others")
        return others, self._exchange.sum(self._lineup.hands(others, index)[self._ranks.index], work, server, readings)

    def own_tasks(self, index: int, server: Tensors, kept: Sequence[Kept]) -> Sequence[OwnTask]:
        """How what clients have after a round does on their own test samples of each task so far."""
        if not self.evaluation.any_own_tasks:
            return ()
        tests = self._ranks.together(partial(self._federation.worlds.own_tests, self._lineup.world.task))
        received = partial(self._looked, "evaluation", Evaluation.received_in_tasks, server["theta"], tests)
        return self._own.in_tasks(index, server, tests, received, self.evaluation.own_in_tasks, kept)

    def of_server(self, finished: int, server: Tensors, readings: Readings | None = None) -> Scores | None:
        """Of the global model after so many rounds; nothing where it has no running statistics that count.

        The host waits for its scores when it has done what it does while it waits for the device.
        """
        theta, index = server["theta"], max(finished - 1, 0)
        if self._federation.statistics.are_local:
            if not self._config.estimate_statistics or not len(self._federation.turnout.of_round(index)):
                return None
            theta = self._with_estimated_statistics(index, server)
        of_all_tasks = not finished or ends(self._config, self._federation.stream.ends_task, index)
        scores = self._looked("evaluation", Evaluation.of_server, theta, of_all_tasks)
        if readings:
            with self._watch.phase("server"):
                readings.go_on()
        found, world = scores(), self._lineup.world
        measured = partial(self._measures.of, finished, world.task, theta, world.tests, self._watch)
        return found._replace(measures={**found.measures, **self._exchange.with_room(measured)})

    def _with_estimated_statistics(self, index: int, server: Tensors) -> Tensor:
        """The global model with running statistics of its cohort's training samples."""
        federation, ids = self._federation, self._federation.turnout.of_round(index)

        def estimate(clients: Indices) -> tuple[Group, Upload]:
            group = self._lineup.in_training(clients, index)
            return group, Upload({**batch_statistics(group, server["theta"].clone(), federation.model)}, group.n)

        work = Work("forward", f"round {index + 1}, client", ids, estimate)
        total = self._exchange.sum(self._lineup.hands(ids, index)[self._ranks.index], work, server).total
        return federation.statistics.estimated(server["theta"], total.sums)

    def _looked(self, phase: str, look: Callable[..., Result], *given: object) -> Result:
        """How a model does, which draws nothing in that phase; one rank may be the only one whose part does."""
        alone = Evaluation(self._federation, self._lineup.world, Ranks(0, 1, self._ranks.device), self._hooks)
        guard = self._hooks.keyed_model(partial(in_this_thread, look, alone, *given))
        with self._watch.phase(phase):
            return self._ranks.under(guard, partial(self._exchange.with_room, partial(look, self.evaluation, *given)))
