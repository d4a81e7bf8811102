"""What a run's tasks.csv and own_tasks.csv tell: accuracy on each task over rounds, and what it says of learning."""

from __future__ import annotations

import math
from itertools import groupby
from pathlib import Path

from fl_ddp.results.written_rows import written_rows
from fl_ddp.retention.matrix import OF_OWN_TASKS, of_tasks
from fl_ddp.retention.own_table import OwnMatrices
from launch.numbers.metric import Curve

ON_TASK = "task_accuracy/"


def task_curves(folder: Path) -> dict[str, Curve]:
    """Curves by name, from round 1 on: task_accuracy/1 and so on from when it is trained, and the measures.

    Args:
        folder: of the run; a last row that is being written is left out.

    Raises:
        ConfigError: the file is not what a run writes.
    """
    found: dict[str, list[tuple[int, float]]] = {}
    evaluations: dict[tuple[int, int], list[float]] = {}
    sizes: dict[str, int] = {}
    with written_rows(folder / "tasks.csv") as rows:
        for row in rows:
            if "test_samples" in row:  # older runs do not tell
                sizes[row["task_tested"]] = int(row["test_samples"])
            evaluations.setdefault((int(row["round"]), int(row["task_trained"])), []).append(float(row["accuracy"]))
    matrix: dict[int, list[float]] = {}
    for (finished, trained), accuracies in evaluations.items():
        matrix[trained] = accuracies
        if not finished:
            continue
        told = {f"{ON_TASK}{task}": value for task, value in enumerate(accuracies[:trained], 1)}
        told |= {name: value for name, value in of_tasks(matrix, [*sizes.values()]).items() if value is not None}
        for name, value in told.items():
            if not math.isnan(value):
                found.setdefault(name, []).append((finished, value))
    return {**found, **_own_curves(folder)}


def _own_curves(folder: Path) -> dict[str, Curve]:
    """The measures of own_tasks.csv at the end of each task."""
    clients, found = OwnMatrices(), dict[str, list[tuple[int, float]]]()
    with written_rows(folder / "own_tasks.csv") as rows:
        for finished, end in groupby(rows, lambda row: int(row["round"])):
            for row in end:
                clients.take(row)
            for name, measure in OF_OWN_TASKS.items():
                if (value := measure(clients)) is not None:
                    found.setdefault(name, []).append((finished, value))
    return dict(found)
