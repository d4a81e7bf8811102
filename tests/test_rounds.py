"""What the round loop tells the parts of a run, and with which random numbers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from fl_ddp.check.runs import play
from fl_ddp.engine import group, seeds
from fl_ddp.engine.seeds import Keys
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Total
from fl_ddp.ranks.cohort import cohort


def infos(monkeypatch: pytest.MonkeyPatch, seed: int) -> list[Info]:
    """What the server's update is told in each of three rounds."""
    told: list[Info] = []
    update = FedAvg.server_update

    def noted(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        told.append(info)
        return update(self, server, total, info)

    with monkeypatch.context() as patch:
        patch.setattr(FedAvg, "server_update", noted)
        play({"seed": seed})
    return told


def test_a_server_update_is_told_its_round(monkeypatch: pytest.MonkeyPatch) -> None:
    told = infos(monkeypatch, seed=3)
    assert [info.index for info in told] == [0, 1, 2]
    assert [info.cohort.tolist() for info in told] == [cohort(3, index, np.arange(8), 6).tolist() for index in range(3)]
    assert {info.num_clients for info in told} == {8}
    other = infos(monkeypatch, seed=4)
    assert len({int(info.key) for info in told + other}) == 6


def test_no_two_things_of_a_run_are_drawn_by_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders, noise, labels of a Monte Carlo Fisher, cohorts, partition and own tests of two rounds without padding."""
    drawn: Counter[int] = Counter()
    keys = seeds.keys

    def noted(*words: int | npt.NDArray[np.integer]) -> Keys:
        found = keys(*words)
        drawn.update(found.ravel().tolist())
        return found

    monkeypatch.setattr(seeds, "keys", noted)
    monkeypatch.setattr(group, "keys", noted)
    play({"method": "FedCurv", "method.kind": "mc", "rounds": 2})
    assert len(drawn) > 1000
    assert [key for key, times in drawn.items() if times > 1] == []
