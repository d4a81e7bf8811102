"""A directory, or a zip file of one, as a flat list of files."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.reading.archives import UNREADABLE


class FileTree:
    """The files below a directory; a single folder that all of them lie in is passed over.

    Attributes:
        stamps: each file's path below the directory, sorted, and what changes when its content does.
    """

    stamps: dict[str, str]

    def __init__(self, root: Path, inner: str) -> None:
        """List the files.

        Args:
            root: the directory or the zip file.
            inner: name of a folder that may be in it, and is not passed over.

        Raises:
            ConfigError: there is no such directory or zip file, or it cannot be read.
        """
        self._root, self._archive = root, None
        accepted = f"accepted: a directory, or a .zip of one, with {inner}/<class>/<image>"
        if not root.exists():
            raise ConfigError("--data.root", f"{root} does not exist; {accepted}")
        try:
            if not root.is_dir():
                self._archive = zipfile.ZipFile(root)
            stamps = dict(_walk(root, "") if self._archive is None else _members(self._archive))
        except UNREADABLE as error:
            raise ConfigError("--data.root", f"{root} cannot be read ({error}); {accepted}") from None
        self._prefix = _outer_folder(stamps, inner)
        self.stamps = {name.removeprefix(self._prefix): stamps[name] for name in sorted(stamps)}

    def has_folder(self, name: str) -> bool:
        """Whether there is a folder of that name with files in it."""
        return any(path.startswith(f"{name}/") for path in self.stamps)

    def read(self, name: str) -> bytes:
        """The bytes of a file, by its path in stamps; several threads may read.

        Raises:
            ConfigError: it cannot be read.
        """
        try:
            if self._archive is not None:
                return self._archive.read(self._prefix + name)
            return (self._root / self._prefix / name).read_bytes()
        except UNREADABLE as error:
            raise ConfigError(self._root, f"{name} cannot be read ({error})") from None


def _walk(folder: Path, prefix: str) -> Iterator[tuple[str, str]]:
    """Files with size and time of change; links to folders are followed, as data on clusters is often linked."""
    for path in folder.iterdir():
        if path.name.startswith("."):
            continue
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(path, f"{prefix}{path.name}/")
        else:
            yield f"{prefix}{path.name}", f"{status.st_size} {status.st_mtime_ns}"


def _members(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """Files with size and checksum; macOS adds a tree of its own."""
    for member in archive.infolist():
        parts = member.filename.split("/")
        if not member.is_dir() and parts[0] != "__MACOSX" and not any(part.startswith(".") for part in parts):
            yield member.filename, f"{member.file_size} {member.CRC:08x}"


def _outer_folder(names: dict[str, str], inner: str) -> str:
    """The one folder, with a slash, that all others lie in; empty if there are several or inner is at the top."""
    tops = {name.partition("/")[0] for name in names if "/" in name}  # a README may lie beside it
    return f"{tops.pop()}/" if len(tops) == 1 and inner not in tops else ""
