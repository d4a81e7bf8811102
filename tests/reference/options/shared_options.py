"""Options that cases share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Options = Mapping[str, Any]
"""Of a run, as the command line names them; `network` is a class of network.py, `samples` and `division` names in
samples.py."""

BASE: Options = {
    "network": "Network", "samples": "data", "division": "unlike", "method": "FedAvg", "clients": 6, "cohort": 4,
    "rounds": 3, "batch_size": 4, "lr": 0.3, "local_test": 0.2, "seed": 11, "lanes": 3,
    "compile": False, "figures": False,
    "device": "cpu", "checkpoint_every": 1, "keep_checkpoints": 9,
}  # fmt: skip
"""Two groups of three lanes, of which two are padded; the last batch of most clients is short."""
SGD: Options = {"momentum": 0.5, "weight_decay": 0.1}
WORDS: Options = {"network": "Worded", "samples": "words"}
PICTURES: Options = {"network": "Pictured", "samples": "images", "batch_size": 6}
NORMED: Options = {"network": "Normed"}
LOCAL: Options = {**NORMED, "running_statistics": "local", "rounds": 4}
KEPT: Options = {**SGD, "optimizer.keep": True, "cohort": 3, "rounds": 5, "lr": 0.1}
ADAM: Options = {"optimizer": "Adam", "lr": 0.03}
KEPT_ADAM: Options = {"optimizer.keep": True, "cohort": 3, "rounds": 5, "lr": 0.03}
IDLE: Options = {"drop_last": True}
"""One client has less than a batch, and never trains."""


def of(method: str, run: Options | None = None, **options: object) -> Options:
    """A method with its options, and options of the run."""
    return {"method": method, **{f"method.{name}": value for name, value in options.items()}, **(run or {})}
