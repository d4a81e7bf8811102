"""What a run's tasks.csv tells: accuracy on each task over rounds, and what it says of learning one after another."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.tasks.matrix import Matrix, average_accuracy, average_forgetting, backward_transfer, forward_transfer
from launch.numbers.metric import Curve

MEASURES: Mapping[str, Callable[[Matrix], float | None]] = {
    "average_accuracy": average_accuracy,
    "average_forgetting": average_forgetting,
    "backward_transfer": backward_transfer,
    "forward_transfer": forward_transfer,
}
ON_TASK = "task_accuracy/"


def task_curves(folder: Path) -> dict[str, Curve]:
    """Curves by name, from round 1 on: task_accuracy/1 and so on from when it is trained, and the measures.

    Args:
        folder: of the run; a last row that is being written is left out.

    Raises:
        ConfigError: the file is not what a run writes.
    """
    path = folder / "tasks.csv"
    found: dict[str, list[tuple[int, float]]] = {}
    if not path.is_file():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        rows = list(csv.DictReader(line for line in lines if line.endswith("\n")))
        evaluations: dict[tuple[int, int], list[float]] = {}
        for row in rows:
            evaluations.setdefault((int(row["round"]), int(row["task_trained"])), []).append(float(row["accuracy"]))
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(path, f"is not what a run writes ({error or type(error).__name__})") from error
    matrix: dict[int, list[float]] = {}
    for (finished, trained), accuracies in evaluations.items():
        matrix[trained] = accuracies
        if not finished:
            continue
        told = {f"{ON_TASK}{task}": value for task, value in enumerate(accuracies[:trained], 1)}
        told |= {name: value for name, of in MEASURES.items() if (value := _known(of, matrix)) is not None}
        for name, value in told.items():
            found.setdefault(name, []).append((finished, value))
    return dict(found)


def _known(measure: Callable[[Matrix], float | None], matrix: Matrix) -> float | None:
    """A measure; None where the file lacks the end of a task."""
    try:
        return measure(matrix)
    except (KeyError, IndexError, ValueError):
        return None
