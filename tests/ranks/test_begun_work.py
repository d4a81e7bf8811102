"""Work that is begun before its sum is asked for, so that a GPU has something to do while the host waits."""

from __future__ import annotations

import gc
import weakref
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from fl_ddp.config.settings import Config
from fl_ddp.engine.group import Group
from fl_ddp.guards.hooks import Hooks
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Indices, Upload
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exchange import Exchange, Work
from fl_ddp.ranks.threads import Workers

HAND = np.arange(6)
SERVER = {"theta": torch.zeros(4)}


class Alone:
    """One rank that sums the numbers of its clients, two a group, with a worker as a GPU has it.

    Attributes:
        trained: the first client of each group that was trained, in turn.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ranks: int = 1) -> None:
        monkeypatch.setattr("fl_ddp.ranks.exchange.workers_on", lambda _: Workers(1))
        hooks, watch = Hooks(FedAvg(), "MLP"), Stopwatch("cpu")
        self.exchange = Exchange(
            Config(compile=False), Ranks(0, ranks, torch.device("cpu")), StopRequest(), hooks, watch, 2, {}
        )
        self.trained: list[int] = []
        self.error: Exception | None = None

    def work(self, round: int, kind: str = "cohort") -> Work:
        def train(clients: Indices) -> tuple[Group, Upload]:
            self.trained.append(int(clients[0]))
            if self.error:
                raise self.error
            group = SimpleNamespace(client=clients, real=torch.ones(len(clients)))
            return cast(Group, group), Upload(
                {"s": 10.0 * round + torch.from_numpy(clients)[:, None]}, torch.zeros(2, 4)
            )

        return Work("client_update", f"round {round}, client", HAND, train, kind=kind)

    def sum(self, work: Work) -> float:
        return float(self.exchange.sum(HAND, work, SERVER).total.sums["s"])


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Alone:
    return Alone(monkeypatch)


def test_the_first_group_of_work_that_is_begun_is_done_once(alone: Alone) -> None:
    alone.exchange.begin(HAND, alone.work(1))
    assert alone.trained == [0]
    assert alone.sum(alone.work(1)) == 6 * 10 + 15
    assert alone.trained == [0, 2, 4]
    assert alone.sum(alone.work(2)) == 6 * 20 + 15
    assert alone.trained == [0, 2, 4] * 2


@pytest.mark.parametrize(("round", "kind"), [(3, "cohort"), (2, "others")])
def test_other_work_is_done_by_itself(alone: Alone, round: int, kind: str) -> None:
    alone.exchange.begin(HAND, alone.work(2))
    assert alone.sum(alone.work(round, kind)) == 6 * 10 * round + 15
    assert alone.trained == [0, 0, 2, 4]
    assert alone.sum(alone.work(2)) == 6 * 20 + 15, "nothing is left of what was begun"
    assert alone.trained == [0, 0, 2, 4, 0, 2, 4]


def test_what_goes_wrong_once_is_told_when_the_sum_is_asked_for(alone: Alone) -> None:
    alone.error = ValueError("at the first time alone")
    alone.exchange.begin(HAND, alone.work(1))
    alone.error = None
    with pytest.raises(ValueError, match="first time"):
        alone.sum(alone.work(1))
    assert alone.trained == [0]
    assert alone.sum(alone.work(1)) == 6 * 10 + 15


NO_ROOM = [
    torch.OutOfMemoryError("no room"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
]
"""What torch says of a GPU's memory, and what is said where a library has found none beside torch's."""


@pytest.mark.parametrize("error", NO_ROOM, ids=["torch's", "a library's"])
def test_what_has_no_room_beside_the_state_before_is_done_when_it_is_due(alone: Alone, error: Exception) -> None:
    alone.error = error
    alone.exchange.begin(HAND, alone.work(1))
    alone.error = None
    assert alone.sum(alone.work(1)) == 6 * 10 + 15
    alone.trained.clear()
    alone.exchange.begin(HAND, alone.work(2))
    assert alone.trained == [], "nor is it tried again"


@pytest.mark.parametrize("error", NO_ROOM, ids=["torch's", "a library's"])
def test_a_test_that_has_no_room_beside_it_comes_first(alone: Alone, error: Exception) -> None:
    tries: list[bool] = []

    def test(fits: int) -> str:
        tries.append(len(tries) >= fits)
        if not tries[-1]:
            raise error
        return "tested"

    alone.exchange.begin(HAND, alone.work(1))
    assert alone.exchange.with_room(lambda: test(1)) == "tested" and tries == [False, True]
    assert alone.sum(alone.work(1)) == 6 * 10 + 15
    assert alone.trained == [0, 0, 2, 4]
    alone.exchange.begin(HAND, alone.work(2))
    assert alone.trained == [0, 0, 2, 4], "nor is it tried again"
    with pytest.raises(type(error)):
        alone.exchange.with_room(lambda: test(3))
    assert len(tries) == 3


def test_another_error_of_a_test_is_told(alone: Alone) -> None:
    alone.exchange.begin(HAND, alone.work(1))
    with pytest.raises(RuntimeError, match="of the test"):
        alone.exchange.with_room(fails)
    assert alone.sum(alone.work(1)) == 6 * 10 + 15
    assert alone.trained == [0, 2, 4]


def fails() -> None:
    raise RuntimeError("of the test")


class Held:
    """Stands for what a test has in memory, or for what was begun."""


def test_a_second_try_has_the_memory_of_the_first_one(alone: Alone) -> None:
    """Though the error is in a circle with the frames that hold it, as that of ranks that agree on it is."""
    held: list[weakref.ref[Held]] = []

    def test() -> bool:
        if held:
            return held[0]() is None
        activations = Held()
        held.append(weakref.ref(activations))
        try:
            raise torch.OutOfMemoryError("no room")
        except torch.OutOfMemoryError as error:
            found = error
        raise found

    alone.exchange.begin(HAND, alone.work(1))
    gc.disable()
    try:
        assert alone.exchange.with_room(test)
    finally:
        gc.enable()


def test_other_work_has_the_memory_of_what_was_begun(alone: Alone) -> None:
    begun, work = alone.work(1), alone.work(2)
    held: list[weakref.ref[torch.Tensor]] = []
    gone: list[bool] = []

    def beginning(clients: Indices) -> tuple[Group, Upload]:
        group, upload = begun.of(clients)
        held.append(weakref.ref(upload.theta))
        return group, upload

    def looking(clients: Indices) -> tuple[Group, Upload]:
        gone.append(held[0]() is None)
        return work.of(clients)

    alone.exchange.begin(HAND, begun._replace(of=beginning))
    assert alone.sum(work._replace(of=looking)) == 6 * 20 + 15
    assert gone == [True] * 3


def test_nothing_is_begun_where_ranks_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Alone(monkeypatch, ranks=2)
    alone.exchange.begin(HAND, alone.work(1))
    assert alone.trained == []
