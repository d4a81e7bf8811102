"""Automatic lanes on a GPU are those that its memory holds, of any method; here the GPU is one of numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from method_settings import FOR_METHODS

import fl_ddp.building.lanes as building
from fl_ddp import federation
from fl_ddp.check.runs import SOLO
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.guards.room import Activations, lanes_with_room, need
from fl_ddp.ranks.cohort import auto_lanes
from fl_ddp.ranks.outputs import Passes

FASTEST = auto_lanes(60, "cuda", 2410)
MIB = 2**20
NORMED: dict[str, object] = dict(FOR_METHODS["FedBN"])
SAMPLE = Activations(kept=1000, passing=1000)


def lanes(
    memory: int, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, object], sample: Activations = SAMPLE
) -> int:
    """Of a run of 60 clients with small batches, on a GPU of so many bytes."""

    def found(**given: Any) -> int:
        return building.lanes_of(**given | {"device": torch.device("cuda"), "activations": sample})

    monkeypatch.setattr(building, "memory_of", lambda _: memory)
    monkeypatch.setattr(building, "room_on", lambda _: 2 * memory // 5)
    monkeypatch.setattr(federation, "lanes_of", found)
    given = {"model.hidden": 32, "clients": 60, "participation": 1, "compile": False, "figures": False, **changes}
    return federation.build_federation(from_mapping(given), SOLO).lanes


@pytest.mark.parametrize("method", registry.known("method"))
def test_a_large_gpu_has_room_for_the_fastest_lanes_with_any_method(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lanes(2**40, monkeypatch, {"method": method, **FOR_METHODS.get(method, {})}) == FASTEST


@pytest.mark.parametrize(
    ("given", "more"),
    [
        ({}, {"momentum": 0.9}),
        ({"momentum": 0.9}, {"optimizer.keep": True}),
        ({}, {"method": "Scaffold"}),
        ({}, {"method": "FedPAC"}),  # whose clients keep nothing, and the server all their heads
        ({}, {"compile": True}),
        ({"local_steps": 1}, {"batch_size": 24}),
        (NORMED, {"running_statistics": "local", "estimate_statistics": True}),
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_what_takes_more_of_a_small_one_leaves_room_for_fewer(
    given: dict[str, object], more: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 1 <= lanes(4 * MIB, monkeypatch, given | more) < lanes(4 * MIB, monkeypatch, given) < FASTEST


@pytest.mark.parametrize("at_once", [100, 1000])
@pytest.mark.parametrize("method", ["FedAvg", "Scaffold"])
def test_lanes_are_what_is_left_beside_samples_tests_and_clients_memory(
    method: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "passes_of", lambda _: Passes(torch.float32, at_once))
    samples, num_tests = 4 * 64 * 1797 + 8 * 1797, 360
    server, memory = {"theta": torch.zeros(2410)}, {"control": torch.zeros(2410)}
    if method == "Scaffold":
        server |= memory
    beside = samples + SAMPLE.passing * min(at_once, num_tests)
    due = need(server, 0, 10 * SAMPLE.kept, memory if method == "Scaffold" else {}, beside, recorded=False)
    share = 3 / 5 if method == "Scaffold" else 1
    for size in (2 * MIB, 4 * MIB, 5 * MIB):
        given = {"method": method, "local_steps": 1}
        assert lanes(size, monkeypatch, given) == lanes_with_room(FASTEST, due, int(share * size))


def test_a_batch_is_no_larger_than_the_largest_client(monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (lanes(4 * MIB, monkeypatch, {"local_steps": 1, "batch_size": size}) for size in (100, 10_000))
    assert 1 < few == many < FASTEST


def test_a_test_pass_takes_room_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    more = SAMPLE._replace(passing=2 * SAMPLE.passing)
    assert 1 <= lanes(4 * MIB, monkeypatch, {}, more) < lanes(4 * MIB, monkeypatch, {}, SAMPLE) < FASTEST


def test_what_a_wrong_method_begins_with_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(
        "from fl_ddp.api import FedAvg\n"
        "class Bad(FedAvg):\n"
        "    def init(self):\n"
        "        return {'model': self.model.init()}\n"
    )
    with pytest.raises(ConfigError, match="init of Bad: gives a state of model, without theta"):
        lanes(4 * MIB, monkeypatch, {"method": f"{file}:Bad"})
