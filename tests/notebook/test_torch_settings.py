"""What a notebook may have set of torch changes neither a run nor what is loaded of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from launching import SMALL, numbers, simulated

from fl_ddp import load, simulate
from fl_ddp.methods.fedala import FedALA
from fl_ddp.protocol import Tensors


@dataclass(frozen=True)
class Counts(FedALA):
    """Has a number of its own in the type that torch takes where none is said."""

    def init(self) -> Tensors:
        return super().init() | {"counted": torch.zeros(3)}


@contextmanager
def of_doubles() -> Iterator[None]:
    """As a notebook begins that reckons in float64."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(SMALL, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize(
    "setting",
    [of_doubles(), torch.device("meta"), torch.inference_mode(), torch.no_grad()],
    ids=["float64", "device", "inference", "no_grad"],
)
def test_a_run_has_the_same_bits(setting: AbstractContextManager[object], plain: Path, tmp_path: Path) -> None:
    with setting:
        before = torch.get_default_dtype(), torch.get_default_device()
        result = simulate({**SMALL, "out": str(tmp_path)})
        weights = load(plain).weights_after(2)
        assert (torch.get_default_dtype(), torch.get_default_device()) == before
    assert numbers(Path(str(result["folder"]))) == numbers(plain)
    assert all(t.dtype == torch.float32 and t.device.type == "cpu" for t in weights.values())


@pytest.mark.parametrize("setting", [of_doubles(), torch.device("meta")], ids=["float64", "device"])
def test_what_a_method_makes_is_loaded(setting: AbstractContextManager[object], tmp_path: Path) -> None:
    with setting:
        settings = {key: value for key, value in SMALL.items() if key != "cohort"}
        run = Path(str(simulate({**settings, "cohort": 1, "rounds": 1, "out": str(tmp_path)}, method=Counts)["folder"]))
        loaded = load(run)
        models = [loaded.weights_after(0), loaded.weights_after(1), *(loaded.own_weights(each) for each in range(12))]
        module = loaded.model
    assert all(t.dtype == torch.float32 and t.device.type == "cpu" for each in models for t in each.values())
    assert all(p.dtype == torch.float32 and p.device.type == "cpu" for p in module.parameters())
