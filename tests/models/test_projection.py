"""MOON's projection head, between any of the package's models and its classifier."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from launching import simulated
from torch import nn

from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.models.layers import Classifier
from fl_ddp.network.flat_model import FlatModel


def made(**options: object) -> Classifier:
    model = registry.build(from_mapping({"model": options}).model, in_shape=(3, 32, 32), num_classes=10)
    assert isinstance(model, Classifier)
    return model


def test_it_is_moons_network() -> None:
    """F -> F -> 256 -> C, with ReLU in between: for t-CNN 512 * 512 + 512 and 512 * 256 + 256 in place of 512 * 10."""
    plain, projected = made(name="FedKACNN"), made(name="FedKACNN", projection=256)
    number = [sum(p.numel() for p in model.parameters()) for model in (plain, projected)]
    assert number[1] - number[0] == 512 * 512 + 512 + 512 * 256 + 256 + 256 * 10 - 512 * 10
    x = torch.rand(2, 3, 32, 32)
    features, logits = projected(x)
    assert isinstance(projected.body, nn.Sequential)
    body, hidden, _, out = projected.body
    assert torch.equal(features, out(torch.relu(hidden(body(x)))))
    assert torch.equal(logits, projected.head(features)) and features.shape == (2, 256)


def test_methods_look_at_the_projection_and_the_classifier_is_what_is_behind_it() -> None:
    flat = FlatModel(made(name="FedKACNN", projection=256), 10, torch.zeros(1, 3, 32, 32))
    assert flat.num_features == 256
    assert sum(flat.take(flat.init(), flat.head).shape) == 256 * 10 + 10


def test_a_model_whose_features_are_not_known_has_none() -> None:
    with pytest.raises(ConfigError, match=r"--model\.projection: 8, but the features of Linear are its own affair"):
        registry.any_model(nn.Linear(2, 3), projection=8)


def test_moon_trains_with_it(tmp_path: Path) -> None:
    tiny: dict[str, object] = {
        "clients": 3,
        "rounds": 2,
        "compile": False,
        "figures": False,
        "method": "MOON",
        "model.hidden": 8,
    }
    folder = simulated({**tiny, "model.projection": 4, "name": "run"}, tmp_path)
    assert (folder / "model.safetensors").is_file()
