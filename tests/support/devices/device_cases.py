"""Runs that the pretended device plays: every method, and whatever else computes on the device."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import golden
import numpy as np
import numpy.typing as npt
import own_models
from sklearn.datasets import load_digits
from token_digits import write_tokens

Settings = Mapping[str, object]
OWN = own_models.__file__

SHORT: Settings = {
    "rounds": 4, "eval_every": 3, "checkpoint_every": 4, "clients": 8, "cohort": 4, "lanes": 3, "local_steps": 2,
    "batch_size": 20, "forgetting_every": 0, "model.hidden": 8,
}  # fmt: skip
"""Two groups of lanes; the second round has no evaluation, the third has one."""
EPOCHS: Settings = {"local_steps": None, "local_epochs": 1, "batch_size": 200}
MNIST_LIKE: Settings = {"model.hidden": None, "cohort": 2, "lanes": 2, "local_steps": 1}

METHODS: Mapping[str, Settings] = {
    name: {"method": name.split()[0], **own, **({"method.store": 60, "method.sst": 20} if name == "FilVer" else {})}
    for name, own in golden.OF_METHODS.items()
}
"""Every method, and every reading of FedCL and Fisher information."""

SETTINGS: Mapping[str, Settings] = {
    "epochs": EPOCHS,
    "fast": {"reduction": "fast"},
    "bfloat16": {"precision": "bfloat16"},
    "forgetting": {"forgetting_every": 3},
    "no own test samples": {"local_test": 0.0},
    "all clients are tested": {"personalise": "all"},
    "clients of unlike pace": {"client_work": "uniform(0.5,1)", **EPOCHS},
    "Adam that clients keep": {"optimizer": "Adam", "optimizer.keep": True, "momentum": 0.0, "lr": 0.01},
    "clipped, decayed over steps": {
        "clip_norm": 1.0, "lr_schedule": "cosine", "lr_decay": None, "lr_schedule_over": "steps",
    },
    "exact Fisher": {"method": "FedCurv", "method.kind": "exact"},
    "class reduction": {"class_reduction": "0,1,2,1;0,1,3,0"},
    "rotated": {"stream": "Rotated", "stream.task_rounds": 2, "stream.tasks": 2},
    "batch norm": {"model": f"{OWN}:Normed"},
    "own statistics": {"model": f"{OWN}:Normed", "running_statistics": "local"},
    "estimated statistics": {
        "model": f"{OWN}:Normed", "running_statistics": "local", "estimate_statistics": True, "batch_size": 20,
    },
    "a measure": {"measures": [f"{OWN}:confidence"], "log_clients": True},
    "regression": {"data": "numbers", "loss": "mse", "partition": "Quantity"},
    "several labels": {"data": "labels", "loss": "bce", "partition": "Quantity"},
    "tokens": {"data": "tokens", "model": f"{OWN}:Averaged"},
    "attention": {"data": "tokens", "model": f"{OWN}:Attentive"},
    "LSTM": {"data": "tokens", "model": "CharLSTM", "model.hidden": 6, "model.layers": 1, "model.dropout": 0.3},
    "convolutions": {"data": "images", "model": "LeNet5", **MNIST_LIKE},
    "dropout and augmentation": {"data": "images", "model": "PflCNN", "augment": ["flip", "crop"], **MNIST_LIKE},
}  # fmt: skip

MORE_WAITS: Mapping[str, int] = {
    # what a server measures on its own samples is summed and judged before the clients train
    **dict.fromkeys((name for name in METHODS if name.startswith("FedCL")), 2),
    # its weights are learned until they settle, and a client's lane settles when it does
    "FedALA": 22,
    # a mixture for each of the cohort's four clients is found on the host
    "FedPAC": 8,
    # what clients store is of other sizes in each round
    "FilVer": 8,
    # a task that begins puts its samples on the device, one that ends is tested with all others, and by its clients
    "OnlineEWC": 2, "LwF": 2, "FedAvg stream": 19, "rotated": 5,
    # outputs of each group of clients are judged on the host
    "regression": 2, "several labels": 2,
    # a function of a user's takes copies of all and gives its number to the host
    "a measure": 6,
    # the others' sum, and the received model's right predictions of each class
    "all clients are tested": 1, "forgetting": 1,
    # what clients have with statistics of their own is summed before they train
    "estimated statistics": 1,
}  # fmt: skip
"""Waits above the bound, and why."""
OTHER_BITS = ("bfloat16",)
"""Cases that autocast, which the pretended device does not."""


def with_data(settings: Settings, folder: Path) -> Settings:
    """Settings with a file of the data that they name."""
    name = settings.get("data")
    x, d = load_digits(return_X_y=True)
    pixels = x.astype(np.float32) / 16
    if name == "tokens":
        write_tokens(folder / "own.npz", 400)
    elif name == "images":
        random = np.random.default_rng(0)
        images, y = random.integers(0, 256, (100, 3, 32, 32), np.uint8), np.arange(100) % 10
        np.savez(folder / "own.npz", x_train=images[:80], y_train=y[:80], x_test=images[80:], y_test=y[80:])
    elif name == "numbers":
        _write(folder, pixels, np.stack([d, pixels.sum(1)], 1).astype(np.float32))
    elif name == "labels":
        _write(folder, pixels, np.stack([d % 2 == 0, d >= 5], 1))
    else:
        return settings
    return {"partition": "IID", "partition.alpha": None, **settings, "data": str(folder / "own.npz")}


def _write(folder: Path, x: npt.NDArray[np.float32], y: npt.NDArray[np.generic]) -> None:
    np.savez(folder / "own.npz", x_train=x[360:], y_train=y[360:], x_test=x[:360], y_test=y[:360])
