"""summary.json: the result of a run on one page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from fl_ddp.host.atomic_file import write_text

_OWN = re.compile("(initial_|personalised_)accuracy")


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
        initial_accuracy: of the model received, or of their own where clients keep such, before they train, mean over
            the clients' own test samples; None without such.
        personalised_accuracy: of the cohort's models after local training, likewise.
        initial_accuracy_cohort: likewise, mean over the cohort alone.
        personalised_accuracy_all: of all clients' models after local training; None unless all were asked for.
        initial_accuracy_deviation: standard deviation of that accuracy over the clients.
        initial_accuracy_worst: its mean over the tenth of the clients with the lowest, at least one.
        personalised_accuracy_deviation: of the clients' own models, over all that trained: of the same clients as
            personalised_accuracy_all is, where all were asked for.
        personalised_accuracy_worst: likewise.
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
        average_accuracy: on the tasks so far, mean; this and the next four are None where tasks have no test sets of
            their own, see retention.matrix.
        incremental_accuracy: mean of the average accuracies after each of these tasks.
        average_forgetting: of the tasks before the last one, since each one's best.
        backward_transfer: what they have gained since the end of their own training.
        forward_transfer: what tasks have gained from those before them, beside the initial model.
        own_average_accuracy: of what each client has at the last end of a task or the run, on its own test samples of
            its tasks so far, mean over the clients; None without such samples.
        own_average_forgetting: likewise of its tasks before, since each one's best.
        task_accuracy: accuracies on the tasks, of the initial model and at the end of each task.
        stopped: why the run ended before its last round; None if it did not.
        perplexity: the exponential of the loss; None where it is no cross-entropy.
        score: what clients are measured by on their own test samples, in the names of what is told of them.
        code: sha256 of each file of a user's that a class of the run is in, or that such a file imports, by its path.
        measures: what else the loss tells of the test set, in the file by their names.
        class_order: names of the data's classes as the run numbers them; not in the file if as the data do.
        task_names: of the tasks in their order; not in the file if they have none.
    """

    folder: str
    seed: int
    rounds: int
    accuracy: float | None
    running_mean_accuracy: float | None
    best_accuracy: float | None
    forgetting: float | None
    loss: float | None
    initial_accuracy: float | None
    personalised_accuracy: float | None
    initial_accuracy_cohort: float | None
    personalised_accuracy_all: float | None
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
    average_accuracy: float | None = None
    incremental_accuracy: float | None = None
    average_forgetting: float | None = None
    backward_transfer: float | None = None
    forward_transfer: float | None = None
    own_average_accuracy: float | None = None
    own_average_forgetting: float | None = None
    task_accuracy: Sequence[Sequence[float]] = ()
    stopped: str | None = None
    perplexity: float | None = None
    code: Mapping[str, str] = field(default_factory=dict)
    score: str = "accuracy"
    measures: Mapping[str, float] = field(default_factory=dict)
    class_order: Sequence[str] = ()
    task_names: Sequence[str] = ()
    initial_accuracy_deviation: float | None = None
    initial_accuracy_worst: float | None = None
    personalised_accuracy_deviation: float | None = None
    personalised_accuracy_worst: float | None = None


def write_summary(folder: Path, summary: Summary) -> dict[str, object]:
    """Write summary.json in one step; a number that is not finite becomes null, JSON knows none.

    Returns:
        what the file holds.

    Raises:
        RunError: it cannot be written.
    """
    values = asdict(summary)
    score, measures = values.pop("score"), values.pop("measures")
    for names in ("class_order", "task_names"):
        if not values[names]:
            del values[names]
    if score != "accuracy":
        values = {_OWN.sub(rf"\1{score}", key): value for key, value in values.items()}
    content: dict[str, object] = {key: _finite(value) for key, value in {**values, **measures}.items()}
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


def read_summary(file: Path) -> dict[str, object]:
    """What a summary.json holds; nothing if it is damaged."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _finite(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
