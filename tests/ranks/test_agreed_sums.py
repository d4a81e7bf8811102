"""Ranks agree by their sums: one a round, and what is wrong with one rank ends all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from fl_ddp.config.settings import Config
from fl_ddp.engine.group import Group
from fl_ddp.engine.samples import Samples
from fl_ddp.errors import ConfigError, ElsewhereError, InterruptedRunError, RunError, StatesDifferError
from fl_ddp.evaluation.scores import evaluate
from fl_ddp.guards.hooks import Hooks
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Indices, Tensors, Upload
from fl_ddp.ranks.collectives import Offer, Ranks
from fl_ddp.ranks.exchange import Exchange, Work
from fl_ddp.ranks.outputs import Passes, gathered
from fl_ddp.ranks.own_tests import evaluate_clients

RANKS = 3
CPU = torch.device("cpu")
Give = Callable[[int], Upload]
"""What a rank's clients hand over."""


@dataclass
class _Table:
    """Where threads add up; it refuses buffers that no backend could add."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(RANKS, timeout=20))
    given: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Rank(Ranks):
    """One of several, in a thread.

    Attributes:
        table: of all of them.
        lengths: of its sums so far.
    """

    table: _Table = field(default_factory=_Table)
    lengths: list[int] = field(default_factory=list)

    def add(self, buffer: Tensor) -> Tensor:
        self.table.given[self.index] = buffer.clone()
        self.table.barrier.wait()
        given = [self.table.given[i] for i in range(RANKS)]
        self.table.barrier.wait()
        assert len({(len(each), each.dtype) for each in given}) == 1, "a backend would hang or fail"
        self.lengths.append(len(buffer))
        return torch.stack(given).sum(0)


@dataclass(frozen=True)
class _OnGpu(_Rank):
    """One that agrees before it sums, as those of GPUs do; the second one has no memory for its sum."""

    agree_in_sums = False

    def offer(self, parts: Sequence[Tensor], mark: Tensor | None = None, *, given: bool = True) -> Offer:
        if self.index == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().offer(parts, mark, given=given)


class Federated:
    """Ranks that sum the same work again and again, each by its exchange."""

    def __init__(self, kind: type[_Rank] = _Rank) -> None:
        table = _Table()
        self.ranks = [kind(index, RANKS, CPU, table=table) for index in range(RANKS)]
        hooks, config = Hooks(FedAvg(), "MLP"), Config(compile=False)
        stop = StopRequest()
        self.exchanges = [Exchange(config, rank, stop, hooks, Stopwatch("cpu"), 2, {}) for rank in self.ranks]

    def sum(self, give: Give, order: Sequence[int] = range(2 * RANKS), kind: object = None) -> list[Any]:
        """What comes of a sum on each rank, each of two clients: its totals and rows, or its error."""

        def of_rank(rank: int) -> object:
            def train(clients: Indices) -> tuple[Group, Upload]:
                group = SimpleNamespace(client=clients, real=torch.ones(len(clients)))
                return cast(Group, group), give(rank)

            ids = np.array(order)
            work = Work("client_update", "round 1, client", ids, train, kind=cast(str, kind))
            server: Tensors = {"theta": torch.zeros(4)}
            try:
                total = self.exchanges[rank].sum(ids[2 * rank : 2 * rank + 2], work, server).total
                return {name: t.tolist() for name, t in {**total.sums, **total.rows}.items()}
            except Exception as error:
                return error

        return self._together(of_rank)

    def do(self, what: Callable[[Ranks], object]) -> list[Any]:
        """What each rank gives, or its error."""

        def of_rank(rank: int) -> object:
            try:
                return what(self.ranks[rank])
            except Exception as error:
                return error

        return self._together(of_rank)

    @staticmethod
    def _together(of_rank: Callable[[int], object]) -> list[object]:
        with ThreadPoolExecutor(RANKS) as threads:
            return list(threads.map(of_rank, range(RANKS)))

    @contextmanager
    def sums(self, *lengths: int) -> Any:
        """Ranks have so many sums of these lengths in the block."""
        before = len(self.ranks[0].lengths)
        yield
        assert [rank.lengths[before:] for rank in self.ranks] == [list(lengths)] * RANKS


VERDICT = RANKS
"""Numbers of a verdict on its own."""
MARKS = RANKS * 5
"""Numbers that a sum has beside what is summed: of each rank its state, and whether it has given something."""
WIDE = 2 * 3 + MARKS
"""A sum of three numbers, in two bins each."""


def of_width(width: int, **rows: Tensor) -> Give:
    return lambda rank: Upload({"s": torch.full((2, width), 1.0 + rank)}, torch.zeros(2, 4), rows=rows)


def unless(rank: int, error: Exception, give: Give) -> Give:
    """What ranks give, but for one that fails."""

    def given(index: int) -> Upload:
        if index == rank:
            raise error
        return give(index)

    return given


def test_ranks_that_know_what_they_sum_agree_by_the_sum() -> None:
    them, twice = Federated(), [{"s": [12.0] * 3}] * RANKS
    with them.sums(VERDICT, WIDE):
        assert them.sum(of_width(3)) == twice
    for _ in range(2):
        with them.sums(WIDE):
            assert them.sum(of_width(3)) == twice


def test_what_all_give_anew_is_agreed_upon_first() -> None:
    them = Federated()
    them.sum(of_width(3))
    wider = 2 * 5 + MARKS
    with them.sums(WIDE, VERDICT, wider):
        assert them.sum(of_width(5)) == [{"s": [12.0] * 5}] * RANKS
    with them.sums(wider):
        them.sum(of_width(5))
    with_rows = of_width(5, r=torch.ones(2))
    with them.sums(wider, VERDICT, wider + 2 * RANKS):
        assert them.sum(with_rows) == [{"s": [12.0] * 5, "r": [1.0] * 2 * RANKS}] * RANKS


def test_other_cohorts_and_kinds_are_known_beside_each_other() -> None:
    them, few = Federated(), range(2 * RANKS - 1)
    rows = of_width(3, r=torch.ones(2))

    def of_few(rank: int) -> Upload:
        lone = Upload({"s": torch.ones(1, 3)}, torch.zeros(1, 4), rows={"r": torch.ones(1)})
        return lone if rank == RANKS - 1 else rows(rank)

    for _ in range(2):
        them.sum(rows)
        them.sum(of_few, few)
        them.sum(of_width(3), kind="others")
    with them.sums(WIDE + 2 * RANKS, WIDE + 2 * RANKS - 1, WIDE):
        them.sum(rows)
        them.sum(of_few, few)
        them.sum(of_width(3), kind="others")


@pytest.mark.parametrize("known", [False, True])
def test_ranks_that_give_something_else_are_refused(known: bool) -> None:
    them = Federated()
    if known:
        them.sum(of_width(3))
    for other in (of_width(5), of_width(3, s=torch.ones(2)), of_width(3, r=torch.ones(2))):

        def of_rank(rank: int, other: Give = other) -> Upload:
            return other(rank) if rank == 1 else of_width(3)(rank)

        found = them.sum(of_rank)
        assert all(isinstance(error, ConfigError) and "something else for others" in str(error) for error in found)
    assert them.sum(of_width(3)) == [{"s": [12.0] * 3}] * RANKS


@pytest.mark.parametrize("known", [False, True])
def test_a_ranks_error_ends_all_and_is_told_by_its_own(known: bool) -> None:
    them, error = Federated(), RunError("of rank 1")
    if known:
        them.sum(of_width(3))
    with them.sums(*[WIDE] * known, VERDICT):
        found = them.sum(unless(1, error, of_width(3)))
    assert found[1] is error
    assert [type(other) for other in (found[0], found[2])] == [ElsewhereError] * 2
    assert them.sum(of_width(3)) == [{"s": [12.0] * 3}] * RANKS


@pytest.mark.parametrize("known", [False, True])
def test_ranks_without_sums_are_refused_beside_others(known: bool) -> None:
    them = Federated()

    def nothing(rank: int) -> Upload:
        return Upload({}, torch.zeros(2, 4))

    if known:
        them.sum(of_width(3))
    found = them.sum(lambda rank: (nothing if rank == 1 else of_width(3))(rank))
    assert all(isinstance(error, ConfigError) and "something else for others" in str(error) for error in found)
    assert them.sum(nothing, kind="nothing") == [{}] * RANKS
    only_rows = them.sum(lambda rank: Upload({}, torch.zeros(2, 4), rows={"r": torch.full((2,), rank)}), kind="rows")
    assert only_rows == [{"r": [0, 0, 1, 1, 2, 2]}] * RANKS


def test_a_gpu_without_memory_for_its_sum_says_so_before_the_others_wait_for_it() -> None:
    them = Federated(_OnGpu)
    with them.sums(VERDICT):
        found = them.sum(of_width(3))
    assert [type(error) for error in found] == [ElsewhereError, torch.OutOfMemoryError, ElsewhereError]
    server: Tensors = {"theta": torch.zeros(4)}
    with them.sums(VERDICT):
        found = them.do(lambda rank: them.exchanges[rank.index].compare(server, None))
    assert [type(error) for error in found] == [ElsewhereError, torch.OutOfMemoryError, ElsewhereError]


def test_of_several_errors_the_lowest_ranks_counts_and_a_stop_is_none() -> None:
    them, first, second = Federated(), RunError("of rank 1"), RunError("of rank 2")
    them.sum(of_width(3))
    found = them.sum(unless(1, first, unless(2, second, of_width(3))))
    assert found[1] is first and isinstance(found[2], ElsewhereError) and found[2].__cause__ is second
    found = them.sum(unless(0, InterruptedRunError(), of_width(3)))
    assert [type(error) for error in found] == [InterruptedRunError] * RANKS


def test_what_is_told_later_is_told_by_the_next_sum_whatever_it_is() -> None:
    them, error = Federated(), RunError("of the disk")

    def tell(rank: Ranks) -> None:
        if rank.index == 2:
            rank.tell_later(error)
            rank.tell_later(RunError("and another one"))

    them.sum(of_width(3))
    sums: Sequence[Callable[[], list[Any]]] = (
        lambda: them.sum(of_width(3)),
        lambda: them.do(lambda rank: rank.agree(None)),
        lambda: them.do(lambda rank: rank.add_together(lambda: torch.ones(2, dtype=torch.float64), 2)),
    )
    for again in sums:
        them.do(tell)
        found = again()
        assert found[2] is error
        assert [type(other) for other in found[:2]] == [ElsewhereError] * 2
        assert not any(isinstance(each, Exception) for each in again()), "it is told once"


def test_what_all_make_is_summed_unless_it_fails_on_one() -> None:
    them = Federated()
    with them.sums(2 + RANKS):
        made = them.do(lambda rank: rank.add_together(lambda: torch.tensor([1.0, rank.index]).double(), 2).tolist())
    assert made == [[3.0, 3.0]] * RANKS

    def failing(rank: Ranks) -> Tensor:
        if rank.index == 1:
            raise ValueError("of a batch")
        return torch.ones(2, dtype=torch.float64)

    with them.sums(2 + RANKS, VERDICT):
        found = them.do(lambda rank: rank.add_together(lambda: failing(rank), 2))
    assert [type(each) for each in found] == [ElsewhereError, ValueError, ElsewhereError]


@dataclass(frozen=True)
class _Exact(Ranks):
    """Looks at how long a rank that fails believes the others' buffers to be."""

    def add_together(self, make: Callable[[], Tensor], length: int) -> Tensor:
        made = make()
        assert made.shape == (length,) and made.dtype == torch.float64
        return made


def test_a_rank_that_fails_in_a_test_adds_as_many_zeros_as_others_have_numbers() -> None:
    draw = torch.Generator().manual_seed(0)
    alone, passes = _Exact(0, 1, CPU), Passes(torch.float32, 5)
    x, layer = torch.randn(12, 4, generator=draw), torch.nn.Linear(4, 3)
    classes = Samples(x, torch.randint(3, (12,), generator=draw))
    evaluate(layer, classes, 3, passes, alone)
    evaluate_clients(layer, classes, [np.arange(4), np.arange(4, 12)], passes, alone)
    outputs, _ = gathered(layer, Samples(x, torch.randn(12, 3, generator=draw)), np.arange(7), passes, alone)()
    assert outputs.shape == (7, 3)


def test_a_rank_on_its_own_fails_at_once() -> None:
    def fail() -> int:
        raise ValueError("now")

    with pytest.raises(ValueError, match="now"):
        Ranks(0, 1, CPU).told_later(fail, 3)


def test_a_rank_that_has_failed_does_no_more_until_it_is_told() -> None:
    them, error, done = Federated(), RunError("of the step"), list[int]()

    def work(rank: Ranks) -> Tensor:
        done.append(rank.index)
        return torch.ones(2, dtype=torch.float64)

    for meet in (lambda rank: rank.together(lambda: work(rank)), lambda rank: rank.add_together(lambda: work(rank), 2)):
        done.clear()
        them.ranks[1].tell_later(error)
        found = them.do(meet)
        assert sorted(done) == [0, 2]
        assert found[1] is error and [type(each) for each in (found[0], found[2])] == [ElsewhereError] * 2


def test_states_that_differ_count_before_what_comes_of_them() -> None:
    them = Federated()
    rank, exchange = them.ranks[0], them.exchanges[0]
    rank.tell_later(ValueError("of a step from a state of its own"))
    exchange.refuse_unlike()
    assert rank.late, "as long as nothing differs"
    unlike = cast(Any, exchange)
    unlike._same = False
    with pytest.raises(StatesDifferError):
        exchange.refuse_unlike()
    assert not rank.late


@pytest.mark.parametrize("text", ["", "ä" * 5000, "a file of no \udcff encoding"])
def test_a_text_of_any_length_is_shared(text: str) -> None:
    assert Federated().do(lambda rank: rank.share(text if rank.is_main else "")) == [text] * RANKS


def test_several_ranks_go_on_until_the_next_agreement() -> None:
    them = Federated()

    def failing(rank: Ranks) -> int:
        if rank.index == 0:
            raise ValueError("now")
        return rank.index

    with them.sums():
        assert them.do(lambda rank: rank.told_later(lambda: failing(rank), 5)) == [5, 1, 2]
    found = them.do(lambda rank: rank.together(lambda: 5))
    assert [type(each) for each in found] == [ValueError, ElsewhereError, ElsewhereError]
