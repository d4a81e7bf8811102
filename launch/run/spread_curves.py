"""What a run's clients.csv tells of how far clients differ, over rounds."""

from __future__ import annotations

from pathlib import Path

from fl_ddp.results.client_table import MODELS, spread
from fl_ddp.results.written_rows import written_rows
from launch.numbers.metric import Curve


def spread_curve(folder: Path, name: str) -> Curve:
    """A curve of SPREADS; empty where no client was tested, or not by such a score.

    Args:
        folder: of the run; a last row that is being written is left out.
        name: of the curve.

    Raises:
        ConfigError: the file is not what a run writes.
    """
    measure, of, *errors = name.split("_")
    score = "mae" if errors else "accuracy"
    found: dict[int, list[float]] = {}
    with written_rows(folder / "clients.csv") as rows:
        for row in rows:
            if ("own_mae" in row) != bool(errors):
                return []
            if value := row[f"{MODELS[of]}_{score}"]:
                found.setdefault(int(row["round"]), []).append(float(value))
    each = ((finished, spread(values, errors=bool(errors))) for finished, values in found.items())
    return [(finished, known.worst if measure == "worst" else known.deviation) for finished, known in each if known]
