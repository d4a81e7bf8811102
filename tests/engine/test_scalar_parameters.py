"""Parameters that are numbers [], a scale of logits, say: they train as those of one number [1] do, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import SMALL, numbers, simulated

MODEL = """
import torch
from torch import nn

from fl_ddp.models.mlp import MLP


class Scaled(MLP):
    shape = ()

    def __init__(self, *, in_shape, num_classes):
        super().__init__(in_shape=in_shape, num_classes=num_classes, hidden=16)
        self.scale = nn.Parameter(torch.full(self.shape, 2.0))

    def forward(self, x):
        features, logits = super().forward(x)
        return features, self.scale * logits


class OfOne(Scaled):
    shape = (1,)
"""


@pytest.mark.parametrize("method", ["FedCurv", "FedCL"])
def test_a_number_trains_as_a_vector_of_one(tmp_path: Path, method: str) -> None:
    file = tmp_path / f"scaled_{method}.py"
    file.write_text(MODEL)
    small = {key: value for key, value in SMALL.items() if key != "model.hidden"} | {"method": method, "rounds": 2}
    found = [numbers(simulated({**small, "model": f"{file}:{name}"}, tmp_path / name)) for name in ("Scaled", "OfOne")]
    assert found[0] == found[1]
