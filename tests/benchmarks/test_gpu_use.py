"""What a GPU did, by what a trace has of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import device_cases
import gpu_use
import pretend_device
import pytest
from gpu_use import SHORTEST, Busy, Gap, Use, lines, use_of
from pretend_device import DEVICE, pretending

from fl_ddp.check.runs import SETTINGS
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Tensors, Upload
from fl_ddp.ranks.collectives import Ranks


def test_kernels_are_counted_by_name_and_the_longest_is_first() -> None:
    found = use_of([Busy(0, 2, "add"), Busy(2, 30, "product"), Busy(32, 3, "add")])
    assert found == Use(35, 0, [("product", 1, 30), ("add", 2, 5)], [])


def test_what_overlaps_is_busy_once() -> None:
    """A long product beside which something is copied, and what begins before both have ended."""
    found = use_of([Busy(0, 100, "product"), Busy(10, 20, "copy"), Busy(90, 40, "add"), Busy(150, 10, "add")])
    assert (found.span, found.idle) == (160, 20)
    assert found.gaps == [Gap(20, "add", "add")]


def test_gaps_are_told_by_what_is_around_them_the_longest_first() -> None:
    later = 10 + SHORTEST
    given = [Busy(later + 5 + 40, 1, "c"), Busy(0, 10, "a"), Busy(later, 5, "b")]
    found = use_of(given)
    assert found.gaps == [Gap(40, "b", "c"), Gap(SHORTEST, "a", "b")]
    assert found.idle == SHORTEST + 40
    assert use_of([Busy(0, 10, "a"), Busy(later - 1, 5, "b")]).gaps == []


def test_a_machine_without_a_gpu_has_none_of_it() -> None:
    assert use_of([]) == Use(0, 0, [], [])


def test_times_are_told_by_the_round() -> None:
    use = use_of([Busy(0, 400, "product"), Busy(600, 400, "product")])
    told = [*lines({"rounds_between_tests": 4.0}, use, 1)]
    assert told[1].split() == ["us", "a", "round", "times", "kernel"]
    assert told[2].split() == ["200.0", "0.5", "product"]
    assert told[-1].split() == ["200.0", "product", "->", "product"]


@pretend_device.needed
def test_as_many_rounds_are_trained_in_the_trace_as_it_is_said_to_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each trains the first group of the next, and the last one of a run none."""
    trained: list[int] = []
    seen: list[int] = []
    train, taken = FedAvg.client_update, gpu_use.taken

    def training(self: FedAvg, group: Group, server: Tensors, memory: Tensors) -> Upload:
        trained.append(group.round)
        return train(self, group, server, memory)

    def traced(rounds: Iterator[int], count: int, folder: Path) -> Use:
        trained.clear()
        taken(rounds, count)
        seen.extend(trained)
        return use_of([])

    monkeypatch.setattr(FedAvg, "client_update", training)
    monkeypatch.setattr(gpu_use, "traced", traced)
    rounds = gpu_use.rounds_for(4, 2)
    of_run = {"lanes": 4, "local_test": 0, "eval_every": 2, "rounds": rounds, "out": str(tmp_path), "name": "run"}
    with pretending():
        config = from_mapping({**SETTINGS, **device_cases.SHORT, **of_run})
        gpu_use.measure(config, Ranks(0, 1, DEVICE), 4, tmp_path)
    assert len(seen) == 2


@pytest.mark.slow
def test_it_runs_without_a_gpu(tmp_path: Path) -> None:
    results = tmp_path / "use.json"
    command = [sys.executable, str(gpu_use.__file__), "--smoke", "--device=cpu", f"--results={results}"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "milliseconds a round" in ended.stdout and results.is_file()
