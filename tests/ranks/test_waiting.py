"""A rank that waits for a sum hears signals, sees lost ranks and ends at its limit."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist  # noqa: TID251
from launching import PATIENCE, SUPPORT

from fl_ddp.errors import InterruptedRunError, RankLostError
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks import waiting
from fl_ddp.ranks.collectives import Lifeline, Ranks
from fl_ddp.ranks.waiting import Question, all_have, on_gpu, on_host, wait

SOON = 20.0
"""Seconds in which a waiting rank must know; 30 are promised, and the machine may be busy."""


class Pairs:
    """Pairs of ranks of which one waits for the other, all started by one process."""

    def __init__(self, server: subprocess.Popen[str], folder: Path) -> None:
        self._server, self._folder = server, folder

    @contextmanager
    def waiting(self, kind: str, limit: float) -> Iterator[Pair]:
        """Rank 0 waits in a sum; rank 1 has not come there."""
        assert self._server.stdin is not None and self._server.stdout is not None
        name = f"{kind}{len(list(self._folder.iterdir()))}"
        self._server.stdin.write(f"{name} {kind} {limit}\n")
        self._server.stdin.flush()
        waits, other = map(int, self._server.stdout.readline().split())
        pair = Pair(waits, other, self._folder / name)
        try:
            pair.says("waits", PATIENCE)
            yield pair
        finally:
            for pid in (waits, other):
                os.kill(pid, signal.SIGKILL)


class Pair(NamedTuple):
    """Two ranks' processes, and where they write."""

    waits: int
    other: int
    path: Path

    def says(self, words: str, seconds: float = SOON) -> None:
        """Wait until rank 0 has written something, within the promised time."""
        end = time.monotonic() + seconds
        while words not in (said := self.said()):
            assert time.monotonic() < end and (not said.startswith("waits\n") or said == "waits\n"), said
            time.sleep(0.02)

    def said(self) -> str:
        """What it has written so far."""
        file = self.path.with_suffix(".0")
        return file.read_text() if file.exists() else ""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    folder, environment = tmp_path_factory.mktemp("pairs"), {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, str(SUPPORT / "launchers" / "waiting_ranks.py")],
        cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as server:  # fmt: skip
        yield Pairs(server, folder)


@pytest.mark.parametrize("kind", ["gloo", "nccl"])
def test_a_killed_rank_is_gone_at_once_whatever_the_limit(pairs: Pairs, kind: str) -> None:
    with pairs.waiting(kind, 600) as pair:
        os.kill(pair.other, signal.SIGKILL)
        pair.says("lost: another rank is gone")


@pytest.mark.parametrize("kind", ["gloo", "nccl"])
def test_a_silent_rank_is_lost_at_the_limit_whose_option_is_named(pairs: Pairs, kind: str) -> None:
    with pairs.waiting(kind, 0.5) as pair:
        os.kill(pair.other, signal.SIGSTOP)
        pair.says("lost: another rank is silent for longer than --rank_timeout 0.5 seconds")


def test_a_stop_is_heard_while_waiting_and_the_sum_still_comes(pairs: Pairs) -> None:
    with pairs.waiting("gloo", 600) as pair:
        os.kill(pair.waits, signal.SIGTERM)
        time.sleep(0.5)
        assert pair.said() == "waits\n"
        pair.path.with_suffix(".go").touch()
        pair.says("over True")


def test_before_the_first_round_a_stop_ends_a_waiting_rank_at_once(pairs: Pairs) -> None:
    with pairs.waiting("first", 600) as pair:
        os.kill(pair.waits, signal.SIGTERM)
        pair.says("fl_ddp: stopped before a round was finished")


def test_ranks_that_leave_in_order_lose_nobody(pairs: Pairs) -> None:
    with pairs.waiting("orderly", 600) as pair:
        time.sleep(5.5)  # longer than they had to connect
        pair.path.with_suffix(".go").touch()
        pair.says("over False, broken False")


def soon(work: Callable[[], object]) -> object:
    """What work gives, or the error it ends with, in time; in a thread, since a test cannot end torch's waiting."""
    found: list[object] = []

    def hear() -> None:
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=hear, daemon=True)
    thread.start()
    thread.join(SOON)
    assert found, "it still waits"
    return found[0]


HOLDS_A_STORE = """
import signal, torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
signal.pause()
"""


def test_whoever_holds_the_store_may_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a first rank's machine does that is suspended; torch's store would wait for its answer without end."""
    monkeypatch.setattr(waiting, "_ANSWER", SOON / 4)  # of a busy machine
    with subprocess.Popen([sys.executable, "-c", HOLDS_A_STORE], text=True, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        store = dist.TCPStore("127.0.0.1", int(holder.stdout.readline()), is_master=False)  # type: ignore[attr-defined]
        ranks = Ranks(1, 2, torch.device("cpu"), store)
        lost = Question(lambda: store.check(["lost"]), gone=True, silent=False)
        assert ranks.first_to_say() and not ranks.first_to_say() and not lost.answer()
        holder.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED)  # on a busy machine it goes on for a while
        try:
            assert soon(ranks.first_to_say) is True
            assert soon(lost.answer) is soon(lost.answer) is False
        finally:
            holder.kill()
    assert soon(ranks.first_to_say) is True
    end = time.monotonic() + SOON
    while not lost.answer():  # the question that waits hears of its end
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_answer_is_what_was_asked_for() -> None:
    for said in (True, False):
        question = Question(lambda: said, gone=not said, silent=not said)  # noqa: B023
        assert question.answer() is question.answer() is said


def test_a_limit_holds_beside_a_store_that_stands_still() -> None:
    """Its silence is part of the time, and one thread waits for it, however long."""
    asked = list[None]()

    def ask() -> bool:
        asked.append(None)
        threading.Event().wait()
        return True

    lost, start = Question(ask, gone=True, silent=False), time.monotonic()
    with pytest.raises(RankLostError, match="silent for longer than --rank_timeout 3 seconds"):
        wait(lambda seconds: threading.Event().wait(seconds), 3, lost.answer)
    assert len(asked) == 1 and time.monotonic() - start < 3 + SOON / 2


def test_a_rank_whose_neighbour_does_not_come_does_not_wait_for_it_for_ever() -> None:
    store = dist.HashStore()  # type: ignore[attr-defined]
    assert isinstance(soon(lambda: Lifeline(0, 2, store, 1.0)), RuntimeError)


class Sum:
    """A sum under way that ends as it is told to."""

    def __init__(self, ends: Sequence[bool] = (), error: str | None = None) -> None:
        self.ends, self.error, self.waits = list(ends), error, list[timedelta]()

    def is_completed(self) -> bool:
        return self.ends.pop(0) if self.ends else True

    def wait(self, timeout: timedelta = timedelta(days=1)) -> bool:
        self.waits.append(timeout)
        if self.error:
            raise RuntimeError(self.error)
        return True


class Place:
    """A place in a GPU's queue that is reached after so many looks; an error instead, if there is one."""

    def __init__(self, looks: float, error: Exception | None = None) -> None:
        self.looks, self.error = looks, error

    def query(self) -> bool:
        if self.error:
            raise self.error
        self.looks -= 1
        return self.looks < 0


class Counts:
    """A board of a process of its own."""

    def __init__(self) -> None:
        self._of: dict[str, int] = {}
        self._alone = threading.Lock()

    def add(self, key: str, amount: int) -> int:
        with self._alone:
            self._of[key] = self._of.get(key, 0) + amount
            return self._of[key]


@pytest.mark.parametrize("having", [(True, True, True), (True, False, True), (False, False, False)])
def test_all_ranks_hear_whether_each_has_a_gpu(having: tuple[bool, ...]) -> None:
    """NCCL and gloo do not find each other: a rank whose options are wrong asks for no GPU."""
    board = Counts()

    def late(rank: int) -> bool:
        time.sleep(0.05 * rank)
        return all_have(board, len(having), having[rank], 10, lambda: None)

    with ThreadPoolExecutor(len(having)) as pool:
        assert list(pool.map(late, range(len(having)))) == [all(having)] * len(having)


def test_ranks_that_do_not_come_are_counted() -> None:
    with pytest.raises(RuntimeError, match=r"1 of 2 have come in 0\.1 seconds"):
        all_have(Counts(), 2, True, 0.1, lambda: None)


def test_a_stop_is_heard_while_others_are_waited_for() -> None:
    stop, start = StopRequest(owns_process=False), time.monotonic()
    threading.Timer(0.2, stop._receive, (signal.SIGINT, None)).start()
    with pytest.raises(InterruptedRunError, match="stopped before a round was finished"):
        all_have(Counts(), 2, True, 60.0, stop.check)
    assert time.monotonic() - start < 30


def test_the_newest_sums_of_gloo_outlive_their_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of gloo's would ask Python for their tensors while it ends, as it did in one of ten scripts."""
    sums = [Sum() for _ in range(4)]
    left = [weakref.ref(each) for each in sums]
    monkeypatch.setattr(dist, "all_reduce", lambda _, **__: sums.pop(0))
    while sums:
        Ranks(0, 2, torch.device("cpu")).add(torch.zeros(1))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    Ranks(0, 2, torch.device("cpu")).close()
    waiting._newest.clear()  # as Python does with all that a module has, when it ends
    gc.collect()
    assert [each() is not None for each in left] == [False, False, True, True]


def test_a_sum_of_gloo_that_is_over_is_told_at_once_and_a_failed_one_raises() -> None:
    late = Sum([False, False], "Operation timed out!")
    assert not on_host(late)(0.1) and late.waits == [timedelta(seconds=0.1)]
    assert on_host(Sum([True]))(0.1)
    with pytest.raises(RuntimeError, match="Connection closed"):
        on_host(Sum([False, True], "Connection closed by peer"))(0.1)


def test_a_sum_on_a_gpu_is_over_when_its_queue_has_come_there() -> None:
    assert on_gpu(Sum(), Place(3))(60)
    assert not on_gpu(Sum([False]), Place(float("inf")))(0.01)


def test_a_sum_on_a_gpu_that_never_ends_ends_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "TURN", 0.02)
    start = time.monotonic()
    with pytest.raises(RankLostError, match="--rank_timeout"):
        wait(on_gpu(Sum([False] * 10**4), Place(float("inf"))), 0.1, lambda: False)
    assert time.monotonic() - start < 8
    looks = iter([False, False, True])
    with pytest.raises(RankLostError, match="another rank is gone"):
        wait(on_gpu(Sum([False] * 10**4), Place(float("inf"))), 600, lambda: next(looks))


def test_a_communicator_that_has_failed_is_a_lost_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_BROKEN_AFTER", 0.05)
    monkeypatch.setattr(waiting, "TURN", 0.02)
    with pytest.raises(RankLostError, match="another rank is gone"):
        wait(on_gpu(Sum(), Place(float("inf"))), 600, lambda: False)


def test_time_in_which_this_process_was_stopped_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 0.2, 10_000.0, 10_000.2])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    over = iter([False, False, False, True])
    wait(lambda _: next(over), 60, lambda: False)


def test_the_gpus_own_error_is_no_lost_rank() -> None:
    broken = Place(0, torch.AcceleratorError("CUDA error: an illegal memory access was encountered"))
    with pytest.raises(torch.AcceleratorError):
        wait(on_gpu(Sum(), broken), 600, lambda: False)
