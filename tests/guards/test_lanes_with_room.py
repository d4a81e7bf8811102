"""Automatic lanes on a GPU are those that its memory holds, of any method; here the GPU is one of numbers alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from method_settings import FOR_METHODS

import fl_ddp.building.lanes as building
from fl_ddp import federation
from fl_ddp.check.runs import SOLO
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.guards.room import Activations
from fl_ddp.ranks.cohort import auto_lanes

FASTEST = auto_lanes(60, "cuda", 2410)
MIB = 2**20
SAMPLE = Activations(kept=1000, passing=1000)


def lanes(
    memory: int, monkeypatch: pytest.MonkeyPatch, changes: Mapping[str, object], sample: Activations = SAMPLE
) -> int:
    """Of a run of 60 clients with small batches, on a GPU of so many bytes."""

    def found(*given: Any) -> int:
        parts = list(given)
        parts[-3], parts[-1] = sample, torch.device("cuda")
        return building.lanes_of(*parts)

    monkeypatch.setattr(building, "memory_of", lambda _: memory)
    monkeypatch.setattr(building, "room_on", lambda _: memory // 4)
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
        ({}, {"method": "FedFomo"}),
        ({}, {"compile": True}),
        ({"local_steps": 1}, {"batch_size": 400}),
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_what_takes_more_of_a_small_one_leaves_room_for_fewer(
    given: dict[str, object], more: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 1 <= lanes(4 * MIB, monkeypatch, given | more) < lanes(4 * MIB, monkeypatch, given) < FASTEST


def test_a_test_pass_takes_room_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    more = SAMPLE._replace(passing=2 * SAMPLE.passing)
    assert 1 <= lanes(4 * MIB, monkeypatch, {}, more) < lanes(4 * MIB, monkeypatch, {}, SAMPLE) < FASTEST
