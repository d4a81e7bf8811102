"""Files that are either whole or absent, whatever kills the run, and made by one process where several want them."""

from __future__ import annotations

import errno
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from fl_ddp.errors import RunError

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
"""What file systems say that know no hard links."""

PATIENCE = 5.0
"""Seconds after which who waits for another process says so."""
_HOST = "host "


def this_process() -> str:
    """What others call this process, who wait for it."""
    return f"{_HOST}{socket.gethostname()}, process {os.getpid()}"


@contextmanager
def by_one_process(lock: Path, what: Path) -> Iterator[None]:
    """Have one process at a time in a block; one that waits long says for what, and for whom, and goes on waiting.

    Args:
        lock: file that is held meanwhile.
        what: is made in the block.

    Raises:
        OSError: the lock's file cannot be written.
    """
    held = FileLock(lock, on_acquired=_sign)
    try:
        held.acquire(timeout=PATIENCE)
    except Timeout:
        if os.environ.get("RANK", "0") == "0":  # the other ranks may wait for the same, or be waited for
            holder = lock.read_text(errors="replace").strip()
            whose = f" ({holder})" if holder.startswith(_HOST) else ""
            print(f"fl_ddp: waits for {what}, which another process is making{whose}", file=sys.stderr, flush=True)
        held.acquire()
    try:
        yield
    finally:
        held.release()


def _sign(lock: int) -> None:
    """Write who holds a lock, whose descriptor this is, into its file."""
    with suppress(OSError):
        # where a file system knows no locks there is something of filelock's own
        if os.pread(lock, len(_HOST), 0) in (b"", _HOST.encode()):
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{this_process()}\n".encode(), 0)


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
            try:
                path.hardlink_to(temporary)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                _write_where_none_is(path, text.encode())
        finally:
            temporary.unlink(missing_ok=True)


def _write_where_none_is(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, in more steps than one; others who write meanwhile replace it by theirs."""
    with path.open("xb") as file:
        try:
            file.write(content)
            file.flush()
        except OSError:
            path.unlink(missing_ok=True)
            raise


def write_bytes(path: Path, content: bytes, writer: str = "") -> None:
    """Replace a file by new content in one step; arguments as of replacing().

    Raises:
        RunError: it cannot be written; the old file is untouched.
    """
    with writing(path), replacing(path, writer) as file:
        file.write(content)
