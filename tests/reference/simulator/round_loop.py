"""A run of the reference: one round after another, in a round one client after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from availability import reachable
from evaluation import Row, class_accuracies, class_sizes, forgetting, mean_known, mean_loss, share_right
from fedavg import FedAvg, Logits, Update, When
from local_training import Client, Model, State, only_of
from optimizers import Choice, remembered
from pace import Pace
from parameters import Parameters, alone, summed
from schedule import SERVER, Schedule, Work
from settings import Settings
from targets import SCORES, of_test_set, own_score
from task_averages import task_averages
from tasks import Tasks
from torch import Tensor


@dataclass(frozen=True)
class Data:
    """Samples in double precision, and who has which.

    Attributes:
        x_train: [N, ...].
        y_train: [N].
        x_test: [M, ...].
        y_test: [M].
        classes: number of classes.
        clients: of each client, positions of its training samples.
        local_test: of each client, positions of its own test samples.
        local_test_from: train or test: where they are.
    """

    x_train: Tensor
    y_train: Tensor
    x_test: Tensor
    y_test: Tensor
    classes: int
    clients: Sequence[Sequence[int]]
    local_test: Sequence[Sequence[int]]
    local_test_from: str

    def samples(self, positions: Sequence[int]) -> tuple[Tensor, Tensor]:
        """x and y at positions of the training set."""
        return self.x_train[list(positions)], self.y_train[list(positions)]

    def own_test(self, k: int) -> tuple[Tensor, Tensor]:
        """x and y of client k's own test samples."""
        positions = list(self.local_test[k])
        return (
            self.samples(positions)
            if self.local_test_from == "train"
            else (self.x_test[positions], self.y_test[positions])
        )


@dataclass(frozen=True)
class Round:
    """What is known after a round.

    Attributes:
        server: its state.
        memory: of each client that ever took part and remembers something.
        last: the round, from 0, in which each client that ever took part last did so.
        row: of metrics.csv.
    """

    server: State
    memory: Mapping[int, State]
    last: Mapping[int, int]
    row: Row


@dataclass(frozen=True)
class Play:
    """A run of a method.

    Attributes:
        method: with its options.
        model: the network.
        data: of all clients.
        settings: of the run.
        schedule: which samples come when.
        tasks: of the run.
        width: bytes of a number that travels.
        optimizer: of the clients.
    """

    method: FedAvg
    model: Model
    data: Data
    settings: Settings
    schedule: Schedule
    tasks: Tasks
    width: int
    optimizer: Choice

    @property
    def pace(self) -> Pace:
        """How much each client does."""
        return Pace(self.settings, self.schedule)

    def rounds(self) -> list[Round]:
        """All rounds."""
        method, theta = self.method, self.model.initial()
        server, memory, last = method.server_start(theta, self.settings.clients), dict[int, State](), dict[int, int]()
        latest: dict[int, Client] = {}
        rounds: list[Round] = []
        every = self.settings.eval_every
        for t in range(self.settings.rounds):
            task = self.tasks.of_round(t)
            self.model.allowed = self.tasks.allowed(task, task)
            last_one = t + 1 == self.settings.rounds or self.tasks.ends(t)
            due, present, anybody = (t + 1) % every == 0 or last_one, self.present(t), bool(last)
            there = {k: len(self.samples(t, k)[1]) for k in present if reachable(self.settings.availability, k, t)}
            drawn = self.schedule.cohort(t, there, self.settings.cohort_of(len(there))) if there else []
            late = self.pace.stragglers(t, drawn)
            cohort = [k for k in drawn if self.schedule.failure(t, k) >= self.settings.dropout_rate]
            cohort = [k for k in cohort if k not in late or not self.settings.drop_stragglers]
            server = method.server_measure(server, self.server_client(t), t)
            if not cohort:
                row: Row = self.traffic(server, len(drawn), 0, t, anybody) | {"round": t + 1}
                if due and (tested := self.tested(server["theta"], [])):
                    row |= self.evaluation(tested, t, [kept.row for kept in rounds])
                server = method.task_ended(server, task) if self.tasks.ends(t) else server
                rounds.append(Round(method.stored(server), memory, last, row))
                continue
            given, received = server, server["theta"]
            own = {k: kept["running_statistics"] for k, kept in memory.items() if self.settings.local}
            left = {k: client.left for k, client in latest.items()}
            clients = present if due and self.settings.personalise == "all" else cohort
            before = {k: memory.get(k, method.client_start(theta)) for k in range(self.settings.clients)}
            had = [method.had(self.model, self.with_own(server, own.get(k)), mine, k) for k, mine in before.items()]
            trained = {
                k: method.client_update(self.client(k, t, k in late, own.get(k), left.get(k)), server, before[k], t)
                for k in clients
            }
            updates = [trained[k] for k in cohort]
            latest |= {k: trained[k].client for k in cohort}
            server = method.server_update(server, updates, self.settings.clients, t)
            server = server | {"theta": server["theta"].having(self.statistics(received, updates, not last))}
            server = method.server_train(server, updates, self.trainer(t), t)
            server = method.task_ended(server, task) if self.tasks.ends(t) else server
            memory = memory | {update.client.id: self.kept(update) for update in updates if self.kept(update)}
            last = last | dict.fromkeys(cohort, t)
            row = self.traffic(given, len(drawn), len(cohort), t, anybody)
            row |= {"round": t + 1, "train_loss": method.train_loss(updates)}
            if due and (tested := self.tested(server["theta"], updates)):
                row |= self.evaluation(tested, t, [kept.row for kept in rounds])
            if due and self.data.local_test:
                row |= self.own_accuracies(had, cohort, trained, t)
            every_look = self.settings.forgetting_every
            if every_look and ((t + 1) % every_look == 0 or last_one):
                row |= self.forgetting_degrees(received, updates, t)
            rounds.append(Round(method.stored(server), memory, last, row))
            if self.settings.enough([kept.row for kept in rounds]):
                break
        return rounds

    def statistics(self, received: Parameters, updates: Sequence[Update], first: bool) -> Parameters:
        """BatchNorm's running statistics after a round: the average of the clients', as their models are weighed."""
        running = self.model.after
        if self.settings.running_statistics == "first" and not first:
            return received.only(running)
        shares = self.method.shares(updates)
        return summed(p_k * update.theta.only(running) for p_k, update in zip(shares, updates, strict=True))

    def kept(self, update: Update) -> State:
        """What a client remembers, with its own running statistics and its optimizer's memory if it keeps them."""
        statistics = alone(update.theta.only(self.model.after).flat()) if self.settings.local else None
        own: State = {"running_statistics": statistics} if statistics else {}
        left = update.client.left
        if left is None:
            return update.memory | own
        choice = self.optimizer
        return update.memory | own | remembered(choice, self.model.initial(), self.settings.momentum, left)

    def tested(self, theta: Parameters, updates: Sequence[Update]) -> Parameters | None:
        """The model as it is tested; None if it has no running statistics that count."""
        if not self.settings.local:
            return theta
        if not self.settings.estimate_statistics or not updates:
            return None
        n = sum(update.client.n for update in updates)
        return theta.having(summed(u.client.n / n * self.model.statistics(theta, u.client.x) for u in updates))

    def samples(self, t: int, k: int) -> tuple[Tensor, Tensor]:
        """x and y of client k in round t."""
        if self.settings.class_reduction is not None:
            return self.data.samples(self.schedule.samples(t, k))
        own = self.tasks.of_client(self.tasks.of_round(t), k, self.data.clients[k], self.data.y_train.tolist())
        return self.in_tasks(own, self.data.x_train, self.data.y_train)

    def in_tasks(self, places: Sequence[tuple[int, int]], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs and labels at (task, position) as the tasks have them."""
        inputs = [self.tasks.inputs(task, x[i][None])[0] for task, i in places]
        labels = [self.tasks.label(task, y[i].tolist()) for task, i in places]
        return torch.stack(inputs) if inputs else x[:0], torch.tensor(labels, dtype=y.dtype)

    def present(self, t: int) -> list[int]:
        """Clients that are enrolled in round t and have samples."""
        enrolled = self.tasks.enrolled[self.tasks.of_round(t)]
        return [k for k in enrolled if len(self.samples(t, k)[1])]

    def test_sets(self, t: int, *, of_all: bool = False) -> list[tuple[Tensor, Tensor, list[int] | None]]:
        """x, y and the classes to choose from in round t, of each task up to its, or of all; one set without tasks."""
        data, tasks = self.data, self.tasks
        if not tasks.are_tested:
            return [(data.x_test, data.y_test, None)]
        found = []
        for task in range(tasks.tasks if of_all else tasks.of_round(t) + 1):
            rows = [(task, i) for i, y in enumerate(data.y_test.tolist()) if tasks.label(task, y) is not None]
            found.append((*self.in_tasks(rows, data.x_test, data.y_test), tasks.allowed(task, tasks.of_round(t))))
        return found

    def trainer(self, t: int) -> Client:
        """The server as a client without samples, which is numbered behind the others."""
        nothing = self.data.x_train[:0], self.data.y_train[:0]
        return self._client(self.settings.clients, t, *nothing, batches=[], once=[], work=self.pace.of_all)

    def client(self, k: int, t: int, late: bool, statistics: Parameters | None, left: dict[str, Any] | None) -> Client:
        """Client k in round t, maybe a straggler, with running statistics and what its optimizer has left."""
        x, y = self.samples(t, k)
        work = self.pace.work(t, k, late)
        batches, once = self.schedule.batches(t, k, len(y), work), self.schedule.once(t, k, len(y))
        client = self._client(k, t, x, y, batches, once, work, self.pace.lr_factor(k))
        client = replace(client, left=dict(left or {})) if self.optimizer.keep else client
        return replace(client, statistics=self.own_statistics(statistics)) if self.settings.local else client

    def own_statistics(self, kept: Parameters | None) -> Parameters:
        """A client's own running statistics, those of the initial model until it has taken part."""
        first = self.model.initial().only(self.model.after)
        return first.shaped(kept[""]) if kept else first

    def with_own(self, server: State, kept: Parameters | None) -> State:
        """The server's state as a client has it that keeps running statistics to itself, if clients do."""
        return server | {"theta": server["theta"].having(self.own_statistics(kept))} if self.settings.local else server

    def server_client(self, t: int) -> Client | None:
        """The server's own samples in round t, if it has any."""
        if not self.method.server_batch:
            return None
        task = self.tasks.of_round(t)
        x, y = self.in_tasks([(task, i) for i in self.schedule.proxy(t)], self.data.x_train, self.data.y_train)
        batches = self.schedule.server_batches(t, len(y), self.method.server_batch, self.method.server_epochs)
        return self._client(SERVER, t, x, y, batches, once=range(len(y)), work=self.pace.of_all)

    def _client(
        self,
        k: int,
        t: int,
        x: Tensor,
        y: Tensor,
        batches: Sequence[Sequence[int]],
        once: Sequence[int],
        work: Work,
        lr_factor: float = 1.0,
    ) -> Client:
        return Client(
            id=k,
            model=self.model,
            x=x,
            y=y,
            batches=batches,
            once=once,
            noise=partial(self.schedule.noise, t, k, len(y)),
            lr=self.settings.lr_in(t) * lr_factor,
            lr_factor=lr_factor,
            momentum=self.settings.momentum,
            weight_decay=self.settings.weight_decay,
            clip_norm=self.settings.clip_norm,
            lr_at=self.settings.lr_at,
            optimizer=self.optimizer,
            shared=self.shared(t),
            known=[i >= 0 for i in self.schedule.shared(t)],
            views=partial(self.schedule.views, t, k),
            noises=partial(self.schedule.noises, t, k),
            normals=partial(self.schedule.normals, t, k),
            task=self.tasks.of_round(t),
            of_task=self.tasks.classes(self.tasks.of_round(t), self.data.y_train),
            ends_task=self.tasks.ends(t),
            task_draws=partial(self.schedule.task_draws, self.tasks.of_round(t), k),
            server_draws=partial(self.schedule.server_draws, t),
            draws=partial(self.schedule.draws, t, k),
            orders=partial(self.schedule.orders, t, k, work),
            held_out=partial(self.schedule.held_out, k, len(y)),
        )

    def shared(self, t: int) -> Tensor:
        """Inputs of the samples that everyone has; anything of a class that nobody has."""
        x, _ = self.data.samples([max(i, 0) for i in self.schedule.shared(t)])
        return self.tasks.inputs(self.tasks.of_round(t), x)

    def traffic(self, server: State, received: int, sent: int, t: int, anybody: bool) -> Row:
        """Bytes of round t, in which so many clients received what a server has, and so many sent something."""
        when = When(t, self.tasks.of_round(t), anybody)
        begins = t == 0 or (self.tasks.are_tested and self.tasks.ends(t - 1))
        given = sum(i >= 0 for i in self.schedule.shared(t)) if begins and self.method.gives_samples else 0
        before = len(self.present(t)) * given * self.data.x_train[0].numel() * self.width
        new = set(self.present(t)).difference(*(self.present(s) for s in range(t)))
        before += len(new) * self.method.bytes_given(server["theta"], self.width)
        return {
            "cohort": sent,
            "traffic_down_bytes": received * self.method.bytes_down(server, self.width, when) + before,
            "traffic_up_bytes": sent * self.method.bytes_up(server["theta"], self.width, ends_task=self.tasks.ends(t)),
        }

    def own_accuracies(
        self, had: Sequence[Logits], cohort: Sequence[int], trained: Mapping[int, Update], t: int
    ) -> Row:
        """Accuracies of clients on their own test samples, or what else the loss measures by.

        Args:
            had: logits of the model that each of all clients has before it trains.
            cohort: who takes part in it.
            trained: what came of it, for the cohort, or for all clients.
            t: the round.
        """
        own, allowed = [self.own_test(k, t) for k in range(self.settings.clients)], self.model.allowed
        loss = self.settings.loss
        initial = [own_score(loss, only_of(had_k(x), allowed), y) for had_k, (x, y) in zip(had, own, strict=True)]
        personal = {k: own_score(loss, only_of(u.personal(own[k][0]), allowed), own[k][1]) for k, u in trained.items()}
        row: Row = {
            f"initial_{SCORES[loss]}": mean_known([initial[k] for k in self.present(t)]),
            f"personalised_{SCORES[loss]}": mean_known([personal[k] for k in cohort]),
        }
        if self.settings.personalise == "all":
            row[f"initial_{SCORES[loss]}_cohort"] = mean_known([initial[k] for k in cohort])
            row[f"personalised_{SCORES[loss]}_all"] = mean_known(list(personal.values()))
        return row

    def own_test(self, k: int, t: int) -> tuple[Tensor, Tensor]:
        """x and y of client k's own test samples that are of round t's task."""
        x, y = self.data.own_test(k)
        task = self.tasks.of_round(t)
        rows = [(task, i) for i, own in enumerate(y.tolist()) if self.tasks.label(task, own) is not None]
        return self.in_tasks(rows, x, y)

    def outputs(self, t: int, logits_of: Logits) -> tuple[Tensor, Tensor]:
        """Logits and labels of all test samples of the tasks up to round t's."""
        sets = self.test_sets(t)
        return torch.cat([only_of(logits_of(x), allowed) for x, _, allowed in sets]), torch.cat([y for _, y, _ in sets])

    def forgetting_degrees(self, received: Parameters, updates: Sequence[Update], t: int) -> Row:
        """FedKA's tau, (a_g - a_k) / (a_g + xi) of accuracies on the test set, at least -1: means over the clients."""
        before, y = self.outputs(t, partial(self.model.logits, received))
        found: dict[int, list[float]] = {label: [] for label in sorted({int(each) for each in y})}
        for update in updates:
            after, _ = self.outputs(t, update.personal)
            for label, degrees in found.items():
                of_class = y == label
                a_g, a_k = (share_right(logits[of_class], y[of_class]) for logits in (before, after))
                degrees.append(max((a_g - a_k) / (a_g + 1e-6), -1.0))
        return {
            "forgetting_degree": mean_known([tau for degrees in found.values() for tau in degrees]),
            **{f"forgetting_degree/{label}": mean_known(degrees) for label, degrees in found.items()},
        }

    def evaluation(self, theta: Parameters, t: int, before: Sequence[Row]) -> Row:
        """How the model theta that came of round t does; before has the rows of the rounds before it."""
        logits, y = self.outputs(t, partial(self.model.logits, theta))
        names = [f"accuracy/{label}" for label in range(self.data.classes)]
        if self.settings.loss == "cross_entropy":
            row: Row = {
                "accuracy": share_right(logits, y),
                "loss": mean_loss(logits, y),
                **dict(zip(names, class_accuracies(logits, y, self.data.classes), strict=True)),
                **self.on_tasks(theta, t),
            }
        else:
            row = of_test_set(self.settings.loss, logits, y)
        if "accuracy" not in row:
            return row
        course = [kept for kept in [*before, row | {"round": t + 1}] if "accuracy" in kept]
        sizes = [class_sizes(self.test_sets(int(kept["round"]) - 1), self.data.classes) for kept in course]
        lost = forgetting([[kept[name] for name in names] for kept in course], sizes)
        row |= {"running_mean_accuracy": mean_known([kept["accuracy"] for kept in course]), "forgetting": lost}
        so_far = [self.tasks.of_round(int(kept["round"]) - 1) + 1 for kept in course]
        return row | task_averages(course, so_far) if "task/1" in row else row

    def on_tasks(self, theta: Parameters, t: int) -> Row:
        """Accuracies on the tasks up to round t's; on all of them where a task, or the run, ends with it."""
        if not self.tasks.are_tested:
            return {}
        ends = self.tasks.ends(t) or t + 1 == self.settings.rounds
        sets = self.test_sets(t, of_all=ends)
        return {
            f"task/{task}": share_right(only_of(self.model.logits(theta, x), allowed), y)
            for task, (x, y, allowed) in enumerate(sets, 1)
        }
