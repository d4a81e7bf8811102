"""The round loop: the only file that knows the order of things."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from fl_ddp.clients.kept_optimizer import kept_state, taken_state
from fl_ddp.config.settings import Config
from fl_ddp.course.cohorts import of_each
from fl_ddp.course.tests_due import ends, tests_due
from fl_ddp.engine.group import Carried, Group
from fl_ddp.engine.seeds import Purpose, noise_key
from fl_ddp.engine.transfer import Readings, upload_all
from fl_ddp.evaluation.models import Personal, Received
from fl_ddp.evaluation.round_tests import RoundTests
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import Federation
from fl_ddp.guards.hooks import Hooks
from fl_ddp.guards.reports import logged
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.protocol import OF_STATISTICS, Indices, Info, Tensors, Total, Upload
from fl_ddp.ranks.cohort import padded_lanes
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exchange import Exchange, Kept, Made, Summed, Traffic, Work, finite_server
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.records import Records
from fl_ddp.results.forgetting_table import with_degrees
from fl_ddp.results.metrics import Record
from fl_ddp.retention.own_table import OwnTask
from fl_ddp.run_tables import OfClients
from fl_ddp.tasks.lineup import Lineup
from fl_ddp.tasks.own_models import OwnModels


class Simulation:
    """One run on this rank.

    Attributes:
        finished: number of finished rounds.
        server: the server's state after them, equal on every rank.
    """

    def __init__(
        self, config: Config, ranks: Ranks, stop: StopRequest, federation: Federation, records: Records
    ) -> None:
        """Set up the first round, or the one after a checkpoint."""
        self._config, self._ranks, self._stop = config, ranks, stop
        self._federation, self._records, self._watch = federation, records, Stopwatch(ranks.device.type)
        self._due = partial(tests_due, config, federation.stream.ends_task)
        self._ends = partial(ends, config, federation.stream.ends_task)
        method, start = federation.method, records.start
        self.finished = start.finished if start else 0
        self._hooks = Hooks(method, config.model.name)
        self._initial, self._remembered = self._hooks.first(method)
        self.server = start.server if start else self._initial
        memory = federation.first_memory(self._remembered)
        own = len(range(ranks.index, config.clients, ranks.size))
        self._coming: Tensors | None = None
        self._memory = ClientMemory(memory, ranks.device, start.memory if start else None, own)
        self._lineup = ranks.together(self._lined_up)
        self._exchange = Exchange(config, ranks, stop, self._hooks, self._watch, records.lanes, memory)
        self._tests = RoundTests(
            config,
            federation,
            ranks,
            hooks=self._hooks,
            watch=self._watch,
            lineup=self._lineup,
            exchange=self._exchange,
            own=OwnModels(
                method.own_model,
                federation.statistics,
                ranks,
                hooks=self._hooks,
                lineup=self._lineup,
                exchange=self._exchange,
                memory=self._memory,
                lanes=records.lanes,
                remembered=self._remembered,
            ),
        )

    def _lined_up(self) -> Lineup:
        federation = self._federation
        return Lineup(
            self._config,
            self._ranks,
            worlds=federation.worlds,
            turnout=federation.turnout,
            pace=federation.pace,
            plan=partial(federation.plan, self._config),
            model=federation.model,
            check=self._stop.check,
            lanes=self._records.lanes,
            first=max(self.finished - 1, 0),
            at_home=bool(self._memory.initial),
        )

    def _enter(self, index: int) -> None:
        """Take the samples and the clients of a round; those of another task are made, which may fail on one rank."""
        enter = partial(self._lineup.enter, index)
        enter() if self._federation.stream.task(index) == self._lineup.world.task else self._ranks.together(enter)
        self._tests.enter()

    def rounds(self) -> Iterator[int]:
        """All rounds that are left, then agree that all is well; gives the number of finished rounds after each."""
        config = self._config
        if self.finished >= config.rounds:
            self._look_again()
        elif not self.finished and (config.init or self._federation.worlds.num_tests > 1):
            self._record(Record(0), self._tests.of_server(0, self.server), OfClients())
        for index in range(self.finished, config.rounds):
            if self._records.ends_early():
                self.save()
                self._look_again()
                break
            self._enter(index)
            ids = self._federation.turnout.of_round(index)
            if not len(ids):
                self._skip(index)
                yield self.finished
                continue
            due, looks = self._due(index)
            hands = self._lineup.hands(ids, index)
            server = self._measured(index)
            initial = self._tests.received(index, ids, server) if due and self._tests.evaluation.any_own else Received()
            readings = Readings(self._ranks.device.type, partial(self._meanwhile, index))
            done = self._exchange.sum(hands[self._ranks.index], self._work(index, ids, server), server, readings)
            train = partial(self._train, index, server, False, False)
            others = self._tests.others(index, ids, server, done.total, train, readings) if due else None
            # what local training then makes of its accuracy on each class
            by_class = self._tests.received_by_class(server) if looks else None
            traffic = self._traffic(index, server, len(ids) * done.kept[0].bytes_up)
            after = self._update(index, ids, server, done, readings, tested=due)
            scores = self._tests.of_server(index + 1, after, readings) if due else None
            personal = self._tests.evaluation.personal(ids, initial, done, others) if due else Personal()
            changes = self._tests.evaluation.changes(ids, by_class, done.reported["right"]) if by_class else []
            own_tasks = self._own_tasks(index, after, done.kept)
            numbers = of_each(done.reported, self._federation.method.reports)
            self._finish(index, after, done.kept)
            padded, of_all = padded_lanes(hands, self._records.lanes), config.personalise == "all"
            record = Record(index + 1, len(ids), traffic.up, traffic.down, padded, clients=tuple(ids.tolist()))
            record = self._tests.evaluation.told_of(record, done.total, initial, personal, of_all=of_all)
            record = with_degrees(record, changes, len(self._federation.classes))
            self._end(record, scores, OfClients(personal.each, changes, own_tasks, numbers))
            yield self.finished
        self._ranks.agree(None)

    def _work(self, index: int, ids: Indices, server: Tensors, *, early: bool = False) -> Work:
        """What a round's clients do; early, with a copy of the server's state, which may still be saved."""
        due, looks = self._due(index)
        train = partial(self._train, index, server, due, looks, early=early)
        return Work("client_update", f"round {index + 1}, client", ids, train, kind=("cohort", due, looks))

    def _meanwhile(self, index: int) -> None:
        """While the host waits for a round, let the GPU go on with the next one, and write down the one before."""
        ahead, coming, method = self._lineup.prepare(index + 1), self._coming, self._federation.method
        # before they train
        tested = self._due(index + 1)[0] and self._tests.evaluation.any_own and self._hooks.keeps_models
        waits = self._records.may_end_early or self._memory.initial or method.measures(index + 1) or tested
        if ahead and coming and not waits:
            self._exchange.begin(ahead.hands[self._ranks.index], self._work(index + 1, ahead.ids, coming, early=True))
        self._records.write()

    def _finish(self, index: int, server: Tensors, kept: Sequence[Kept] = ()) -> None:
        """Count a round that nothing is left of but to write it down, and keep what its clients remember of it."""
        with self._watch.phase("server"):
            for group in kept:
                self._memory.put(group.clients, group.memory)
        self.server, self.finished, self._coming = server, index + 1, None
        self._stop.nothing_to_save = False

    def _end(self, record: Record, scores: Scores | None, clients: OfClients) -> None:
        """Write down a round that is over, and save it where that is due."""
        self._record(record, scores, clients)
        if self.finished == self._config.rounds or self.finished % self._config.checkpoint_every == 0:
            self.save(wait=self.finished == self._config.rounds)

    def _skip(self, index: int) -> None:
        """A round without clients, or whose clients all fail."""
        self._ranks.together(self._stop.check)
        server = self._measured(index)
        traffic = self._traffic(index, server, 0)  # asks the method: behind _finish() nothing may fail
        after = self._sound(Made(index + 1, "end_of_task"), partial(self._task_ended, index, server))
        scores = self._tests.of_server(index + 1, after) if self._due(index)[0] else None
        own_tasks = self._own_tasks(index, after)
        self._finish(index, after)
        self._end(Record(self.finished, 0, *traffic), scores, OfClients(tasks=own_tasks))

    def _traffic(self, index: int, server: Tensors, up: int) -> Traffic:
        """What is sent in a round; a client that fails has received the model."""
        method, worlds, receiving = self._federation.method, self._federation.worlds, self._federation.turnout.drawn
        sent = self._hooks.bytes("sent_bytes", method.sent_bytes(server, self._federation.turnout.round(index)))
        once = self._hooks.bytes("given_bytes", method.given_bytes(server))
        down = len(receiving(index)) * sent + once * worlds.newcomers(index) + worlds.given_bytes(index)
        return Traffic(up, down)

    def seconds_since_record(self) -> dict[str, float]:
        """Seconds by phase that no round's record holds: the last checkpoint's."""
        return self._watch.lap()

    def save(self, *, wait: bool = True) -> None:
        """Write a checkpoint of the last finished round, all ranks together; see Records.save()."""
        if self.finished:
            with self._watch.phase("checkpoint"):
                self._exchange.compare(self.server, self._hooks.spoilt)
                self._records.save(self.finished, self.server, self._memory, wait=wait)

    def _look_again(self) -> None:
        """Evaluate a model that no round is left for, if it was not: the first, an early end's, one without results."""
        known = self._records.scored == self.finished
        scores = None if known else self._tests.of_server(self.finished, self.server)
        if self._config.rounds == 0:
            self._record(Record(0), scores, OfClients())
        else:
            told = known and self._ends(self.finished - 1)
            own_tasks = () if told else self._own_tasks(self.finished - 1, self.server)
            self._records.again(self.finished, scores, own_tasks)

    def _measured(self, index: int) -> Tensors:
        """The server's state before a round, with what it measures on its own samples."""
        method, proxy = self._federation.method, self._lineup.world.proxy
        if not method.measures(index) or not any(map(len, proxy)):
            return self.server
        size, lanes = min(method.proxy_batch, max(map(len, proxy))), 1 if method.proxy_whole else self._records.lanes
        plan = replace(self._lineup.plan(index), batch_size=size, epochs=1, steps=None, drop_last=False)
        # its pieces are no clients: they are as long as they are, and nothing is kept of them under a client's number
        work = replace(self._lineup.workplace, largest=max(map(len, proxy)), kept={})

        def measure(pieces: Indices) -> tuple[Group, Upload]:
            group = self._lineup.group(work, pieces, index, plan, [proxy[i] for i in pieces], lanes)
            with self._hooks.read_only("measure", self.server):
                sums = self._hooks.sums("measure", method.measure(group, self.server), group.lanes)
                return group, Upload(sums, self.server["theta"])

        mine = np.arange(self._ranks.index, len(proxy), self._ranks.size)
        measuring = Work("measure", f"round {index + 1}, proxy batch", np.arange(len(proxy)), measure)
        total = self._exchange.sum(mine, measuring, self.server).total

        def made(readings: Readings) -> Tensors:
            key, of = "group.keys in measure", method.measured
            return finite_server(self._hooks.keyed_state("measured", key, of, self.server, total), index, readings)

        return self._sound(Made(index + 1, "measured"), made)

    def _train(
        self, index: int, server: Tensors, due: bool, looks: bool, clients: Indices, *, early: bool = False
    ) -> tuple[Group, Upload]:
        """Put clients side by side and train them; test what becomes of them where that is due, class by class too."""
        method = self._federation.method
        server = {name: t.clone() for name, t in server.items()} if early else server
        group = self._lineup.in_training(clients, index)
        sent = self._hooks.sent(method.sent(self._federation.turnout.round(index)), method.broadcast)
        received = {name: (server if name in sent else self._initial)[name] for name in method.broadcast}
        memory = self._memory.take(group.client)
        group.carried = Carried(memory.pop(OF_STATISTICS, None), taken_state(memory))
        with self._hooks.read_only("client_update", received):
            given = method.client_update(group, received, memory)
        upload = self._hooks.upload(given, self._remembered, group.lanes)
        kept = self._federation.statistics.kept(upload) | kept_state(group.carried.optimizer)
        upload = replace(upload, memory=kept)
        upload = self._tests.with_own(group, upload) if due else upload
        upload = self._tests.with_right_by_class(upload) if looks else upload
        if isinstance(weight := upload.sums.get("weight"), Tensor):
            steps = group.steps if group.carried.steps is None else group.carried.steps
            trained = {"trained": torch.where(steps > 0, weight, 0)}
            upload = replace(upload, sums={**upload.sums, **trained}, sent=upload.on_the_wire)
        return group, logged(upload, method.reports) if self._config.log_clients else upload

    def _own_tasks(self, index: int, server: Tensors, kept: Sequence[Kept] = ()) -> Sequence[OwnTask]:
        """At the end of a task or the run, how what clients have does on their own test samples of each task so far."""
        if index < 0 or not (self._ends(index) or self._records.stopped):
            return ()
        return self._tests.own_tasks(index, server, kept)

    def _update(
        self, index: int, ids: Indices, server: Tensors, done: Summed, readings: Readings, *, tested: bool
    ) -> Tensors:
        """The server's state after its step, once it is heard that all of the round is sound."""
        with self._watch.phase("server"):
            key = noise_key(self._config.seed, index, Purpose.SERVER)
            key, cohort = upload_all([key, torch.from_numpy(ids)], self._ranks.device)
            info = Info(index, cohort, self._config.clients, key[0], self._lineup.world.task)
            by, make = Made(index + 1, "server_update"), partial(self._updated, server, done, info)
            tested = tested and not self._federation.statistics.are_local
            return self._sound(by, make, readings, tested=tested)

    def _sound(
        self, by: Made, make: Callable[[Readings], Tensors], readings: Readings | None = None, *, tested: bool = False
    ) -> Tensors:
        """A state of the server that every rank makes, once it is heard that all is sound on all of them.

        One that is tested next is agreed upon by the sum of the test: a rank that has failed gives it the state before.
        """
        readings = readings or Readings(self._ranks.device.type)

        def made() -> Tensors:
            try:
                state = make(readings)
            except Exception:
                readings.hear()  # what is wrong with the sums counts before what comes of it
                raise
            # a test comes before the next round's training, behind which its scores would be heard late
            readings.hear(at_leisure=not tested)
            return state

        try:
            state = self._ranks.told_later(made, self.server) if tested else self._ranks.together(made)
        finally:
            self._exchange.refuse_unlike()  # which may be why it failed
        self._exchange.made = by
        return state

    def _updated(self, server: Tensors, done: Summed, info: Info, readings: Readings) -> Tensors:
        """The server's state after a round; that it is finite is heard with the readings."""
        index, total, federation = info.index, done.total, self._federation
        self._memory.make_room(np.concatenate([group.clients for group in done.kept]))
        update, statistics = federation.method.server_update, federation.statistics
        now = statistics.now(server, total, first=federation.turnout.previous(index) < 0)  # update() may write in it
        state = self._hooks.keyed_state("server_update", "info.key", update, server, total, info)
        state = finite_server(statistics.put(state, now), index, readings)
        self._coming = self._task_ended(index, self._server_trained(index, state, total, info, readings), readings)
        return self._coming

    def _server_trained(self, index: int, state: Tensors, total: Total, info: Info, readings: Readings) -> Tensors:
        method = self._federation.method
        if not method.trains_on_server:
            return state
        lineup, ids, nothing = self._lineup, np.array([self._config.clients]), [np.zeros(0, np.int64)]
        group = lineup.group(lineup.workplace, ids, index, lineup.plan(index), nothing, 1)
        train = partial(method.server_train, group)
        return finite_server(
            self._hooks.keyed_state("server_train", "group.keys", train, state, total, info), index, readings
        )

    def _task_ended(self, index: int, state: Tensors, readings: Readings) -> Tensors:
        """The server's state when a round is over, and with it maybe a task."""
        if not self._federation.stream.ends_task(index):
            return state
        key, end = "info.key in server_update", self._federation.method.end_of_task
        return finite_server(
            self._hooks.keyed_state("end_of_task", key, end, state, self._lineup.world.task), index, readings
        )

    def _record(self, record: Record, scores: Scores | None, clients: OfClients) -> None:
        record = replace(scores.told(record) if scores else record, seconds=self._watch.lap(), wall=time.time())
        self._records.round(record, scores, clients, self.server["theta"])
