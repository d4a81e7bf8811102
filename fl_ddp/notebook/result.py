"""What a notebook gets of a run."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any


class Result(dict[str, object]):
    """What summary.json holds, and the course of the run; empty on all ranks but the first."""

    @property
    def history(self) -> Any:
        """The rows of metrics.csv: a pandas frame where pandas is there, else a list of dictionaries."""
        if "folder" not in self:
            return []
        with (Path(str(self["folder"])) / "metrics.csv").open(newline="", encoding="utf-8") as file:
            rows = [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]
        try:
            import pandas  # type: ignore[import-untyped]
        except ImportError:
            return rows
        return pandas.DataFrame(rows).apply(pandas.to_numeric)

    @property
    def weights(self) -> dict[str, Any]:
        """What model.safetensors has: the model after the last round, as load_state_dict takes it."""
        from safetensors.torch import load_file

        return load_file(Path(str(self["folder"])) / "model.safetensors") if "folder" in self else {}


def _number(text: str) -> float | None:
    """A cell of metrics.csv; whole numbers stay whole."""
    if not text:
        return None
    return int(text) if text.lstrip("-").isdigit() else float(text)
