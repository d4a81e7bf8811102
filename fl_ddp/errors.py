"""The two kinds of failure a run can end in."""


class ConfigError(Exception):
    """The user's input cannot be run; one line names the key or file, the value and what is accepted (exit code 2)."""


class RunError(Exception):
    """The run failed while it was going on: a loss that is not finite, a lost rank, a full disk (exit code 1)."""


class RankLostError(RunError):
    """Another rank does not answer any more."""


class ElsewhereError(Exception):
    """Another rank failed; it says why, and this one ends with the same exit code."""

    def __init__(self, rank: int, user_error: bool) -> None:
        super().__init__(f"rank {rank} failed")
        self.user_error = user_error
