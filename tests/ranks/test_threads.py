"""Threads of a rank: order, errors, one torch thread each; and models used by several threads at once."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter

import pytest
import torch
from torch import Tensor, nn

from fl_ddp.models.cnn import FedCurvCNN
from fl_ddp.models.mlp import MLP
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.ranks.threads import Workers, apart, workers_on


def test_results_come_in_the_order_of_the_items() -> None:
    def late(item: int) -> int:
        time.sleep(0.02 * (3 - item))
        return item

    assert Workers(3).map(late, range(4)) == [0, 1, 2, 3]


def test_items_run_on_several_threads_at_once() -> None:
    together = threading.Barrier(2, timeout=20)
    assert sorted(Workers(2).map(lambda _: together.wait(), range(2))) == [0, 1]


def test_each_worker_computes_with_one_torch_thread() -> None:
    before = torch.get_num_threads()
    assert Workers(2).map(lambda _: torch.get_num_threads(), range(2)) == [1, 1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("size", [1, 2])
def test_the_first_error_is_raised_when_all_are_done(size: int) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item < 2:
            raise ValueError(item)
        done.append(item)

    with pytest.raises(ValueError, match="0"):
        Workers(size).map(work, range(4))
    assert done == ([2, 3] if size > 1 else [])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_items_are_spread_over_this_thread_and_idle_ones(size: int) -> None:
    together, done = threading.Barrier(size, timeout=20), list[int]()

    def work(item: int) -> None:
        if item < size:
            together.wait()
        done.append(item)

    Workers(size).spread(work, range(7))
    assert sorted(done) == list(range(7))


def test_workers_that_spread_all_at_once_do_not_wait_for_each_other() -> None:
    workers, done = Workers(2), list[tuple[int, int]]()

    def of_group(group: int) -> None:
        workers.spread(lambda item: done.append((group, item)), range(20))

    for _ in range(50):
        workers.map(of_group, range(2))
    assert Counter(done) == {(group, item): 50 for group in range(2) for item in range(20)}


def test_a_worker_without_items_helps_another() -> None:
    workers, threads = Workers(2), set[int]()
    together = threading.Barrier(2, timeout=20)

    def work(_: int) -> None:
        threads.add(threading.get_ident())
        together.wait()

    workers.map(lambda group: workers.spread(work, range(0 if group else 2)), range(2))
    assert len(threads) == 2


@pytest.mark.parametrize("error", [ValueError, IndexError])
@pytest.mark.parametrize("size", [1, 2])
def test_an_error_ends_what_is_spread(size: int, error: type[Exception]) -> None:
    done: list[int] = []

    def work(item: int) -> None:
        if item == 3:
            raise error("three")
        time.sleep(0.001)
        done.append(item)

    with pytest.raises(error, match="three"):
        Workers(size).spread(work, range(1000))
    assert len(done) < 10


def test_what_fails_in_a_helping_thread_is_told() -> None:
    own = threading.get_ident()

    def work(_: int) -> None:
        if threading.get_ident() != own:
            raise ValueError("elsewhere")
        time.sleep(0.01)

    with pytest.raises(ValueError, match="elsewhere"):
        Workers(2).spread(work, range(50))


class LogitsOnly(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.dropout, self.head = nn.Linear(6, 300), nn.Dropout(0.5), nn.Linear(300, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.dropout(self.body(x).relu()))
        return out


def test_threads_that_share_a_model_do_not_see_each_others_parameters() -> None:
    model = FlatModel(LogitsOnly(), 4, torch.zeros(1, 6))
    x, key = torch.randn(200, 6), torch.tensor(7)
    thetas = [model.init() * scale for scale in range(1, 41)]

    def both(theta: Tensor) -> list[Tensor]:
        features, logits = model.apply(theta, x)
        assert features is not None
        return [features, logits, model.logits(theta, x, key)]

    alone = [both(theta) for theta in thetas]
    for _ in range(3):
        for found, expected in zip(Workers(4).map(both, thetas), alone, strict=True):
            assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_signal_that_does_not_wake_the_waiting_thread_is_seen_before_the_work_ends() -> None:
    """One that reaches another thread, or this one just before it waits."""
    seen = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.set())

    def work(item: int) -> bool:
        if item == 0:
            time.sleep(0.5)  # until the main thread waits
            signal.raise_signal(signal.SIGUSR1)
        return seen.wait(30)

    try:
        assert Workers(2).map(work, range(2)) == [True, True]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_lanes_of_convolutions_are_looked_at_apart_on_a_cpu() -> None:
    x = torch.zeros(1, 1, 28, 28)
    convolved, linear = (FlatModel(made(in_shape=(1, 28, 28), num_classes=10), 10, x) for made in (FedCurvCNN, MLP))
    assert apart(convolved) == workers_on("cpu").spread
    assert apart(linear) is None
    convolved.device = torch.device("cuda", 0)
    assert apart(convolved) is None
