"""Inputs normalised by a mean and a deviation that options give: as torchvision does it, and augmented before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, numbers, simulated
from torchvision.transforms.v2 import Normalize

from fl_ddp.config.command_line import from_file, from_mapping, parse
from fl_ddp.datasets.digits import Digits
from fl_ddp.datasets.npz import Npz
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.ranks.collectives import Ranks

RANDOM = np.random.default_rng(0)
MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)
IMAGES = {
    "x_train": RANDOM.integers(1, 256, (60, 3, 8, 8), np.uint8), "y_train": np.arange(60) % 3,
    "x_test": RANDOM.integers(1, 256, (12, 3, 8, 8), np.uint8), "y_test": np.arange(12) % 3,
}  # fmt: skip
NORMALISING = """
from fl_ddp.models.mlp import MLP

class Normalising(MLP):
    def forward(self, x):
        return super().forward((x - 0.5) / 0.25)
"""


def images(folder: Path) -> str:
    np.savez(folder / "images.npz", **IMAGES)  # type: ignore[arg-type]
    return str(folder / "images.npz")


@pytest.mark.parametrize(("mean", "deviation"), [(MEAN, DEVIATION), ((0.5,), (0.5,)), ((0.5,), DEVIATION)])
def test_pixels_and_features_are_torchvisions(
    tmp_path: Path, mean: tuple[float, ...], deviation: tuple[float, ...]
) -> None:
    config = {"data": images(tmp_path), "data.mean": mean, "data.deviation": deviation, "device": "cpu", "clients": 6}
    world = build_federation(from_mapping(config), Ranks(0, 1, torch.device("cpu"))).worlds.at(0)
    transform = Normalize(list(mean) * (3 // len(mean)), list(deviation) * (3 // len(deviation)))
    for samples, split in ((world.train, "x_train"), (world.tests[0].samples, "x_test")):
        expected = transform(torch.from_numpy(IMAGES[split]).float() / 255)
        assert torch.equal(samples.inputs(samples.x, torch.float32), expected)


def test_a_crop_is_padded_with_black_before_it_is_normalised(tmp_path: Path) -> None:
    """As in torchvision's usual order; the same as a model that normalises what it is given."""
    (tmp_path / "own.py").write_text(NORMALISING)
    shared: Mapping[str, object] = {**SMALL, "data": images(tmp_path), "clients": 4, "cohort": 3, "augment": ["crop"]}
    given = simulated({**shared, "data.mean": 0.5, "data.deviation": 0.25}, tmp_path / "given")
    own = simulated({**shared, "model": f"{tmp_path}/own.py:Normalising"}, tmp_path / "own")
    plain = simulated(shared, tmp_path / "plain")
    assert numbers(given) == numbers(own) != numbers(plain)


def test_options_and_yaml_give_one_number_or_a_list(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("data: CIFAR10\ndata.mean: 0.5\ndata.deviation: [0.2, 0.3, 0.4]\n")
    stored = from_file(tmp_path / "run.yaml").data.init_args
    assert (stored["mean"], stored["deviation"]) == ((0.5,), (0.2, 0.3, 0.4))
    typed = parse(["--data=CIFAR10", "--data.mean", "0.5", "--data.deviation=0.2,0.3,0.4"]).data.init_args
    assert typed == stored


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": (0.5,)}, "--data.deviation: is missing beside --data.mean"),
        ({"deviation": (0.5,)}, "--data.mean: is missing beside --data.deviation"),
        ({"mean": (0.5,), "deviation": (0.0,)}, "--data.deviation: 0.0 is impossible; accepted: numbers above 0"),
        ({"mean": (float("nan"),), "deviation": (1.0,)}, "--data.mean: nan is impossible; accepted: finite numbers"),
        (
            {"mean": (0.5,), "deviation": (0.5,), "normalize": True},
            "--data.normalize: true takes the training set's mean and deviation, --data.mean and --data.deviation give "
            "others; accepted: false, or neither of them",
        ),
        (
            {"mean": MEAN, "deviation": (0.5,)},
            "--data.mean: 3 numbers for samples of 1 channel; accepted: one number, or one for each channel",
        ),
    ],
)
def test_moments_that_cannot_be_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{re.escape(message)}$"):
        Digits(**options).load()  # type: ignore[arg-type]


def test_each_channel_has_a_number(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--data\.deviation: 2 numbers for samples of 3 channels; accepted: one"):
        Npz(path=images(tmp_path), mean=(0.5,), deviation=(0.5, 0.5)).load()
