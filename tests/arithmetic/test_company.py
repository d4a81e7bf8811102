"""What a run does for its functions: a client's bits are the same in any company, on a CPU without a compiler, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import own_models
import pytest
import torch
from launching import SMALL, simulated
from safetensors.torch import load_file


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "MOON", "model.hidden": 10},
        {"model": f"{own_models.__file__}:Silu"},
        {"model": f"{own_models.__file__}:Silu", "method": "FedFomo", "local_test": 0.3},
    ],
    ids=["moon", "silu", "silu_of_clients"],
)
def test_a_run_has_the_same_bits_in_any_company(settings: Mapping[str, object], tmp_path: Path) -> None:
    given = {key: value for key, value in SMALL.items() if key != "model.hidden"} | {"batch_size": 13, "clients": 13}
    runs = [simulated({**given, **settings, "lanes": lanes}, tmp_path / str(lanes)) for lanes in (1, 3)]
    one, other = (load_file(run / "model.safetensors") for run in runs)
    assert all(torch.equal(one[name], other[name]) for name in one)
