"""How a trial came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from launch.run.trial import Trial

TrialState = Literal["finished", "submitted", "not started", "stopped", "failed"]


@dataclass(frozen=True)
class Outcome:
    """How it came out.

    Attributes:
        trial: whose run was to be made.
        state: finished; submitted to Slurm; not started, as a stop came before it; stopped, so that the same command
            goes on; or failed, so that it would fail again.
        words: how that came.
        seconds: it took.
    """

    trial: Trial
    state: TrialState
    words: str
    seconds: float = 0.0
