"""A checkpoint gets to the disk while the run goes on, and what comes of it is heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

import pytest
import torch
from launching import SMALL, checkpoints, numbers, resumed, simulated

from fl_ddp.engine.group import Group
from fl_ddp.errors import RunError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Tensors, Upload
from fl_ddp.results import checkpoint

commit = checkpoint.commit
RUN: Mapping[str, object] = {**SMALL, "checkpoint_every": 1, "keep_checkpoints": 9, "rounds": 4}
LONG = 20.0
"""Seconds after which what does not come is taken to be waited for."""


def begun(committer: checkpoint.Committer, run: Path, round: int, *before: Callable[[], None]) -> None:
    """Begin a checkpoint of a small state."""
    temporary = checkpoint.begin(run, round)
    checkpoint.write_server(temporary, {"theta": torch.full((3,), float(round))})
    committer.begin(temporary, {}, None, before)


def full() -> None:
    raise RunError("no space")


def test_nobody_waits_for_one_under_way_before_it_is_asked_for(tmp_path: Path) -> None:
    committer, goes_on = checkpoint.Committer(tmp_path, 2, -1), Event()
    begun(committer, tmp_path, 1, lambda: assert_set(goes_on))
    assert committer.newest == -1 and checkpoint.newest(tmp_path).checkpoint is None
    goes_on.set()
    committer.settle()
    found = checkpoint.newest(tmp_path).checkpoint
    assert committer.newest == 1 and found and found.round == 1
    committer.close()


def assert_set(event: Event) -> None:
    assert event.wait(LONG)


def test_what_goes_wrong_is_told_once_and_leaves_the_one_before(tmp_path: Path) -> None:
    committer = checkpoint.Committer(tmp_path, 2, -1)
    begun(committer, tmp_path, 1)
    committer.settle()
    begun(committer, tmp_path, 2, full)
    with pytest.raises(RunError, match="no space"):
        committer.settle()
    committer.settle()
    found = checkpoint.newest(tmp_path).checkpoint
    assert committer.newest == 1 and found and found.round == 1
    begun(committer, tmp_path, 3)
    committer.close()
    assert committer.newest == 3


def test_the_next_one_begins_when_the_one_before_is_over(tmp_path: Path) -> None:
    committer = checkpoint.Committer(tmp_path, 2, -1)
    begun(committer, tmp_path, 1, full)
    with pytest.raises(RunError, match="no space"):
        committer.begin(tmp_path, {}, None, [])
    committer.close()


def test_a_round_trains_while_the_one_before_gets_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained, usual = Event(), FedAvg.client_update

    def update(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        if group.round == 1:
            trained.set()
        return usual(self, group, server, memory)

    def slow(*given: object) -> Path:
        assert trained.wait(LONG)
        return commit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(FedAvg, "client_update", update)
    monkeypatch.setattr(checkpoint, "commit", slow)
    run = simulated(RUN, tmp_path)
    assert checkpoints(run) == [f"round_{i:06d}" for i in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("every", "fails", "saved"), [(1, 1, [2]), (1, 2, [1, 3]), (1, 4, [1, 2, 3, 4]), (2, 2, [3]), (9, 4, [4])]
)
def test_a_checkpoint_that_fails_ends_the_run_which_saves_what_is_finished(
    every: int, fails: int, saved: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is heard of in the round after it."""
    whole = simulated({**RUN, "name": "whole"}, tmp_path)

    def failing(*given: object) -> Path:
        temporary = given[1]
        if temporary.name == f".round_{fails:06d}.tmp" and not failed.is_set():  # type: ignore[attr-defined]
            failed.set()
            raise RunError(f"{temporary}: cannot be written (No space left on device)")
        return commit(*given)  # type: ignore[arg-type]

    failed = Event()
    with monkeypatch.context() as disk:
        disk.setattr(checkpoint, "commit", failing)
        with pytest.raises(RunError, match=rf"tmp: cannot be written .*; round {saved[-1]} is saved in "):
            simulated({**RUN, "checkpoint_every": every}, tmp_path)
    run = tmp_path / "run"
    assert checkpoints(run) == [f"round_{i:06d}" for i in saved]
    assert numbers(resumed(run)) == numbers(whole)


def test_a_disk_that_stays_full_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = simulated({**RUN, "name": "whole"}, tmp_path)

    def failing(*given: object) -> Path:
        if given[1].name > ".round_000001.tmp":  # type: ignore[attr-defined]
            full()
        return commit(*given)  # type: ignore[arg-type]

    with monkeypatch.context() as disk:
        disk.setattr(checkpoint, "commit", failing)
        with pytest.raises(RunError, match=r"no space; round 1 is saved in "):
            simulated(RUN, tmp_path)
    run = tmp_path / "run"
    assert checkpoints(run) == ["round_000001"]
    assert numbers(resumed(run)) == numbers(whole)
