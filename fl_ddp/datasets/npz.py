"""A user's own arrays."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.datasets.labels import WHOLE, from_words
from fl_ddp.datasets.owners import owners_of
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.protocol import Indices, Inputs, Numbers, Owners
from fl_ddp.reading.archives import UNREADABLE
from fl_ddp.reading.homes import users_path

KEYS = ("x_train", "y_train", "x_test", "y_test")
OF_LABELS = ("y_train", "y_test")
MAYBE = ("classes", "client_train", "client_test")
CHANNELS = (1, 3)


@dataclass(frozen=True)
class NamedArrays(Dataset):
    """Arrays x_train, y_train, x_test, y_test and, if wanted, client_train, client_test and classes, names of labels.

    uint8 arrays are pixels: [N, H, W] is grey; of four axes the second is channels if it is 1 or 3, else the last.
    float arrays are features of any shape, taken as they are, in float32. Other whole numbers [N, length] are tokens.
    Labels are whole numbers, or words: names out of classes, or, without these, numbered in the alphabet's order.
    """

    @abstractmethod
    def raw(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """The arrays by key, as they are stored.

        Raises:
            ConfigError: they cannot be read, or one that is needed is missing.
        """

    def read(self) -> Arrays:
        """Read the arrays; nothing is ever unpickled.

        Raises:
            ConfigError: as raw does, or an array is of a kind not accepted.
        """
        return self.arrays_of(self._numbered(self.raw()))

    def read_numbers(self) -> Arrays:
        """Read the arrays, whose labels have to be numbers."""
        raw = self.raw()
        for key in OF_LABELS:
            if raw[key].dtype.kind in "US":
                raise ConfigError(self.origin(key), "labels are words", "numbers, or --loss cross_entropy")
        return self.arrays_of(raw)

    def arrays_of(self, raw: Mapping[str, npt.NDArray[np.generic]]) -> Arrays:
        """The data set of such arrays, with numbers as labels.

        Raises:
            ConfigError: an array is of a kind not accepted.
        """
        x_train, x_test = (self._inputs(raw[key], key) for key in ("x_train", "x_test"))
        y_train, y_test = (self._targets(raw[key], key) for key in OF_LABELS)
        classes, owners = self._classes(raw.get("classes")), self._owners(raw)
        num_tokens = max(int(np.max(x, initial=-1)) + 1 for x in (x_train, x_test)) if x_train.dtype.kind == "i" else 0
        return Arrays(x_train, y_train, x_test, y_test, classes, owners, num_tokens)

    def _inputs(self, x: npt.NDArray[np.generic], key: str) -> Inputs:
        if x.dtype.kind == "f":
            return np.ascontiguousarray(x)
        if x.dtype.kind in "iu" and x.dtype != np.uint8 and x.ndim == 2:
            return np.ascontiguousarray(x, np.int64)
        if x.dtype == np.uint8 and x.ndim == 3:
            return np.ascontiguousarray(x[:, None], np.uint8)
        if x.dtype == np.uint8 and x.ndim == 4 and x.shape[1] in CHANNELS:
            return np.ascontiguousarray(x, np.uint8)
        if x.dtype == np.uint8 and x.ndim == 4 and x.shape[3] in CHANNELS:
            return np.ascontiguousarray(x.transpose(0, 3, 1, 2), np.uint8)
        raise ConfigError(
            self.origin(key),
            f"{x.dtype} of shape {list(x.shape)} is no input",
            (
                "uint8 pixels [N, H, W], [N, C, H, W] or [N, H, W, C] with C = 1 or 3, floats [N, ...], or tokens "
                "[N, length] of another type of whole numbers"
            ),
        )

    def _numbered(self, raw: Mapping[str, npt.NDArray[np.generic]]) -> Mapping[str, npt.NDArray[np.generic]]:
        """The arrays with numbers in place of words as labels, and the names of the classes."""
        if not all(raw[key].dtype.kind in "US" and raw[key].ndim == 1 for key in OF_LABELS):
            return raw
        words = {key: [self._word(key, each) for each in raw[key].tolist()] for key in OF_LABELS}
        together = [word for key in OF_LABELS for word in words[key]]
        if names := self._classes(raw.get("classes")):
            place = {name: number for number, name in enumerate(names)}
            for key in OF_LABELS:
                if other := next((word for word in words[key] if word not in place), None):
                    raise ConfigError(
                        self.origin(key), f"{other!r} names no class", f"{', '.join(names)}, as classes has it"
                    )
            numbers = np.array([place[word] for word in together], np.int64)
        else:
            numbers, names = from_words(together)
            if numbers.dtype.kind == "f":
                key, word = next((key, word) for key in OF_LABELS for word in words[key] if not WHOLE.fullmatch(word))
                raise ConfigError(self.origin(key), f"{word!r} is no label", "whole numbers from 0 up, or names")
        train, test = np.split(numbers, [len(words[OF_LABELS[0]])])
        return {**raw, "y_train": train, "y_test": test, **({"classes": np.array(names)} if names else {})}

    def _word(self, key: str, given: str | bytes) -> str:
        """A label; two that are not to be told apart would be one class."""
        try:
            word = given.decode() if isinstance(given, bytes) else given
        except UnicodeDecodeError:
            raise ConfigError(self.origin(key), f"label {given!r} is no text in UTF-8") from None
        if not word:
            raise ConfigError(self.origin(key), "a label is an empty word", "names of classes")
        return word

    def _targets(self, y: npt.NDArray[np.generic], key: str) -> Indices | Numbers:
        if y.dtype.kind not in "iufb" or y.ndim not in (1, 2):
            wanted = "whole numbers from 0 up, or words in both parts, [N]; with another --loss numbers [N] or [N, C]"
            raise ConfigError(self.origin(key), f"{y.dtype} of shape {list(y.shape)} are no labels", wanted)
        return y  # type: ignore[return-value]

    def _owners(self, raw: Mapping[str, npt.NDArray[np.generic]]) -> Owners | None:
        train, test = (self._names(raw[key], key) if key in raw else None for key in ("client_train", "client_test"))
        if train is None and test is not None:
            raise ConfigError(self.origin("client_test"), "names clients, and there is no client_train")
        return owners_of(train, test) if train is not None else None

    def _names(self, names: npt.NDArray[np.generic], key: str) -> list[str]:
        if names.ndim != 1:
            raise ConfigError(self.origin(key), f"shape {list(names.shape)} is no list of names", "[N]")
        if key in ("client_train", "client_test") and names.dtype.kind not in "iuSU":
            raise ConfigError(self.origin(key), f"{names.dtype} names no clients", "texts or whole numbers, [N]")
        return [name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names]

    def _classes(self, names: npt.NDArray[np.generic] | None) -> tuple[str, ...]:
        return () if names is None else tuple(self._names(names, "classes"))


@dataclass(frozen=True)
class Npz(NamedArrays):
    """A .npz file with x_train, y_train, x_test, y_test and, if wanted, classes: the names of the labels.

    client_train and client_test, if wanted, name the client of each sample, for --partition Natural.

    Attributes:
        path: the .npz file.
    """

    path: str = ""

    def origin(self, part: str) -> str:
        """The file and the key in it."""
        return f"{self.path}: {part}"

    def raw(self) -> Mapping[str, npt.NDArray[np.generic]]:
        """Read the file."""
        if not self.path:
            raise ConfigError("--data.path", "no file is named", f"a .npz file with {', '.join(KEYS)}")
        return _read_raw(users_path("--data.path", self.path))


def _read_raw(path: Path) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of the file by key."""
    try:
        with path.open("rb") as file:
            start = file.read(6)
        if not start.startswith((b"PK", b"\x93NUMPY")):  # numpy would take it for a pickle
            raise ConfigError(path, "is not a .npz file", f"one with {', '.join(KEYS)}, written by numpy.savez")
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ConfigError(path, "is a single array", f"a .npz file with {', '.join(KEYS)}")
        with archive:
            missing = [key for key in KEYS if key not in archive.files]
            if missing:
                held = ", ".join(archive.files) or "nothing"
                raise ConfigError(path, f"has no {', '.join(missing)}; needed: {', '.join(KEYS)}; it holds {held}")
            return {key: archive[key] for key in (*KEYS, *MAYBE) if key in archive.files}
    except FileNotFoundError:
        raise ConfigError("--data.path", f"{path} does not exist", f"a .npz file with {', '.join(KEYS)}") from None
    except UNREADABLE as error:
        reason = one_line(error)
        raise ConfigError(path, f"cannot be read as .npz of plain arrays ({reason})") from None
