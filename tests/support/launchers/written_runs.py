"""Folders as runs leave them, written in no time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from launching import options

from fl_ddp.config.command_line import parse
from fl_ddp.config.yaml_file import to_yaml
from launch.compare.found_runs import find_runs
from launch.compare.replicates import Design, design_of


@dataclass(frozen=True)
class Written:
    """What a run would have left.

    Attributes:
        settings: of the run.
        curve: accuracy of each round.
        rounds: it was asked for; by default as many as it has.
        forgetting: of each round; by default the column is not there.
    """

    settings: Mapping[str, object]
    curve: Iterable[float]
    rounds: int | None = None
    forgetting: Sequence[float] | None = None

    def at(self, folder: Path) -> Path:
        """Write it."""
        curve = list(self.curve)
        rounds = self.rounds or len(curve)
        folder.mkdir(parents=True)
        config = parse([*options(self.settings), f"--rounds={rounds}"])
        (folder / "config.yaml").write_text(to_yaml(config))
        head = "round,traffic_up_bytes,traffic_down_bytes,time_padded_lanes,accuracy,time_wall,time_training"
        head += ",time_compiling,time_other"
        lines = [f"{r},1000000,2000000,0.5,{a!r},1700000000.0,1.5,7.0,0.5" for r, a in enumerate(curve, 1)]
        if self.forgetting is not None:
            head += ",forgetting"
            lines = [f"{line},{lost!r}" for line, lost in zip(lines, self.forgetting, strict=True)]
        (folder / "metrics.csv").write_text("\n".join([head, *lines]) + "\n")
        if len(curve) == rounds:
            (folder / "summary.json").write_text(json.dumps({"rounds": rounds}))
        return folder


def design_in(folder: Path, runs: Mapping[str, Written]) -> Design:
    """Write runs below a folder; the design that they have."""
    for name, run in runs.items():
        run.at(folder / name)
    return design_of(find_runs([folder]).runs)


def rising(top: float) -> list[float]:
    """A curve of four rounds."""
    return [top * r / 4 for r in range(1, 5)]
