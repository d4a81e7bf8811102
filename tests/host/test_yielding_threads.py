"""Threads of gloo do not take the core from the one they wait for."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist  # noqa: TID251
from launching import PATIENCE
from torch.distributed import distributed_c10d  # noqa: TID251

from fl_ddp.host.yielding_threads import yielding_threads

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="this system has no such policy")
TASKS = Path("/proc/self/task")


def policy_of_a_new_thread() -> int:
    found = list[int]()
    thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
    thread.start()
    thread.join()
    return found[0]


def test_threads_of_the_block_alone_yield() -> None:
    with yielding_threads():
        assert policy_of_a_new_thread() == os.SCHED_BATCH
    assert policy_of_a_new_thread() == os.sched_getscheduler(0) == os.SCHED_OTHER


def test_a_thread_is_scheduled_as_before_after_an_error_too() -> None:
    with pytest.raises(ValueError, match="of the block"), yielding_threads():
        raise ValueError("of the block")
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


def test_what_the_kernel_does_not_allow_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", denied)
    with yielding_threads():
        assert policy_of_a_new_thread() == os.SCHED_OTHER


def test_who_was_given_another_policy_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = list[int]()
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_IDLE)
    monkeypatch.setattr(os, "sched_setscheduler", lambda _, policy, __: told.append(policy))
    with yielding_threads():
        pass
    assert not told


def gloos_threads() -> set[int]:
    return {int(task.name) for task in TASKS.iterdir() if "gloo" in (task / "comm").read_text()}


def test_gloos_threads_yield() -> None:
    before = gloos_threads()
    with yielding_threads():
        group = distributed_c10d.ProcessGroupGloo(dist.HashStore(), 0, 1, timedelta(seconds=20))  # type: ignore[attr-defined]
    end = time.monotonic() + PATIENCE
    while len(threads := gloos_threads() - before) < 2:  # they name themselves once they run
        assert time.monotonic() < end
        time.sleep(0.01)
    assert {os.sched_getscheduler(thread) for thread in threads} == {os.SCHED_BATCH}
    del group
