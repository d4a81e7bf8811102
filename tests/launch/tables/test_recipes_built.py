"""The parts that a recipe's rows name go together: the federation of each kind of row is built, of made-up pixels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from fl_ddp.datasets.cifar import CIFAR10
from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.image_folder import ImageFolder
from fl_ddp.datasets.mnist import MNIST
from fl_ddp.federation import build_federation
from fl_ddp.protocol import Indices, Inputs
from fl_ddp.ranks.collectives import Ranks
from launch.tables.rows import Row
from launch.tables.seeded_row import seeded_rows
from launch.tables.yaml_file import load_table, table_names

MADE_UP = {
    "MNIST": ((1, 28, 28), 10, 60_000),
    "EMNIST": ((1, 28, 28), 47, 47 * 240),
    "CIFAR10": ((3, 32, 32), 10, 50_000),
    "CIFAR100": ((3, 32, 32), 100, 10_000),
    "ImageFolder": ((3, 64, 64), 200, 4_000),
}
"""Shape, classes and training images, a fifth as many for testing; as many as there are where a recipe counts them."""

OF_MNIST = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
"""Training images of each digit, among which FedCurv's 192 blocks of 306 fit."""


@cache
def made_up(name: str) -> Arrays:
    shape, classes, n = MADE_UP[name]

    def part(size: int) -> tuple[Inputs, Indices]:
        return np.resize(np.arange(251, dtype=np.uint8), (size, *shape)), np.arange(size) % classes

    x, y = part(n)
    if name == "MNIST":
        y = np.repeat(np.arange(10), OF_MNIST)
    return Arrays(x, y, *part(n // 5), tuple(map(str, range(classes))))


PARTS = ("data", "model", "running_statistics", "estimate_statistics", "loss", "optimizer", "stream")
"""What may not go together with what a recipe has, or with each other."""
BY_NAME = "stream."
"""Options that do not count: of a stream its name alone does."""


def kinds() -> Iterator[tuple[Row, bool]]:
    """The first row of each choice of what may not go together, in full size and as a twin."""
    seen: set[tuple[object, ...]] = set()
    for table in map(load_table, table_names()):
        for row, small in product((row for row in table.rows if row.table == table.name), (True, False)):
            options = {**row.options, **(row.small if small else {})}
            parts = (each for each in options.items() if each[0].split(".")[0] in PARTS)
            kind = (row.base, small, *sorted((key, str(value)) for key, value in parts if not key.startswith(BY_NAME)))
            if kind not in seen:
                yield row, small
            seen.add(kind)


@pytest.mark.parametrize(
    ("row", "small"),
    [
        pytest.param(row, small, marks=[pytest.mark.slow] * (not small), id=f"{row.table}/{row.full_name}-{small}")
        for row, small in kinds()
    ],
)
def test_the_federation_of_each_kind_of_row_is_built(row: Row, small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for source in (MNIST, CIFAR10, ImageFolder):
        monkeypatch.setattr(source, "read", lambda self: made_up(type(self).__name__))
    (asked,) = seeded_rows([row], [0], small=small, out=Path("out"), extra=[])
    config = asked.trial.config
    federation = build_federation(config, Ranks(0, 1, torch.device("cpu")))
    assert len(federation.clients) == config.clients
