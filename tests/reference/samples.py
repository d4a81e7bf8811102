"""The data set of the comparison, and how it is divided among the clients."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CLASSES = 4
TRAIN, TEST, FEATURES = 130, 36, 4
TOKENS, LENGTH = 7, 5
IMAGE = (1, 8, 16)
SIZES = {"unlike": (27, 19, 14, 11, 8, 2), "one_large": (70, 19, 14, 11, 8, 2)}
"""Samples of each client, in two divisions; the rest belong to nobody. Of two none is kept aside for testing."""
MERGED = (50, 30, 20, 19, 11, 8)
"""And in one of the training and the test set together, merged.json."""
OUTPUTS = {"cross_entropy": CLASSES, "mse": 2, "bce": 3}
"""Numbers that a model gives, by the loss."""
WITHOUT_FIRST_FEATURE = (1, 3)
"""Clients for which the first feature is always 0."""


AWAY = "client,from,to\n" + "".join(f"{k},1,2\n{k},4,{k + 2 if k > 3 else ''}\n" for k in range(6))
"""Nobody can be reached in round 3."""


FACTORS = "client,factor\n5,0.25\n1,1.5\n3,0.6\n"


def located(options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Options with the files that they name in the folder of the samples."""
    return {name: str(folder / v) if str(v).endswith(".csv") else v for name, v in options.items()}


def write_samples(folder: Path) -> None:
    """Write the samples of each loss, words.npz of tokens, images.npz, a <division>.json for each division, and files.

    In the place of a label values.npz has numbers and labels.npz several labels. Labels are skewed between clients. The
    last class has no test samples. The first feature is mostly 0.
    """
    rng = np.random.default_rng(12)
    centres = rng.normal(size=(CLASSES, FEATURES))
    y_train = np.sort(rng.integers(0, CLASSES, TRAIN))
    y_test = rng.integers(0, CLASSES - 1, TEST)
    x_train, x_test = (centres[y] + rng.normal(size=(len(y), FEATURES)) for y in (y_train, y_test))
    x_train[rng.random(TRAIN) < 0.7, 0] = 0
    order = np.argsort(np.arange(TRAIN) + rng.normal(0, 25, TRAIN))
    for name, sizes in SIZES.items():
        clients = np.split(order, np.cumsum(sizes))[: len(sizes)]
        for k in WITHOUT_FIRST_FEATURE:
            x_train[clients[k], 0] = 0
        _write(folder / f"{name}.json", clients)
    mixed = np.arange(TRAIN + TEST) * 67 % (TRAIN + TEST)
    _write(folder / "merged.json", np.split(mixed, np.cumsum(MERGED))[: len(MERGED)])
    (folder / "away.csv").write_text(AWAY, encoding="utf-8")
    (folder / "factors.csv").write_text(FACTORS, encoding="utf-8")
    np.savez(folder / "data.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    words = [(y[:, None] + rng.integers(0, TOKENS - CLASSES + 1, (len(y), LENGTH))) for y in (y_train, y_test)]
    np.savez(folder / "words.npz", x_train=words[0], y_train=y_train, x_test=words[1], y_test=y_test)
    weight = rng.normal(size=(FEATURES, OUTPUTS["mse"]))
    z_train, z_test = (x @ weight + rng.normal(size=(len(x), OUTPUTS["mse"])) for x in (x_train, x_test))
    np.savez(folder / "values.npz", x_train=x_train, y_train=z_train, x_test=x_test, y_test=z_test)
    has_train, has_test = (np.stack([z[:, 0] > 0, z[:, 1] > 1, z[:, 1] < -9], 1) for z in (z_train, z_test))
    has_train[::9, 2] = True
    np.savez(folder / "labels.npz", x_train=x_train, y_train=has_train, x_test=x_test, y_test=has_test)
    images = [rng.normal(size=(len(y), *IMAGE)) + y[:, None, None, None] for y in (y_train, y_test)]
    np.savez(folder / "images.npz", x_train=images[0], y_train=y_train, x_test=images[1], y_test=y_test)


def _write(file: Path, clients: Sequence[npt.NDArray[np.int64]]) -> None:
    file.write_text(json.dumps({"clients": [sorted(part.tolist()) for part in clients]}), encoding="utf-8")
