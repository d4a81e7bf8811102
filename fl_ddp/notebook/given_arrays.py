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
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.notebook.given_datasets import are_datasets, arrays_from
from fl_ddp.notebook.given_file import GivenFile
from fl_ddp.reading.archives import UNREADABLE

GivenArrays = Mapping[str, npt.NDArray[np.generic]]
"""Arrays by their keys in a .npz file."""

ACCEPTED = (
    "(x, y, x_test, y_test), torch's data sets (train, test), also in pairs or by name, a Dataset of fl_ddp.api, or a "
    "name"
)
_PARTS = ("train", "test")


def holds_arrays(given: Mapping[str, object]) -> bool:
    """Whether a mapping is the data by name, as numpy.load() of a .npz file or {"train": ..., "test": ...}.

    Raises:
        ConfigError: it has arrays by other names, or not all.
    """
    if set(KEYS) <= set(given) or set(_PARTS) == set(given) - set(MAYBE):
        _refuse_options(given)
        return not isinstance(given.get(_PARTS[0]), str)  # else names of splits
    is_file = isinstance(given, np.lib.npyio.NpzFile)
    if is_file or any(
        isinstance(x, np.ndarray | Tensor) and x.ndim > 1 for x in given.values()
    ):  # no option is so large
        names = f"({', '.join(KEYS)}), ({', '.join(_PARTS)})"
        raise ConfigError("data", f"arrays by the names {', '.join(map(str, given))}", names)
    return False


def _refuse_options(given: Mapping[str, object]) -> None:
    """Refuse what stands beside arrays and is none; a file of them may hold more."""
    known = (*(KEYS if set(KEYS) <= set(given) else _PARTS), *MAYBE)
    more = [str(key) for key in given if key not in known]
    if more and not isinstance(given, np.lib.npyio.NpzFile):
        accepted = f"{', '.join(MAYBE)} beside arrays, and options by themselves: " + '**{"data.normalize": True}'
        raise ConfigError("data", f"{', '.join(more)} beside arrays", accepted)


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
        found = {key: _read(given, key) for key in given if key in (*KEYS, *_PARTS, *MAYBE)}
        beside = {key: _array(key, found[key]) for key in MAYBE if found.get(key) is not None}
        given = [found[key] for key in (KEYS if set(KEYS) <= set(found) else _PARTS)]
    if len(given) == len(_PARTS) and all(map(_is_pair, given)):
        given = [array for pair in given for array in pair]  # type: ignore[attr-defined]
    if are_datasets(given):
        given, names = arrays_from(given)
    if len(given) != len(KEYS):
        raise ConfigError("data", f"{len(given)} arrays", ACCEPTED)
    arrays: dict[str, npt.NDArray[np.generic]] = {"classes": np.array(names)} if names else {}
    for key, each in zip(KEYS, given, strict=True):
        arrays[key] = _array(key, each)
    return arrays | beside


def _is_pair(given: object) -> bool:
    """Whether it is (x, y), not two samples of a list."""
    return isinstance(given, tuple | list) and len(given) == len(_PARTS) and not isinstance(given[0], tuple)


def _read(given: Mapping[str, object], key: str) -> object:
    """One of what a mapping holds, which may be a file."""
    try:
        return given[key]
    except (*UNREADABLE, AttributeError) as error:
        raise ConfigError(f"data: {key}", f"cannot be read ({one_line(error)})", "an open file of numbers") from error


def _array(key: str, given: object) -> npt.NDArray[np.generic]:
    try:
        array = array_of(given, _not_taken(key)) if isinstance(given, Tensor) else np.asarray(given)
    except ValueError:
        raise ConfigError(f"data: {key}", f"{type(given).__name__} whose parts are not alike", "an array") from None
    if array.dtype.kind == "T" or (array.dtype.hasobject and all(isinstance(each, str) for each in array.flat)):
        array = array.astype(str)
    if array.dtype.hasobject or not array.ndim:
        kinds = "numbers" if key.startswith("x_") else "numbers or words"
        raise ConfigError(f"data: {key}", f"{type(given).__name__} is no array of {kinds}")
    return np.ascontiguousarray(array)


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
