"""What a notebook has, as a file that a run can be repeated and resumed from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import by_one_process, replacing

FOLDER = "arrays"
"""Of the folder of runs: where such files are kept, so that all runs of it that have the same find it."""


class GivenFile(NamedTuple):
    """A file of its own.

    Attributes:
        name: a function of what it holds.
        write: its content.
    """

    name: str
    write: Callable[[BinaryIO], object]

    @classmethod
    def of(cls, content: bytes, suffix: str) -> GivenFile:
        """One of a content that is there."""
        return cls(f"{hashlib.sha256(content).hexdigest()[:16]}{suffix}", lambda file: file.write(content))


def keep(given: GivenFile, path: Path) -> None:
    """Write a file, which may be there already.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with by_one_process(path.with_suffix(".lock"), path):  # several ranks may have the same
            if not path.exists():
                with replacing(path) as file:
                    given.write(file)
    except OSError as error:
        raise ConfigError(path, f"cannot be written ({error.strerror or error})") from None
