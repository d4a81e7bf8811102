"""How a run can end before its last round."""


class ConfigError(Exception):
    """The user's input cannot be run; one line names the key or file, the value and what is accepted (exit code 2)."""


def accept(
    owner: object, *names: str, least: float | None = None, above: float | None = None, most: float | None = None
) -> None:
    """Refuse a method's options that are out of bounds; whole numbers stay below 2^31 in any case.

    Args:
        owner: whose attributes they are.
        names: of the options.
        least: the least value accepted.
        above: values above it are accepted.
        most: the largest value accepted.

    Raises:
        ConfigError: one of them is not accepted.
    """
    for name in names:
        value = getattr(owner, name)
        most = 2**31 - 1 if most is None and isinstance(value, int) and value >= 2**31 else most
        low = (least is None or value >= least) and (above is None or value > above)
        if not (low and (most is None or value <= most)):
            bounds = {"at least": least, "above": above, "at most": most}
            accepted = ", ".join(f"{word} {bound:.10g}" for word, bound in bounds.items() if bound is not None)
            raise ConfigError(f"--method.{name}: {value} is impossible; accepted: {accepted}")


class RunError(Exception):
    """The run failed while it was going on: a loss that is not finite, a lost rank, a full disk (exit code 1)."""


class RankLostError(RunError):
    """Another rank does not answer any more."""


class InterruptedRunError(Exception):
    """The user or the launcher asked the run to stop; the text says what is saved where."""


class ElsewhereError(Exception):
    """Another rank failed; it says why, and this one ends with the same exit code."""

    def __init__(self, rank: int, user_error: bool) -> None:
        super().__init__(f"rank {rank} failed")
        self.user_error = user_error
