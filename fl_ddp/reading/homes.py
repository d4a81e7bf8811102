"""Homes that users' paths may begin with, and names that no file can have."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from fl_ddp.errors import ConfigError

_LONGEST_NAME, _LONGEST_PATH = 255, 4095
"""Bytes that Linux takes."""


def users_path(option: str, given: str | PathLike[str]) -> Path:
    """Where a path leads that the user gave, which may begin with a home.

    Args:
        option: that gives it, for messages.
        given: the path.

    Raises:
        ConfigError: there is no such home, or a name is too long for a file.
    """
    path = Path(given)
    if max(map(_size, path.parts), default=0) > _LONGEST_NAME or _size(str(path)) > _LONGEST_PATH:
        accepted = f"names of up to {_LONGEST_NAME} bytes, {_LONGEST_PATH} in all"
        raise ConfigError(option, f"{str(path)[:20]}... is too long for a path", accepted)
    try:
        return path.expanduser()
    except RuntimeError:
        what = f"{path} begins with {path.parts[0]}, a home that is not known here"
        raise ConfigError(option, what, "a path from the root, from the working folder, or from ~/") from None


def _size(name: str) -> int:
    return len(name.encode(errors="replace"))
