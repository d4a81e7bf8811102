"""What ranks are told who do not find each other."""

from __future__ import annotations

import os

import pytest
import torch.distributed as dist  # noqa: TID251

from fl_ddp.errors import RunError
from fl_ddp.ranks import meeting
from fl_ddp.ranks.meeting import join


def test_a_backend_that_cannot_begin_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    policies = list[int]()

    def fail(*_: object, **__: object) -> None:
        policies.append(os.sched_getscheduler(0))
        raise RuntimeError("NCCL error: invalid usage\nDuplicate GPU detected")

    for key, value in {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")  # as torchrun does
    monkeypatch.setattr(meeting, "_launchers_store", dist.HashStore)  # type: ignore[attr-defined]
    monkeypatch.setattr(meeting, "all_have", lambda *_: False)  # the other rank is not there
    monkeypatch.setattr(dist, "init_process_group", fail)
    with pytest.raises(
        RunError, match=r"^the ranks do not find each other \(RuntimeError: NCCL error: invalid usage\)$"
    ):
        join("cpu")
    assert os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0", "NCCL's own watchdog would end the process"
    assert policies == [os.SCHED_BATCH], "threads of the backend take the core from each other"
