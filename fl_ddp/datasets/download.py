"""Data sets that torchvision knows where to download: the files looked for, and how they get there."""

from __future__ import annotations

import http.client
import socket
import sys
import tempfile
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.host.atomic_file import by_one_process, move_synced
from fl_ddp.reading.archives import UNREADABLE

STALLED_SECONDS = 30.0


@dataclass(frozen=True)
class Downloadable(Dataset):
    """A data set of known files in a folder below root.

    Attributes:
        root: folder of all data sets, laid out as torchvision does.
        download: fetch files that are missing. Of several processes one downloads while the others wait for its files.
    """

    root: str = "data"
    download: bool = False

    @property
    @abstractmethod
    def folder(self) -> Path:
        """Where the files lie."""

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """Names of the files in folder."""

    @abstractmethod
    def fetch(self, into: Path) -> Path:
        """Download and unpack into an empty folder; returns the folder below it that holds the files.

        Raises:
            OSError, RuntimeError: as torchvision's download does.
        """

    @abstractmethod
    def parse(self) -> Arrays:
        """Read the files, all of which exist."""

    def find(self, name: str) -> Path | None:
        """The file of that name, if it is there."""
        path = self.folder / name
        return path if path.is_file() else None

    def read(self) -> Arrays:
        """Read the files; see the class for download.

        Raises:
            ConfigError: a file is missing and cannot be fetched, or is damaged.
        """
        self.require_files()
        return self.parse()

    def require_files(self) -> None:
        """Fetch files that are missing, if that is asked for.

        Raises:
            ConfigError: a file is missing and cannot be fetched.
        """
        if self.download and self._missing():
            self._download()
        if missing := self._missing():
            raise ConfigError(
                f"--data {type(self).__name__}",
                (
                    f"looked for {', '.join(missing)} in {self.folder}, not found; get it with "
                    "--data.download true, or name the folder that holds it with --data.root"
                ),
            )

    def damaged(self, path: Path, what: str) -> ConfigError:
        """The error for a file that is not what it should be."""
        return ConfigError(path, f"{what}; delete it and fetch it anew with --data.download true")

    def _missing(self) -> list[str]:
        return [name for name in self.files if self.find(name) is None]

    def _download(self) -> None:
        """Fetch beside the folder and move complete files in, so that no half file is ever found."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with by_one_process(self.folder / ".download.lock", self.folder):
                if not (missing := self._missing()):
                    return
                with tempfile.TemporaryDirectory(dir=self.folder, prefix=".download-") as into, _patience():
                    fetched = self.fetch(Path(into))
                    for name in missing:
                        move_synced(fetched / name, self.folder / name)
        except (*UNREADABLE, http.client.HTTPException) as error:
            reason = one_line(error) or type(error).__name__
            raise ConfigError(
                "--data.download",
                (
                    f"{type(self).__name__} could not be fetched ({reason}); without internet, put "
                    f"{', '.join(self.files)} into {self.folder}"
                ),
            ) from None


@contextmanager
def _patience() -> Iterator[None]:
    """Give up on a silent server, which urllib by default never does, and keep torchvision's chatter off stdout."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(STALLED_SECONDS)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        socket.setdefaulttimeout(before)
