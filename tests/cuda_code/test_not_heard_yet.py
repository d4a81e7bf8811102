"""What a round's sums come to is heard when the server's step is made, on a GPU: it may look at them, or write."""

from __future__ import annotations

from typing import Any

import device_cases
import pytest
from on_device import CPU, played
from pretend_device import DEVICE, on_host

from fl_ddp.errors import DivergedError
from fl_ddp.evaluation.models import Evaluation, Personal, Received
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Indices, Info, Tensors, Total
from fl_ddp.ranks.exchange import Summed
from fl_ddp.results.metrics import Record
from fl_ddp.tasks.lineup import Lineup


def test_what_is_wrong_with_a_client_is_told_though_it_is_heard_after_the_servers_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def errors(**settings: object) -> list[str]:
        found = []
        for device in (CPU, DEVICE):
            with pytest.raises(DivergedError) as error:
                played({**device_cases.SHORT, "clip_norm": None, **settings}, device)
            found.append(str(error.value))
        return found

    here, there = errors(lr=1e30)
    assert "client" in here and there == here
    assert errors(lr=1e30, personalise="all", eval_every=1) == [here, here]

    def stumbling(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        raise ValueError("a step that nothing finite reaches")

    def failing(self: Lineup, index: int) -> None:
        raise MemoryError("the next round has no room")

    monkeypatch.setattr(FedAvg, "server_update", stumbling)
    monkeypatch.setattr(Lineup, "prepare", failing)
    assert errors(lr=1e30) == [here, here]


def test_a_servers_step_may_look_at_what_is_not_heard_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    update = FedAvg.server_update

    def looking(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        seen.append((total.ratio("loss", "trained"), dict(total.numbers), on_host(total.rows["own_accuracy"]).tolist()))
        return update(self, server, total, info)

    monkeypatch.setattr(FedAvg, "server_update", looking)
    for device in (CPU, DEVICE):
        played({**device_cases.SHORT, "eval_every": 1, "rounds": 2}, device)
    assert seen[:2] == seen[2:]


def test_a_servers_step_may_write_into_rows_that_are_not_heard_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[list[float]] = []
    update, personal = FedAvg.server_update, Evaluation.personal

    def in_place(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        total.rows["own_accuracy"].fill_(2.0)
        return update(self, server, total, info)

    def hearing(self: Evaluation, ids: Indices, initial: Received, done: Summed, others: None) -> Personal:
        reported.append(done.reported["own_accuracy"].tolist())
        return personal(self, ids, initial, done, others)

    monkeypatch.setattr(FedAvg, "server_update", in_place)
    monkeypatch.setattr(Evaluation, "personal", hearing)
    for device in (CPU, DEVICE):
        played({**device_cases.SHORT, "eval_every": 1, "rounds": 1}, device)
    assert reported[0] == reported[1] and max(reported[0]) <= 1


def test_a_servers_step_may_write_into_sums_that_are_not_heard_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, float]] = []
    update, told_of = FedAvg.server_update, Evaluation.told_of

    def in_place(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
        after = update(self, server, total, info)
        for name, each in total.sums.items():
            each.fill_(-1.0 if name == "loss" else 2.0)
        return after

    def telling(self: Evaluation, record: Record, total: Total, *given: Any, **more: Any) -> Record:
        seen.append(dict(total.numbers))
        return told_of(self, record, total, *given, **more)

    monkeypatch.setattr(FedAvg, "server_update", in_place)
    monkeypatch.setattr(Evaluation, "told_of", telling)
    for device in (CPU, DEVICE):
        played({**device_cases.SHORT, "rounds": 1}, device)
    assert seen[0] == seen[1] and seen[0]["loss"] > 0 and seen[0]["weight"] > 2
