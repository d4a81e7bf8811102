"""Files that are either whole or absent, whatever kills the run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from fl_ddp.errors import RunError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full disk and the like into one line that names the file.

    Raises:
        RunError: the operating system refused to write.
    """
    try:
        yield
    except OSError as error:
        raise RunError(f"{path}: cannot be written ({error.strerror or error})") from error


def sync_folder(path: Path) -> None:
    """Make the names in a folder survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: Path) -> None:
    """Make what a file holds survive a loss of power."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def write_synced(path: Path, content: bytes) -> None:
    """Write a file that survives a loss of power once it has its final name.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path, writer: str = "") -> Iterator[BinaryIO]:
    """Replace a file by what is written in a block, in one step at its end; if it raises, the old file is untouched.

    Args:
        path: the file.
        writer: name of this writer, where others may replace the file at the same time.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}{writer}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def move_synced(source: Path, target: Path) -> None:
    """Give a whole file of the same file system its final name.

    Raises:
        OSError: it cannot be moved.
    """
    with source.open("rb") as file:
        os.fsync(file.fileno())
    source.replace(target)
    sync_folder(target.parent)


def write_text(path: Path, text: str, writer: str = "") -> None:
    """Replace a file by a new text in one step, like write_bytes()."""
    write_bytes(path, text.encode(), writer)


def write_text_once(path: Path, text: str, writer: str = "") -> None:
    """Write a text in one step where there is no file yet; arguments as of replacing().

    Raises:
        RunError: there is one, which is untouched, or it cannot be written.
    """
    temporary = path.with_name(f".{path.name}{writer}.tmp")
    with writing(path):
        try:
            write_synced(temporary, text.encode())
            path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes, writer: str = "") -> None:
    """Replace a file by new content in one step; arguments as of replacing().

    Raises:
        RunError: it cannot be written; the old file is untouched.
    """
    with writing(path), replacing(path, writer) as file:
        file.write(content)
