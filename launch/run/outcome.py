"""How the making of a run came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from launch.run.planned import PlannedRun

State = Literal["finished", "submitted", "not started", "stopped", "failed"]


@dataclass(frozen=True)
class Outcome:
    """How it came out.

    Attributes:
        run: that was to be made.
        state: finished; submitted to Slurm; not started, as a stop came before it; stopped, so that the same command
            goes on; or failed, so that it would fail again.
        words: how that came.
        seconds: it took.
    """

    run: PlannedRun
    state: State
    words: str
    seconds: float = 0.0
