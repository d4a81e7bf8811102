"""Arrays that a notebook has, as a file that a run can be repeated and resumed from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from torch import Tensor

from fl_ddp.datasets.kinds import array_of
from fl_ddp.datasets.npz import KEYS, MAYBE, NamedArrays
from fl_ddp.errors import ConfigError
from fl_ddp.notebook.given_datasets import are_datasets, arrays_from
from fl_ddp.notebook.given_file import GivenFile

GivenArrays = Mapping[str, npt.NDArray[np.generic]]
"""Arrays by their keys in a .npz file."""

ACCEPTED = "(x, y, x_test, y_test), torch's data sets (train, test), a Dataset of fl_ddp.api, or a name"
_PARTS = ("train", "test")


def holds_arrays(given: Mapping[str, object]) -> bool:
    """Whether a mapping is the data by name, as numpy.load() of a .npz file or {"train": ..., "test": ...}.

    Raises:
        ConfigError: it has arrays by other names.
    """
    if set(KEYS) <= set(given) or set(given) == set(_PARTS):
        return True
    if any(isinstance(each, np.ndarray | Tensor) and each.ndim > 1 for each in given.values()):  # no option is so large
        raise ConfigError("data", f"arrays by the names {', '.join(map(str, given))}", f"{', '.join(KEYS)}; {ACCEPTED}")
    return False


def as_arrays(given: Sequence[object] | Mapping[str, object]) -> GivenArrays:
    """Training and test inputs and labels, and what may be beside them, by their keys in a .npz file.

    Args:
        given: (x, y, x_test, y_test), each a numpy array, a tensor on any device, or what numpy makes an array of; or
            ((x, y), (x_test, y_test)); or torch's data sets, (train, test); or either by name, see holds_arrays.

    Raises:
        ConfigError: there are not four, or one is no array of numbers; or as arrays_from does.
    """
    names, beside = tuple[str, ...](), dict[str, npt.NDArray[np.generic]]()
    if isinstance(given, Mapping):
        beside = {key: np.asarray(given[key]) for key in MAYBE if key in given}
        given = [given[key] for key in (KEYS if set(KEYS) <= set(given) else _PARTS)]
    if len(given) == len(_PARTS) and all(isinstance(each, tuple | list) and len(each) == len(_PARTS) for each in given):
        given = [array for pair in given for array in pair]  # type: ignore[attr-defined]
    if are_datasets(given):
        given, names = arrays_from(given)
    if len(given) != len(KEYS):
        raise ConfigError("data", f"{len(given)} arrays", ACCEPTED)
    arrays: dict[str, npt.NDArray[np.generic]] = {"classes": np.array(names)} if names else {}
    for key, each in zip(KEYS, given, strict=True):
        array = array_of(each, _not_taken(key)) if isinstance(each, Tensor) else np.asarray(each)
        if array.dtype.hasobject or not array.ndim:
            raise ConfigError(f"data: {key}", f"{type(each).__name__} is no array of numbers")
        arrays[key] = np.ascontiguousarray(array)
    return arrays | beside


def _not_taken(key: str) -> Callable[[str, str], ConfigError]:
    return lambda what, accepted: ConfigError(f"data: {key}", what, accepted)


@dataclass(frozen=True)
class InMemory(NamedArrays):
    """Arrays that a caller has, which are looked at before they are kept.

    Attributes:
        given: arrays by key.
    """

    given: GivenArrays = field(default_factory=dict)

    def origin(self, part: str) -> str:
        """The argument and its part."""
        return f"data: {part}"

    def raw(self) -> GivenArrays:
        """They are there."""
        return self.given


def arrays_file(arrays: GivenArrays) -> GivenFile:
    """What Npz reads."""
    found = hashlib.sha256()
    for key, array in arrays.items():
        found.update(f"{key} {array.dtype.str} {list(array.shape)}".encode())
        found.update(array.reshape(-1).view(np.uint8).data)
    return GivenFile(f"{found.hexdigest()[:16]}.npz", lambda file: np.savez(file, allow_pickle=False, **arrays))
