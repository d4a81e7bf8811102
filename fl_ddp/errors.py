"""How a run can end before its last round."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar


class ConfigError(Exception):
    """The user's input cannot be run (exit code 2); one line says where, what is wrong, and what would be accepted.

    Attributes:
        where: the option as the user wrote it (--lr, or file and key), the file or the word that it is about.
        what: is wrong with it.
        accepted: in its place; empty where the text of `what` says it, or nothing is.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, where: str | Path, what: str, accepted: str = "") -> None:
        self.where, self.what, self.accepted = str(where), what, accepted
        super().__init__(f"{where}: {what}" + (f"; accepted: {accepted}" if accepted else ""))


class RunError(Exception):
    """The run failed while it was going on: a loss that is not finite, a lost rank, a full disk (exit code 1)."""

    exit_code: ClassVar[int] = 1


class DivergedError(RunError):
    """A number of a client or of the server is not finite or out of range."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; a smaller --lr usually helps")


class StatesDifferError(RunError):
    """What must be the same on all ranks is not, so that nothing of it may be saved."""


class RankLostError(RunError):
    """Another rank does not answer any more (exit code 3: this one has no fault)."""

    exit_code = 3


class InterruptedRunError(Exception):
    """The user or the launcher asked the run to stop; the text says what is saved where."""


class ElsewhereError(Exception):
    """Another rank failed; it says why, and this one ends with the same exit code."""

    def __init__(self, rank: int, user_error: bool) -> None:
        super().__init__(f"rank {rank} failed")
        self.exit_code = ConfigError.exit_code if user_error else RunError.exit_code
