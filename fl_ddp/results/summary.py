"""summary.json: the result of a run on one page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.reading.json_file import read_json_if_there

_BY_NAME = ("of_clients", "of_tasks", "spreads", "measures")
"""What is in the file by the names of what it holds."""


@dataclass(frozen=True)
class Summary:
    """What summary.json holds; values of the test set are of the last evaluation.

    Attributes:
        folder: of the run.
        seed: of the run.
        rounds: finished rounds.
        accuracy: fraction of the test set.
        running_mean_accuracy: mean of the accuracies of all evaluated rounds.
        best_accuracy: the highest one of any round; with tasks, since the first evaluation of the last one.
        forgetting: what the classes have lost since each one's best round, on average; None before round 1.
        loss: on the test set.
        of_clients: how they do on their own test samples, by the columns of metrics.csv: of the newest round in which
            they were tested.
        class_accuracy: by class name; nan for a class without test samples.
        class_forgetting: likewise.
        confusion: [C, C] numbers of test samples by label and prediction.
        rounds_to_target: first round by metric (accuracy, running_mean) and target; None where it was not reached.
        traffic_up_bytes: sent by all clients.
        traffic_down_bytes: received by all clients.
        padded_lanes: mean share of lanes without a client.
        seconds: by phase, over all parts of a run that was resumed.
        parameters_sha256: of the final parameters.
        numerics: what decides the bits beside data, method and seed: lanes, compile, device, cpu, torch ...
        environment: command, date, commit, versions and hardware of the last part of the run.
        of_tasks: what accuracies on them say of learning, by the names in retention.matrix; None where tasks have no
            test sets of their own.
        task_accuracy: accuracies on the tasks, of the initial model and at the end of each task.
        stopped: why the run ended before its last round; None if it did not.
        perplexity: the exponential of the loss; None where it is no cross-entropy.
        score: what clients are measured by on their own test samples; not in the file.
        code: sha256 of each file of a user's that a class of the run is in, or that such a file imports, by its path.
        class_order: names of the data's classes as the run numbers them; not in the file if as the data do.
        task_names: of the tasks in their order; not in the file if they have none.
        spreads: how far clients differ, over all that were tested: deviation, and worst, the mean of the worst tenth.
        measures: what else the loss, and functions of the user's as measure/<name>, tell of the test set.
        data_sha256: of all training and test samples, as the run numbers them.
    """

    folder: str
    seed: int
    rounds: int
    accuracy: float | None
    running_mean_accuracy: float | None
    best_accuracy: float | None
    forgetting: float | None
    loss: float | None
    of_clients: Mapping[str, float | None]
    class_accuracy: Mapping[str, float]
    class_forgetting: Mapping[str, float]
    confusion: Sequence[Sequence[int]]
    rounds_to_target: Mapping[str, Mapping[str, int | None]]
    traffic_up_bytes: int
    traffic_down_bytes: int
    padded_lanes: float
    seconds: Mapping[str, float]
    parameters_sha256: str
    numerics: Mapping[str, object]
    environment: Mapping[str, object]
    of_tasks: Mapping[str, float | None] = field(default_factory=dict)
    task_accuracy: Sequence[Sequence[float]] = ()
    stopped: str | None = None
    perplexity: float | None = None
    code: Mapping[str, str] = field(default_factory=dict)
    score: str = "accuracy"
    class_order: Sequence[str] = ()
    task_names: Sequence[str] = ()
    spreads: Mapping[str, float | None] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    data_sha256: str = ""


def write_summary(folder: Path, summary: Summary) -> dict[str, object]:
    """Write summary.json in one step; a number that is not finite becomes null, JSON knows none.

    Returns:
        what the file holds.

    Raises:
        RunError: it cannot be written.
    """
    values = asdict(summary)
    del values["score"]
    for names in ("class_order", "task_names"):
        if not values[names]:
            del values[names]
    content: dict[str, object] = {}
    for key, value in values.items():
        content |= {name: _finite(each) for name, each in (value if key in _BY_NAME else {key: value}).items()}
    text = json.dumps(content, indent=2, allow_nan=False)
    # A row of numbers takes one line: a confusion matrix can be read.
    text = re.sub(r"\[\n([^][{}\"]*)\n *\]", lambda row: f"[{' '.join(row[1].split())}]", text)
    write_text(folder / "summary.json", text + "\n")
    return content


def rounds_to_target(rounds: Sequence[int], values: Sequence[float], targets: Sequence[float]) -> dict[str, int | None]:
    """The first round whose value reaches each target, None where none does.

    Args:
        rounds: [n] ascending.
        values: [n] accuracies or their running means.
        targets: accuracies, fractions.
    """
    return {
        str(target): next((r for r, value in zip(rounds, values, strict=True) if value >= target), None)
        for target in targets
    }


def read_summary(folder: Path, *, strict: bool = False) -> dict[str, object]:
    """What the summary.json in a run's folder holds; nothing if there is none, or it is damaged.

    Raises:
        ConfigError: it is damaged, where that is not to be passed over.
    """
    try:
        return read_json_if_there(folder / "summary.json", "is not what a run writes") or {}
    except ConfigError:
        if strict:
            raise
        return {}


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
