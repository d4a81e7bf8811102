"""What a run's forgetting.csv tells of one client: of each class, over rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from fl_ddp.results.written_rows import written_rows
from launch.numbers.metric import Curve

COLUMNS = ("samples", "own_accuracy", "forgetting_degree")

ClientCurves = Mapping[str, Mapping[str, Curve]]
"""By class, in the order of the file, and column."""


def client_curves(folder: Path, client: int) -> ClientCurves:
    """A client's curves; a class without test samples has none, degrees are cut off at -1.

    Args:
        folder: of the run; a last row that is being written is left out.
        client: id.

    Raises:
        ConfigError: the file is not what a run writes.
    """
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    with written_rows(folder / "forgetting.csv") as rows:
        for row in rows:
            if row["client"] != str(client):
                continue
            curves = found.setdefault(row["class"], {column: [] for column in COLUMNS})
            for column in COLUMNS:
                if not math.isnan(value := float(row[column])):
                    curves[column].append((int(row["round"]), max(value, -1.0)))
    return found
