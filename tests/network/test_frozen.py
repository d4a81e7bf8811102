"""Parameters that a module has frozen: nothing of the method's is theirs, and they stay as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from launching import one_thread
from torch import Tensor, nn

import fl_ddp

FEATURES = 6


class Frozen(nn.Module):
    """A body that stays as it is below a head that is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, FEATURES), nn.Linear(FEATURES, 10)
        self.body.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        head: Tensor = self.head(self.body(x.flatten(1)).relu())
        return head


@pytest.mark.parametrize("method", ["FedAvg", "FedCurv", "OnlineEWC"])
def test_what_is_frozen_is_neither_trained_nor_sent_nor_measured(method: str, tmp_path: Path) -> None:
    module = Frozen()
    before = {name: t.clone() for name, t in module.state_dict().items()}
    of_run: dict[str, Any] = {
        "clients": 3,
        "rounds": 2,
        "compile": False,
        "figures": False,
        "device": "cpu",
        "out": str(tmp_path),
    }
    with one_thread():
        result = fl_ddp.simulate(data="digits", model=module, method=method, **of_run)
    after = result.weights
    assert set(after) == set(before)
    for name, t in after.items():
        assert torch.equal(t, before[name]) == name.startswith("body."), name
    trained = 10 * FEATURES + 10
    vectors = {"FedAvg": 1, "FedCurv": 3, "OnlineEWC": 1}[method]
    numbers = 2  # of samples, and the loss
    assert result["traffic_up_bytes"] == 2 * 3 * 4 * (trained * vectors + numbers)
