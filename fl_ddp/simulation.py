"""The round loop: the only file that knows the order of things."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from fl_ddp.config.command_line import from_file, from_mapping
from fl_ddp.config.settings import Config
from fl_ddp.engine.group import Group, Workplace
from fl_ddp.engine.plan import Plan
from fl_ddp.errors import DivergedError, ElsewhereError, InterruptedRunError, RankLostError, RunError
from fl_ddp.evaluation import Scores, evaluate, evaluate_clients, own_accuracy
from fl_ddp.federation import Federation, Parts, found
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest, listening
from fl_ddp.protocol import Info, Tensors, Term, Total, Upload
from fl_ddp.ranks.cohort import Ids, cohort, deal, owner
from fl_ddp.ranks.collectives import Ranks, join
from fl_ddp.ranks.exact_sum import CohortSum
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.ranks.slurm import rank_variables
from fl_ddp.ranks.threads import one_torch_thread, workers_on
from fl_ddp.records import Records
from fl_ddp.results.metrics import Record
from fl_ddp.results.stopwatch import Stopwatch


def simulate(config: object = None) -> dict[str, object]:
    """Run a simulation in this process; see fl_ddp.simulate."""
    given = {} if config is None else config
    config = from_mapping(given) if isinstance(given, Mapping | Config) else from_file(str(given))
    prepare()
    os.environ.update(rank_variables(os.environ))
    with listening(owns_process=False) as stop:
        ranks = join(config.device)
        try:
            content = run(config, ranks, stop)
        except RankLostError:
            raise  # a broken group cannot be left
        except BaseException:
            ranks.close()
            raise
        ranks.close()
        return content


def run(config: Config, ranks: Ranks, stop: StopRequest) -> dict[str, object]:
    """Run, or go on with, what a configuration asks for; on all ranks alike.

    Returns:
        the content of summary.json, on rank 0.

    Raises:
        ConfigError: the configuration cannot be run.
        RunError: the run failed; what was finished before is saved.
        RankLostError: another rank is gone.
        InterruptedRunError: a stop was asked for; what was finished is saved.
    """
    federation = ranks.together(lambda: found(config, ranks))
    records = Records(config, ranks, federation)
    try:
        if records.done:
            records.tell(f"{records.path} is finished; a larger --rounds goes on with it")
            return records.done
        with one_torch_thread(ranks.device.type):
            return _run(Simulation(config, ranks, stop, federation, records), ranks, records)
    except RankLostError as lost:
        raise RankLostError(f"{lost}; go on with --resume {records.path}") from lost
    finally:
        records.release()


def _run(simulation: Simulation, ranks: Ranks, records: Records) -> dict[str, object]:
    """Run all rounds; what was finished before a stop or an error is saved."""
    try:
        simulation.rounds()
        return records.close(simulation.finished, simulation.server["theta"], simulation.seconds_since_record())
    except RankLostError:
        raise
    except InterruptedRunError:
        simulation.save()
        stopped = f"stopped after round {simulation.finished}; go on with --resume {records.path}"
        records.tell(stopped)
        raise InterruptedRunError(stopped) from None
    except Exception as error:
        simulation.save()
        ranks.agree(_with_way_out(error, simulation, records))
        raise


def _with_way_out(error: Exception, simulation: Simulation, records: Records) -> Exception | None:
    if isinstance(error, ElsewhereError):
        return None
    if not isinstance(error, RunError):
        return error
    stiff = isinstance(error, DivergedError) and simulation.explicit_prior
    text = f"{error}, so does --method.penalty_step proximal" if stiff else str(error)
    if simulation.finished:
        text += f"; round {simulation.finished} is saved in {records.path / 'checkpoints'}"
    return RunError(text)


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
        self._federation, self._records = federation, records
        method, start = federation.method, records.start
        # a batch that is wider than any client would only be padded
        self._largest = max(map(len, federation.clients))
        self._workplace = Workplace(
            federation.train,
            federation.model.dtype,
            config.precision == "bfloat16",
            config.compile,
            stop.check,
            max(map(len, [*federation.clients, *federation.proxy])),
        )
        self.finished = start.finished if start else 0
        self._initial = method.init()
        self.server = start.server if start else self._initial
        self._memory = ClientMemory(method.init_client(), ranks.device, start.memory if start else None)
        self._workers = workers_on(ranks.device.type)
        self._watch = Stopwatch()
        self._late: Exception | None = None

    @property
    def explicit_prior(self) -> bool:
        """Whether local steps follow the gradient of a quadratic prior, which diverges where it is too stiff."""
        return getattr(self._federation.method, "penalty_step", None) == "explicit"

    def rounds(self) -> None:
        """All rounds that are left, then agree that all is well."""
        config = self._config
        if config.rounds == 0:
            self._record(Record(0, 0, 0, 0, 0.0), self._evaluate())
        elif self.finished >= config.rounds:
            self._records.scores = self._evaluate()
        while self.finished < config.rounds:
            self.advance()
        self._ranks.agree(self._late)

    def advance(self) -> None:
        """One round, and what is due after it: evaluation, records, checkpoint."""
        config = self._config
        last = self.finished + 1 == config.rounds
        due = last or (self.finished + 1) % config.eval_every == 0
        record = self._round(due)
        self._stop.nothing_to_save = False
        self._record(record, self._evaluate() if due else None)
        if last or self.finished % config.checkpoint_every == 0:
            with self._watch.phase("checkpoint"):
                self.save()

    def seconds_since_record(self) -> dict[str, float]:
        """Seconds by phase that no round's record holds: the last checkpoint's."""
        return self._watch.lap()

    def save(self) -> None:
        """Write a checkpoint of the last finished round, all ranks together."""
        if self.finished:
            self._records.save(self.finished, self.server, self._memory)

    def _round(self, due: bool) -> Record:
        """Local training, one sum over all clients and ranks, the server's step.

        Args:
            due: whether the clients' own test samples are looked at.
        """
        watch = self._watch
        index, config = self.finished, self._config
        ids = cohort(config.seed, index, config.clients, config.cohort_size)
        hands = self._hands(ids)
        before = self._measured(index)
        kept: list[tuple[Ids, Tensors, int]] = []

        initial = self._initial_accuracy() if due else None

        def train(clients: Ids) -> tuple[Group, Upload]:
            group, upload = self._train(clients, index, before)
            return group, self._tested(group, upload) if due else upload

        def keep(group: Group, upload: Upload) -> None:
            kept.append((group.client, upload.memory, _bytes_up(upload)))

        total = self._sum(hands[self._ranks.index], train, keep, f"round {index + 1}, client")
        with watch.phase("server"):
            info = Info(index, torch.from_numpy(ids), config.clients)
            server = self._ranks.together(lambda: self._update(before, total, info))
            for clients, memory, _ in kept:
                self._memory.put(clients, memory)
            self.server, self.finished = server, index + 1
        lanes = self._records.lanes
        num_groups = sum(-(-max(len(hand), 1) // lanes) for hand in hands)
        return Record(
            round=self.finished,
            cohort=len(ids),
            traffic_up_bytes=len(ids) * kept[0][2],
            traffic_down_bytes=len(ids) * self._federation.method.sent_bytes(before, index),
            padded_lanes=1 - len(ids) / (num_groups * lanes),
            train_loss=_ratio(total, "loss", "weight"),
            initial_accuracy=initial,
            personalised_accuracy=_ratio(total, "own_accuracy", "tested"),
        )

    def _sum(
        self,
        hand: Ids,
        work: Callable[[Ids], tuple[Group, Upload]],
        keep: Callable[[Group, Upload], None],
        name: str,
    ) -> Total:
        """Sums over all clients of all ranks, and what is kept of those of this rank."""
        watch, config = self._watch, self._config
        sums = CohortSum(config.reduction == "exact", config.compile, self._ranks.size, self._workers.size)
        error, self._late = self._late, None
        try:
            for parts in self._parts(hand):
                self._stop.check()
                with watch.phase("training"):
                    done = self._workers.map(work, parts)
                with watch.phase("summing"):
                    for group, upload in done:
                        sums.add(upload.sums, group.real, [f"{name} {i}" for i in group.client])
                        keep(group, upload)
        except Exception as failure:
            error = error or failure
        with watch.phase("summing"):
            self._ranks.agree(error)
            return Total(sums.totals(self._ranks.add(sums.buffer())))

    def _train(self, clients: Ids, index: int, server: Tensors) -> tuple[Group, Upload]:
        """Put clients side by side and train them."""
        method = self._federation.method
        group = self._group(clients, index, self._plan(index), self._federation.clients)
        sent = method.sent(index)
        received = {name: (server if name in sent else self._initial)[name] for name in method.broadcast}
        return group, method.client_update(group, received, self._memory.take(group.client))

    def _tested(self, group: Group, upload: Upload) -> Upload:
        """With the accuracy of the clients' own models on their own test samples, if they have any."""
        federation = self._federation
        if not any(map(len, federation.local_test)):
            return upload
        parts = [federation.local_test[i] if i >= 0 else np.zeros(0, np.int64) for i in group.client]
        accuracy = own_accuracy(federation.model, upload.theta, federation.train, parts)
        tested = torch.tensor([float(len(part) > 0) for part in parts], device=accuracy.device)
        sums = upload.sums | {"own_accuracy": Term(accuracy, weight=tested), "tested": tested}
        return replace(upload, sums=sums, sent=upload.sums if upload.sent is None else upload.sent)

    def _measured(self, index: int) -> Tensors:
        """The server's state before a round, with what it measures on its own samples."""
        method, proxy = self._federation.method, self._federation.proxy
        if not method.measures(index):
            return self.server
        size = min(method.proxy_batch, max(map(len, proxy)))
        plan = replace(self._plan(index), batch_size=size, epochs=1, steps=None, drop_last=False)

        def measure(pieces: Ids) -> tuple[Group, Upload]:
            group = self._group(pieces, index, plan, proxy)
            return group, Upload(method.measure(group, self.server), self.server["theta"])

        mine = np.arange(self._ranks.index, len(proxy), self._ranks.size)
        total = self._sum(mine, measure, lambda *_: None, f"round {index + 1}, proxy batch")
        return self._ranks.together(lambda: self._finite(method.measured(self.server, total), index))

    def _group(self, ids: Ids, index: int, plan: Plan, parts: Parts) -> Group:
        lanes, seed = self._records.lanes, self._config.seed
        return Group(self._workplace, plan, ids, [parts[i] for i in ids], lanes, seed, index)

    def _update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """The server's next state."""
        return self._finite(self._federation.method.server_update(server, total, info), info.index)

    def _finite(self, server: Tensors, index: int) -> Tensors:
        if not all(_is_finite(t) for t in server.values()):
            raise DivergedError(f"round {index + 1}: the server's state is not finite")
        return server

    def _hands(self, ids: Ids) -> list[Ids]:
        """The cohort's clients on each rank: where their memory is, or dealt evenly."""
        size = self._ranks.size
        cost = self._plan(0).num_steps(np.array([len(self._federation.clients[i]) for i in ids]))
        if not self._memory.initial:
            return deal(ids, cost, size)
        longest = ids[np.argsort(-cost, kind="stable")]
        return [longest[owner(longest, size) == rank] for rank in range(size)]

    def _parts(self, ids: Ids) -> Iterator[list[Ids]]:
        """This rank's clients, cut into groups, as many at a time as there are workers.

        A rank without clients has one empty group, so that all ranks know all sums.
        """
        lanes, at_once = self._records.lanes, self._workers.size
        parts = [ids[i : i + lanes] for i in range(0, max(len(ids), 1), lanes)]
        return (parts[i : i + at_once] for i in range(0, len(parts), at_once))

    def _plan(self, index: int) -> Plan:
        config = self._config
        return Plan(
            batch_size=min(config.batch_size, self._largest),
            epochs=config.epochs,
            steps=config.local_steps,
            lr=config.lr * config.lr_decay**index,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            drop_last=config.drop_last,
        )

    def _evaluate(self) -> Scores:
        model, theta = self._federation.model, self.server["theta"]
        with self._watch.phase("evaluation"):
            return evaluate(
                lambda x: model.logits(theta, x), self._federation.test, model.num_classes, model.dtype, self._ranks
            )

    def _initial_accuracy(self) -> float | None:
        """Of the model the clients receive, on their own test samples."""
        federation, theta = self._federation, self.server["theta"]
        with self._watch.phase("evaluation"):
            return evaluate_clients(
                lambda x: federation.model.logits(theta, x), federation.train, federation.local_test,
                federation.model.dtype, self._ranks,
            )  # fmt: skip

    def _record(self, record: Record, scores: Scores | None) -> None:
        """Write down a round; an error of rank 0's disk is agreed upon with the next round's."""
        if scores:
            record = replace(record, accuracy=scores.accuracy, loss=scores.loss, class_accuracy=scores.class_accuracy)
        try:
            self._records.round(replace(record, seconds=self._watch.lap(), wall=time.time()), scores)
        except Exception as error:
            self._late = error


def _ratio(total: Total, over: str, under: str) -> float | None:
    return float(total.sums[over] / total.sums[under]) if over in total.sums and total.sums[under] > 0 else None


def _is_finite(t: Tensor) -> bool:
    """Whether all numbers are finite, in one pass."""
    return not t.is_floating_point() or bool(torch.stack(t.aminmax()).isfinite().all())


def _bytes_up(upload: Upload) -> int:
    """What one client sends."""
    sent = upload.sums if upload.sent is None else upload.sent
    values = [t.value if isinstance(t, Term) else t for t in sent.values()]
    return sum(prod(v.shape[1:]) * v.element_size() for v in values)
