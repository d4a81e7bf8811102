"""A user's own arrays, a file each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_ddp.datasets.npz import KEYS, MAYBE, NamedArrays
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.reading.archives import UNREADABLE
from fl_ddp.reading.homes import users_path

ACCEPTED = f"a folder with {', '.join(f'{key}.npy' for key in KEYS)}"


@dataclass(frozen=True)
class Npy(NamedArrays):
    """A folder of x_train.npy, y_train.npy, x_test.npy, y_test.npy and, if wanted, classes.npy: names of the labels.

    client_train.npy and client_test.npy, if wanted, name the client of each sample, for --partition Natural. Arrays are
    as in a .npz file, but mapped into memory, so that the ranks of a machine share them.

    Attributes:
        path: the folder.
    """

    path: str = ""

    def origin(self, part: str) -> str:
        """The file of a part."""
        return str(Path(self.path) / f"{part}.npy")

    def raw(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """Map the files."""
        if not self.path:
            raise ConfigError("--data.path", "no folder is named", ACCEPTED)
        folder = users_path("--data.path", self.path)
        if not folder.is_dir():
            what = "is no folder" if folder.exists() else "does not exist"
            raise ConfigError("--data.path", f"{folder} {what}", ACCEPTED)
        there = [key for key in (*KEYS, *MAYBE) if (folder / f"{key}.npy").is_file()]
        if missing := [f"{key}.npy" for key in KEYS if key not in there]:
            raise ConfigError(folder, f"has no {', '.join(missing)}", ACCEPTED)
        return {key: _mapped(folder / f"{key}.npy") for key in there}


def _mapped(path: Path) -> npt.NDArray[np.generic]:
    try:
        with path.open("rb") as file:
            if not file.read(6).startswith(b"\x93NUMPY"):  # numpy would take it for a pickle
                raise ConfigError(path, "is not a .npy file", "one written by numpy.save")
        # in tensors arrays must be writable: what is written is never stored
        mapped: npt.NDArray[np.generic] = np.load(path, mmap_mode="c", allow_pickle=False)
        return mapped
    except UNREADABLE as error:
        raise ConfigError(path, f"cannot be read as a plain array ({one_line(error)})") from None
