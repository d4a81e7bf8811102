"""Which samples come when and which random numbers are drawn: all that the reference takes from the program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import torch
from settings import Settings
from torch import Tensor
from views import augmented

from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import Keys, Purpose, generator, keys, normal, shuffled, uniform
from fl_ddp.federation import Federation, build_federation
from fl_ddp.importance.coverage import coverage
from fl_ddp.importance.fisher import chunk_size
from fl_ddp.ranks.cohort import cohort
from fl_ddp.ranks.collectives import Ranks

Work = tuple[float | None, int | None]
"""Epochs of a client, or, if they are None, its steps."""
SERVER = 0
"""Stands for the server where random numbers are drawn for clients."""


class Schedule:
    """Orders and random numbers of a run."""

    def __init__(self, options: Mapping[str, object], settings: Settings) -> None:
        self._options, self._settings = options, settings

    @cached_property
    def _federation(self) -> Federation:
        return build_federation(from_mapping(self._options), Ranks(0, 1, torch.device("cpu")))

    def cohort(self, t: int, present: Mapping[int, int], size: int) -> list[int]:
        """So many of the clients that may take part in round t, which have these numbers of samples."""
        n = np.array(list(present.values())) if self._settings.client_sampling == "samples" else None
        return [int(k) for k in cohort(self._settings.seed, t, np.array(list(present)), size, n)]

    def failure(self, t: int, client: int) -> float:
        """A uniform random number of a client in round t, below the dropout rate if it fails."""
        return _unit(keys(self._settings.seed, t, Purpose.DROPOUT, client))

    def of_client(self, option: str, client: int) -> float:
        """A uniform random number of a client, for its client_lr or client_work."""
        return _unit(keys(self._settings.seed, Purpose[option.upper()], client))

    def late(self, t: int, client: int) -> tuple[int, float]:
        """Where a client stands among those of its cohort that may be late, and how much of its work it then does."""
        place = int(keys(self._settings.seed, t, Purpose.STRAGGLER, client)[0])
        return place, _unit(keys(self._settings.seed, t, Purpose.LATE, client))

    def order_of_inputs(self, task: int, n: int) -> list[int]:
        """A random order of n inputs in a task."""
        return [int(i) for i in generator(self._settings.seed, Purpose.STREAM, task).permutation(n)]

    def kept(self, task: int, k: int, positions: Sequence[int]) -> list[int]:
        """Client k's samples of a task, in the order in which they are kept."""
        return [int(i) for i in generator(self._settings.seed, Purpose.KEPT, task, k).permutation(positions)]

    def enrolment_draws(self, tasks: int, clients: int) -> list[list[float]]:
        """A random number for each task and client."""
        drawn: list[list[float]] = generator(self._settings.seed, Purpose.ENROLMENT).random((tasks, clients)).tolist()
        return drawn

    def samples(self, t: int, client: int) -> list[int]:
        """Positions in the training set of the samples that a client has left in round t."""
        return [int(i) for i in self._federation.worlds.at(t).clients[client]]

    def batches(self, t: int, client: int, n: int, work: Work) -> list[list[int]]:
        """Positions in a client's n samples, for each of its local steps in round t."""
        return self.orders(t, client, work, n, draw=0, epochs=None)

    def orders(
        self, t: int, client: int, work: Work, n: int, draw: int, epochs: float | None, *, short: bool = False
    ) -> list[list[int]]:
        """The same of one of several trainings of a round, which are numbered from 0.

        Args:
            t: the round.
            client: who trains.
            work: its epochs, or its steps, in the round.
            n: number of samples that it trains on.
            draw: the training.
            epochs: passes over the samples; the client's work if None.
            short: keep short batches, whatever the run does.
        """
        settings, key = self._settings, self._order_key(t, client)
        passes, steps = work if epochs is None else (epochs, None)
        plan = Plan(settings.batch_size, passes, steps, lr=1.0, drop_last=settings.drop_last and not short)
        return cut(plan, keys(key, Purpose.AGAIN, draw) if draw else key, n)

    def held_out(self, client: int, n: int, share: float) -> tuple[list[int], list[int]]:
        """Positions in a client's n samples of those that it never trains on, and of the others."""
        key = keys(self._settings.seed, Purpose.HELD_OUT, client)
        order = [int(i) for i in shuffled(key, np.array([n]), 0)[0]]
        held = min(max(round(share * n), min(n // 2, 1)), max(n - 1, 0))
        return order[:held], order[held:]

    def server_batches(self, t: int, n: int, batch_size: int, epochs: float = 1.0) -> list[list[int]]:
        """The server's n samples in so many passes, in round t."""
        return cut(Plan(batch_size, epochs, steps=None, lr=1.0), self._order_key(t, SERVER), n)

    def once(self, t: int, client: int, n: int) -> list[int]:
        """All positions in a client's n samples, in the order in which importance passes of round t take them."""
        return [int(i) for i in shuffled(self._importance_key(t, client), np.array([n]), 0)[0]]

    def noise(self, t: int, client: int, n: int, batch_size: int | None, draw: int) -> Tensor:
        """[n] uniform random numbers of a draw for a client's n samples, by batches or by the pass's own chunks."""
        size = batch_size or self._chunk
        drawn = keys(self._importance_key(t, client), Purpose.NOISE, np.arange(-(-n // size))) >> np.uint64(33)
        return torch.cat([uniform(torch.tensor(int(key)), draw, torch.Size([size])) for key in drawn])[:n]

    def draws(self, t: int, client: int, stream: int, n: int) -> Tensor:
        """[n] uniform random numbers that a method draws for a client in round t."""
        key = keys(self._settings.seed, t, Purpose.METHOD, client) >> np.uint64(33)
        return uniform(torch.tensor(int(key[0])), stream, [n])

    def task_draws(self, task: int, client: int, stream: int, n: int) -> Tensor:
        """[n] uniform random numbers that a method draws for a client in all rounds of a task."""
        key = keys(self._settings.seed, task, Purpose.TASK, client) >> np.uint64(33)
        return uniform(torch.tensor(int(key[0])), stream, [n])

    def normals(self, t: int, client: int, stream: int, n: int, d: int) -> Tensor:
        """[n, d] normal random numbers that a method draws for a client in round t."""
        key = keys(self._settings.seed, t, Purpose.METHOD, client) >> np.uint64(33)
        return normal(torch.tensor(int(key[0])), stream, [n, d])

    def noises(self, t: int, client: int, step: int, b: int, d: int) -> Tensor:
        """[b, d] normal random numbers of a client's local step in round t."""
        key = keys(self._order_key(t, client), Purpose.NOISE, step) >> np.uint64(33)
        return normal(torch.tensor(int(key[0])), 0, [b, d])

    def views(self, t: int, client: int, step: int, x: Tensor) -> Tensor:
        """Images [b, ...] as a client's local step in round t sees them."""
        if not self._settings.augment:
            return x
        key = keys(self._order_key(t, client), Purpose.NOISE, step) >> np.uint64(33)
        return augmented(x, uniform(torch.tensor(int(key[0])), 2**20, [len(x), 3]), self._settings.augment)

    def server_draws(self, t: int, stream: int, n: int) -> Tensor:
        """[n] uniform random numbers that the server draws in round t."""
        key = keys(self._settings.seed, t, Purpose.SERVER) >> np.uint64(33)
        return uniform(torch.tensor(int(key[0])), stream, [n])

    def shared(self, t: int) -> list[int]:
        """Positions in the training set of a sample of each class that everyone has; -1 of one that nobody has."""
        return [int(i) for i in self._federation.worlds.at(t).shared]

    def proxy(self, t: int) -> list[int]:
        """Positions in the training set of the server's samples; they stay in this order."""
        return [int(i) for part in self._federation.worlds.at(t).proxy for i in part]

    @cached_property
    def _chunk(self) -> int:
        federation = self._federation
        return chunk_size(coverage(federation.model, federation.worlds.at(0).train.x.shape[1:]), 1)

    def _order_key(self, t: int, client: int) -> Keys:
        return keys(self._settings.seed, t, Purpose.ORDER, client)

    def _importance_key(self, t: int, client: int) -> Keys:
        return keys(self._order_key(t, client), Purpose.IMPORTANCE)


def _unit(key: Keys) -> float:
    return int(key[0] >> np.uint64(11)) / 2**53


def cut(plan: Plan, key: Keys, n: int) -> list[list[int]]:
    """Positions in n samples, for each step of a plan, in the order of a key."""
    return [[int(i) for i in step[0] if i >= 0] for step in plan.batches(key, [np.arange(n)])]
