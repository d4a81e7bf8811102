"""The two kinds of failure a run can end in."""


class ConfigError(Exception):
    """The user's input cannot be run; one line naming the key or file, the bad value and what is accepted (exit code 2)."""


class RunError(Exception):
    """The run failed while it was going on: a loss that is not finite, a lost rank, a full disk (exit code 1)."""
