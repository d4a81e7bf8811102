"""A launcher's command line, split into what is its own and what goes on to fl_ddp.main."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fl_ddp.config.options import suggestion
from fl_ddp.errors import ConfigError

_OTHERS_OF_MAIN = ("config", "print_config", "version")
"""Options of fl_ddp.main that are no settings of a run."""


@dataclass(frozen=True)
class Words:
    """A command line, split.

    Attributes:
        free: words that belong to no option.
        values: what was given to the launcher's own options, in order; those not given have an empty tuple.
        switches: those that are on.
        extra: options of fl_ddp.main: --key=value, or --key alone.
    """

    free: tuple[str, ...]
    values: Mapping[str, tuple[str, ...]]
    switches: frozenset[str]
    extra: tuple[str, ...]

    def last(self, key: str, default: str) -> str:
        """What counts of an option that may stand twice."""
        return (self.values[key] or (default,))[-1]


def split(
    words: Sequence[str], values: Sequence[str], switches: Sequence[str], refused: Mapping[str, str] | None = None
) -> Words:
    """Split a command line.

    Args:
        words: the command line.
        values: options of the launcher that take a value.
        switches: options of the launcher that are on or off, bare or with true or false.
        refused: options of fl_ddp.main that are not the user's to give here, and what to give instead.

    Raises:
        ConfigError: a value is missing or no switch's, an option is refused, or is misspelt and neither the launcher's
            nor one of fl_ddp.main's.
    """
    free: list[str] = []
    given: dict[str, list[str]] = {key: [] for key in values}
    are_on: dict[str, bool] = {}
    extra: list[str] = []
    left = ["--help" if word == "-h" else word for word in words]
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            free.append(word)
            continue
        key, equals, value = word[2:].partition("=")
        if refused and key in refused:
            raise ConfigError(f"--{key}", f"is not the user's to give here; give {refused[key]}")
        if key in switches:
            if not equals and left and left[0].lower() in ("true", "false"):
                value = left.pop(0)
            if value.lower() not in ("", "true", "false"):
                raise ConfigError(f"--{key}", f"{value} is unknown", "true or false")
            are_on[key] = value.lower() != "false"
            continue
        takes = not equals and left and not left[0].startswith("--")
        if key in values:
            value = left.pop(0) if takes else value
            if not value:
                hint = f"; one that begins with -- is written --{key}={left[0]}" if left and not equals else ""
                raise ConfigError(f"--{key}", f"needs a value{hint}")
            given[key].append(value)
            continue
        if near := _misspelt(key, (*switches, *values)):
            raise ConfigError(f"--{key}", f"unknown option; did you mean --{near}?")
        extra.append(f"{word}={left.pop(0)}" if takes else word)
    on = frozenset(key for key, is_on in are_on.items() if is_on)
    return Words(tuple(free), {key: tuple(each) for key, each in given.items()}, on, tuple(extra))


def key_of(option: str) -> str:
    """The key of an option that is written as --key=value or --key."""
    return option.removeprefix("--").partition("=")[0]


def whole_number(key: str, text: str, least: int = 1) -> int:
    """The value of an option that counts something.

    Raises:
        ConfigError: it is no whole number, or too small.
    """
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ConfigError(f"--{key}", f"{text} is impossible", f"whole numbers from {least} up")
    return int(text)


def _misspelt(key: str, ours: Sequence[str]) -> str | None:
    """The option of ours that an unknown one means, if it is none of fl_ddp.main's."""
    from fl_ddp.config.layers import scalar_options  # takes seconds to import: only a run needs it
    from fl_ddp.config.registry import KINDS

    if key.partition(".")[0] in (*KINDS, *scalar_options().by_name, *_OTHERS_OF_MAIN):
        return None
    return suggestion(key, ours)
