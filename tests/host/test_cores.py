"""Cores of a process."""

from __future__ import annotations

import os

import pytest

from fl_ddp.host.environment import usable_cores


def test_those_that_it_may_run_on_count() -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize(("of_machine", "cores"), [(6, 6), (None, 1)])
def test_a_system_that_does_not_tell_has_all(
    monkeypatch: pytest.MonkeyPatch, of_machine: int | None, cores: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: of_machine)
    assert usable_cores() == cores
