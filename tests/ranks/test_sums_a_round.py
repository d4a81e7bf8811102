"""What two ranks say to each other in a round, and that what fails on one of them ends both."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from launching import SMALL, checkpoints, failed, one_thread
from torch import Tensor

from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import RunError
from fl_ddp.federation import build_federation
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks.collectives import Common, Offer, Ranks
from fl_ddp.records import Records
from fl_ddp.run_tables import RunTables
from fl_ddp.simulation import Simulation


@dataclass(frozen=True)
class FirstOfTwo(Ranks):
    """Rank 0 of two, of which the other one adds nothing, and has the same state.

    Attributes:
        lengths: of its sums.
    """

    lengths: list[int] = field(default_factory=list)

    def add(self, buffer: Tensor) -> Tensor:
        self.lengths.append(len(buffer))
        return buffer

    def agree(self, error: Exception | None, form: int = 0) -> bool:
        return super().agree(error, form) or True

    def add_common(self, offer: Offer) -> Common:
        common = super().add_common(offer)
        return common._replace(same=common.same | True)


def sums_of_rounds(out: Path, settings: Mapping[str, object]) -> list[int]:
    """How many sums rank 0 of two has in each round."""
    config, ranks = from_mapping({**SMALL, **settings, "out": str(out)}), FirstOfTwo(0, 2, torch.device("cpu"))
    with one_thread():
        federation = build_federation(config, ranks)
        records = Records(config, ranks, federation, ())
        try:
            simulation, found = Simulation(config, ranks, StopRequest(), federation, records), []
            ranks.lengths.clear()
            for _ in simulation.rounds():
                found.append(len(ranks.lengths))
                ranks.lengths.clear()
        finally:
            records.release()
    return found


def test_a_round_is_one_sum_and_so_is_its_evaluation(tmp_path: Path) -> None:
    given = {"rounds": 7, "eval_every": 3, "checkpoint_every": 6}
    plain, tested = 1 + 1, 1 + 2  # behind the sum: an agreement on the state; the test's sum, and that it drew nothing
    anew, saved = 1, 2  # what is summed for the first time is agreed upon; states are compared and a file is begun
    expected = [plain + anew, plain, tested + anew, plain, plain, tested + saved]
    assert sums_of_rounds(tmp_path, given)[:6] == expected


def test_clients_that_remember_cost_two_more_as_a_checkpoint_is_written(tmp_path: Path) -> None:
    given = {"rounds": 4, "eval_every": 4, "checkpoint_every": 2}
    plain, scaffold = (sums_of_rounds(tmp_path / name, {**given, "method": name}) for name in ("FedAvg", "Scaffold"))
    assert [more - less for less, more in zip(plain[:3], scaffold[:3], strict=True)] == [0, 2, 0]


def test_own_tests_of_all_tasks_are_a_sum_for_each_or_one_of_what_clients_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = {"stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2, "rounds": 6}
    given = {**tasks, "partition": "IID", "local_test": 0.3, "checkpoint_every": 9, "eval_every": 9}
    with_them = {name: sums_of_rounds(tmp_path / name, {**given, "method": name}) for name in ("FedAvg", "FedPer")}
    monkeypatch.setattr(Simulation, "_own_tasks", lambda *_: ())
    for name, found in with_them.items():
        without = sums_of_rounds(tmp_path / f"{name} without", {**given, "method": name})
        more = [a - b for a, b in zip(found, without, strict=True)]
        received = [0, 3, 0, 4, 0, 5]  # that all have the samples, that the model drew nothing, a sum a task
        assert more == (received if name == "FedAvg" else [0, 3, 0, 3, 0, 3]), "a form is agreed on"


def test_a_last_evaluation_that_cannot_be_written_is_told_to_all_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Exception | None] = []

    class Telling(FirstOfTwo):
        def agree(self, error: Exception | None, form: int = 0) -> bool:
            told.append(error)
            return super().agree(error, form)

    def full(*_: object) -> None:
        raise RunError("the disk is full")

    monkeypatch.setattr(RunTables, "again", full)
    config, ranks = from_mapping({**SMALL, "eval_every": 9, "out": str(tmp_path)}), Telling(0, 2, torch.device("cpu"))
    with one_thread():
        federation = build_federation(config, ranks)
        records = Records(config, ranks, federation, [lambda record: record.round == 2])
        try:
            with pytest.raises(RunError, match="the disk is full"):
                deque(Simulation(config, ranks, StopRequest(), federation, records).rounds())
        finally:
            records.release()
    assert isinstance(told[-1], RunError)


FAILS = """
import os
from dataclasses import dataclass

import torch

from fl_ddp.api import FedAvg

RANK = os.environ.get("RANK", "0")


class Net(torch.nn.Sequential):
    \"\"\"Draws, or fails, on rank 0, which has all of the test samples, from its third round on.\"\"\"

    def __init__(self, num_classes: int = 10) -> None:
        layers = torch.nn.Flatten(), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, num_classes)
        super().__init__(*layers)

    def forward(self, x):
        if RANK == "0" and HELD.exists() and not self.training:
            if MOMENT == "evaluation":
                x = x + 0 * torch.rand(1)
            if MOMENT == "test":
                raise ValueError("in a test")
        return super().forward(x)


@dataclass(frozen=True)
class Fails(FedAvg):
    \"\"\"Fails on rank 1 in its third round.\"\"\"

    def client_update(self, group, received, memory):
        if group.round == 2:
            HELD.touch()
            if MOMENT == "client_update" and RANK == "1":
                raise ValueError("in local training")
        return super().client_update(group, received, memory)

    def server_update(self, server, total, info):
        if info.index == 2 and MOMENT == "server_update" and RANK == "1":
            raise ValueError("in the server's step")
        return super().server_update(server, total, info)
"""


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize(
    ("moment", "words", "more"),
    [
        ("client_update", "ValueError: in local training", {}),
        ("server_update", "ValueError: in the server's step", {}),
        ("server_update", "ValueError: in the server's step", {"running_statistics": "local", "local_test": 0.3}),
        ("evaluation", "forward of .*Net draws from torch's global generator", {}),
        ("test", "ValueError: in a test", {}),
    ],
)
def test_what_fails_on_one_rank_ends_both_with_its_words(
    tmp_path: Path, moment: str, words: str, more: Mapping[str, object], every: int
) -> None:
    file = tmp_path / "fails.py"
    head = f"from pathlib import Path\n\nMOMENT, HELD = {moment!r}, Path({str(tmp_path / 'held')!r})\n"
    file.write_text(head + FAILS)
    own = {key: value for key, value in SMALL.items() if key != "model.hidden"}
    settings = {**own, "method": f"{file}:Fails", "model": f"{file}:Net", "eval_every": every, "rounds": 6, **more}
    ended = failed({**settings, "out": tmp_path}, 2, tmp_path)
    (told,) = ended.ours
    assert re.search(words, told), told
    done = 3 if moment in ("evaluation", "test") and every == 2 else 2  # which tests the fourth round first
    assert checkpoints(tmp_path / "run")[-1] == f"round_{done:06d}"
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert rows[-1].startswith(f"{done},"), "what failed is in no file"
    assert re.search(words, (tmp_path / "run" / "failure.txt").read_text())
    assert not (tmp_path / "run" / "summary.json").exists()
