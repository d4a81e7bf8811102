"""Homes that users' paths may begin with."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from fl_ddp.errors import ConfigError


def users_path(option: str, given: str | PathLike[str]) -> Path:
    """Where a path leads that the user gave, which may begin with a home.

    Args:
        option: that gives it, for messages.
        given: the path.

    Raises:
        ConfigError: there is no such home.
    """
    path = Path(given)
    try:
        return path.expanduser()
    except RuntimeError:
        what = f"{path} begins with {path.parts[0]}, a home that is not known here"
        raise ConfigError(option, what, "a path from the root, from the working folder, or from ~/") from None
