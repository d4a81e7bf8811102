"""Decoded images kept from run to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_ddp.datasets.dataset import Arrays
from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import by_one_process, replacing
from fl_ddp.host.environment import cache_folder
from fl_ddp.protocol import Owners
from fl_ddp.reading.archives import UNREADABLE


def cached(name: str, build: Callable[[], Arrays]) -> Arrays:
    """Arrays from the user's cache folder, or built and put there; of several processes one builds, the others wait.

    Args:
        name: says all that the arrays depend on. A file that is damaged is built anew.
        build: makes the arrays.

    Raises:
        ConfigError: the cache folder cannot be written, or as build does.
    """
    folder = cache_folder() / "datasets"
    path = folder / f"{name}.npz"
    if (arrays := _load(path)) is not None:
        return arrays
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with by_one_process(path.with_suffix(".lock"), path):
            if (arrays := _load(path)) is None:
                arrays = build()
                with replacing(path) as file:
                    np.savez(file, allow_pickle=False, **_by_key(arrays))
        return arrays
    except OSError as error:
        raise ConfigError(path, f"cannot be written ({error}); set XDG_CACHE_HOME to a folder that can") from None


def _load(path: Path) -> Arrays | None:
    """What is in the cache, if it can be read to the end (zip members carry checksums)."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            classes = tuple(str(name) for name in archive["classes"])
            x_train, y_train, x_test, y_test = (archive[key] for key in ("x_train", "y_train", "x_test", "y_test"))
            owners = None
            if "clients" in archive:
                names = tuple(str(name) for name in archive["clients"])
                owners = Owners(names, archive["client_train"], archive.get("client_test"))
        return Arrays(x_train, y_train, x_test, y_test, classes, owners=owners)
    except (*UNREADABLE, KeyError):
        return None


def _by_key(arrays: Arrays) -> dict[str, npt.NDArray[np.generic]]:
    """What the cache keeps."""
    kept = {key: getattr(arrays, key) for key in ("x_train", "y_train", "x_test", "y_test")}
    kept["classes"] = np.array(arrays.classes)
    if arrays.owners:
        kept |= {"clients": np.array(arrays.owners.names), "client_train": arrays.owners.train}
        kept |= {} if arrays.owners.test is None else {"client_test": arrays.owners.test}
    return kept
