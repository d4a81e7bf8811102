"""What a file of JSON holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fl_ddp.errors import ConfigError, one_line


def read_json(path: Path, what: str, accepted: str = "") -> dict[str, Any]:
    """The object that a file holds.

    Args:
        path: the file.
        what: to say of a file that cannot be read, or holds none.
        accepted: in its place.

    Raises:
        ConfigError: it is such a file.
    """
    with _refusing(path, what, accepted):
        found = json.loads(path.read_text(encoding="utf-8-sig"))
        if not isinstance(found, dict):
            raise ValueError("it holds no JSON object")
    return found


def read_json_if_there(path: Path, what: str) -> dict[str, Any] | None:
    """The object that a file holds; None where there is no file; else as read_json()."""
    with _refusing(path, what, ""):
        if not path.is_file():
            return None
    return read_json(path, what)


@contextmanager
def _refusing(path: Path, what: str, accepted: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RecursionError) as error:  # of nesting too deep
        raise ConfigError(path, f"{what} ({one_line(error)})", accepted) from None
