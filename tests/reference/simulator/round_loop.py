"""A run of the reference: one round after another, in a round one client after another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import nan

from evaluation import Row, accuracy, class_accuracies, forgetting, mean_known, mean_loss, share_right
from fedavg import FedAvg, Update
from local_training import Client, Model, State
from parameters import Parameters, alone, summed
from schedule import SERVER, Schedule
from settings import Settings
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
        width: bytes of a number that travels.
    """

    method: FedAvg
    model: Model
    data: Data
    settings: Settings
    schedule: Schedule
    width: int

    def rounds(self) -> list[Round]:
        """All rounds."""
        method, theta = self.method, self.model.initial()
        server, memory, last = method.server_start(theta, self.settings.clients), dict[int, State](), dict[int, int]()
        rounds: list[Round] = []
        every = self.settings.eval_every
        for t in range(self.settings.rounds):
            received = server["theta"]
            server = method.server_measure(server, self.server_client(t), t)
            cohort, due = self.schedule.cohort(t), (t + 1) % every == 0 or t + 1 == self.settings.rounds
            own = {k: kept["running_statistics"] for k, kept in memory.items() if self.settings.local}
            buffers = {k: kept["sgd_momentum"] for k, kept in memory.items() if self.settings.keep_momentum}
            clients = range(self.settings.clients) if due and self.settings.personalise == "all" else cohort
            trained = {
                k: method.client_update(
                    self.client(k, t, own.get(k), buffers.get(k)), server, memory.get(k, method.client_start(theta)), t
                )
                for k in clients
            }
            updates = [trained[k] for k in cohort]
            server = method.server_update(server, updates, self.settings.clients, t)
            server = server | {"theta": server["theta"].having(self.statistics(received, updates, t))}
            memory = memory | {update.client.id: self.kept(update) for update in updates if self.kept(update)}
            last = last | dict.fromkeys(cohort, t)
            row = self.traffic(received, updates, t) | {"round": t + 1, "train_loss": method.train_loss(updates)}
            if due and (tested := self.tested(server["theta"], updates)):
                row |= self.evaluation(tested, [kept.row for kept in rounds])
            if due and self.data.local_test:
                row |= self.own_accuracies(received, cohort, trained)
            every_look = self.settings.forgetting_every
            if every_look and ((t + 1) % every_look == 0 or t + 1 == self.settings.rounds):
                row |= self.forgetting_degrees(received, updates)
            rounds.append(Round(method.stored(server), memory, last, row))
        return rounds

    def statistics(self, received: Parameters, updates: Sequence[Update], t: int) -> Parameters:
        """BatchNorm's running statistics after round t: the average of the clients', as their models are weighed."""
        running = self.model.after
        if self.settings.running_statistics == "first" and t > 0:
            return received.only(running)
        shares = self.method.shares(updates)
        return summed(p_k * update.theta.only(running) for p_k, update in zip(shares, updates, strict=True))

    def kept(self, update: Update) -> State:
        """What a client remembers, with its own running statistics and its momentum if it keeps them."""
        statistics = alone(update.theta.only(self.model.after).flat()) if self.settings.local else None
        own: State = {"running_statistics": statistics} if statistics else {}
        return update.memory | own | (update.client.buffer or {})

    def tested(self, theta: Parameters, updates: Sequence[Update]) -> Parameters | None:
        """The model as it is tested; None if it has no running statistics that count."""
        if not self.settings.local:
            return theta
        if not self.settings.estimate_statistics:
            return None
        n = sum(update.client.n for update in updates)
        return theta.having(summed(u.client.n / n * self.model.statistics(theta, u.client.x) for u in updates))

    def client(self, k: int, t: int, statistics: Parameters | None, buffer: Parameters | None) -> Client:
        """Client k in round t, with running statistics and a momentum of its own."""
        reduced = self.settings.class_reduction is not None
        x, y = self.data.samples(self.schedule.samples(t, k) if reduced else self.data.clients[k])
        batches, once = self.schedule.batches(t, k, len(y)), self.schedule.once(t, k, len(y))
        client = self._client(k, t, x, y, batches, once)
        if self.settings.keep_momentum:
            client = replace(client, buffer={"sgd_momentum": buffer or self.model.initial().filled(0)})
        if not self.settings.local:
            return client
        first = self.model.initial().only(self.model.after)
        return replace(client, statistics=first.shaped(statistics[""]) if statistics else first)

    def server_client(self, t: int) -> Client | None:
        """The server's own samples in round t, if it has any."""
        if not self.method.server_batch:
            return None
        x, y = self.data.samples(self.schedule.proxy)
        batches = self.schedule.server_batches(t, len(y), self.method.server_batch)
        return self._client(SERVER, t, x, y, batches, once=range(len(y)))

    def _client(
        self, k: int, t: int, x: Tensor, y: Tensor, batches: Sequence[Sequence[int]], once: Sequence[int]
    ) -> Client:
        settings = self.settings
        noise, lr = partial(self.schedule.noise, t, k, len(y)), settings.lr_in(t)
        return Client(
            id=k,
            model=self.model,
            x=x,
            y=y,
            batches=batches,
            once=once,
            noise=noise,
            lr=lr,
            momentum=settings.momentum,
            weight_decay=settings.weight_decay,
            shared=self.data.samples(self.schedule.shared)[0],
            draws=partial(self.schedule.draws, t, k),
            orders=partial(self.schedule.orders, t, k),
            held_out=partial(self.schedule.held_out, k, len(y)),
        )

    def traffic(self, theta: Parameters, updates: Sequence[Update], t: int) -> Row:
        """Bytes that all clients of the cohort together receive and send."""
        sample, given = self.data.x_train[0].numel() * self.width, self.method.samples_given(self.data.classes)
        before = self.settings.clients * given * sample if t == 0 else 0
        return {
            "cohort": len(updates),
            "traffic_down_bytes": len(updates) * self.method.bytes_down(theta, self.width, t) + before,
            "traffic_up_bytes": len(updates) * self.method.bytes_up(theta, self.width),
        }

    def own_accuracies(self, received: Parameters, cohort: Sequence[int], trained: Mapping[int, Update]) -> Row:
        """Accuracies of clients on their own test samples.

        Args:
            received: the model that the clients of a round received.
            cohort: who takes part in it.
            trained: what came of it, for the cohort, or for all clients.
        """
        own = [self.data.own_test(k) for k in range(self.settings.clients)]
        initial = [nan if self.settings.local else accuracy(self.model, received, *samples) for samples in own]
        personal = {k: share_right(update.personal(own[k][0]), own[k][1]) for k, update in trained.items()}
        row: Row = {
            "initial_accuracy": mean_known(initial),
            "personalised_accuracy": mean_known([personal[k] for k in cohort]),
        }
        if self.settings.personalise == "all":
            row["initial_accuracy_cohort"] = mean_known([initial[k] for k in cohort])
            row["personalised_accuracy_all"] = mean_known(list(personal.values()))
        return row

    def forgetting_degrees(self, received: Parameters, updates: Sequence[Update]) -> Row:
        """FedKA's tau, (a_g - a_k) / (a_g + xi) of accuracies on the test set, at least -1: means over the clients."""
        x, y = self.data.x_test, self.data.y_test
        found: dict[int, list[float]] = {label: [] for label in sorted({int(each) for each in y})}
        for update in updates:
            for label, degrees in found.items():
                of_class = y == label
                a_g = accuracy(self.model, received, x[of_class], y[of_class])
                a_k = share_right(update.personal(x[of_class]), y[of_class])
                degrees.append(max((a_g - a_k) / (a_g + 1e-6), -1.0))
        return {
            "forgetting_degree": mean_known([tau for degrees in found.values() for tau in degrees]),
            **{f"forgetting_degree/{label}": mean_known(degrees) for label, degrees in found.items()},
        }

    def evaluation(self, theta: Parameters, before: Sequence[Row]) -> Row:
        """How the model of a round does.

        Args:
            theta: the model that came of it.
            before: rows of the rounds before.
        """
        data, model = self.data, self.model
        test = data.x_test, data.y_test
        names = [f"accuracy/{label}" for label in range(data.classes)]
        row: Row = {
            "accuracy": accuracy(model, theta, *test),
            "loss": mean_loss(model, theta, *test),
            **dict(zip(names, class_accuracies(model, theta, *test, data.classes), strict=True)),
        }
        course = [kept for kept in [*before, row] if "accuracy" in kept]
        return row | {
            "running_mean_accuracy": mean_known([kept["accuracy"] for kept in course]),
            "forgetting": forgetting([[kept[name] for name in names] for kept in course]),
        }
