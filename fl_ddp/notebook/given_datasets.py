"""torch's own data sets, (train, test), as arrays: what they give once is what a run has in all its rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from fl_ddp.datasets.kinds import array_of
from fl_ddp.errors import ConfigError, one_line, some_of
from fl_ddp.guards.global_random import refuse_global_draws

Column = npt.NDArray[np.generic]
_PARTS = ("train", "test")
_NUMBERS = "biufc"
_LOOKED_AT = 16
"""Samples that are read again to find the line that draws."""


def are_datasets(given: Sequence[object]) -> bool:
    """Whether all of them are torch's, two at least."""
    return len(given) > 1 and all(isinstance(each, Dataset) for each in given)


def arrays_from(given: Sequence[object]) -> tuple[tuple[Column, Column, Column, Column], tuple[str, ...]]:
    """Inputs and labels of a training and a test set, (x, y, x_test, y_test), and the classes that torchvision names.

    Raises:
        ConfigError: there are not two, or a sample is no pair of an input and a label like that of the others.
        RunError: samples are drawn at random each time they are read.
    """
    if len(given) != len(_PARTS):
        raise ConfigError("data", f"{len(given)} data sets", "(train, test)")
    (x, y), (x_test, y_test) = (_columns(part, each) for part, each in zip(_PARTS, given, strict=True))
    told = getattr(given[0], "classes", None)
    names = told if isinstance(told, list) and all(isinstance(each, str) for each in told) else []
    # a transform of labels may have made others of them, of which no name is known
    labels = [each.astype(np.int64) for each in (y, y_test) if each.dtype.kind in "iu"]
    known = len(labels) == len(_PARTS) and all(bool((each >= 0).all()) for each in labels)
    fits = known and len(names) == 1 + max(int(np.max(each)) for each in labels)
    return (x, y, x_test, y_test), tuple(names) if fits else ()


def _columns(part: str, dataset: object) -> tuple[Column, Column]:
    where = f"data: {part}"
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
        what = f"{type(dataset).__name__} does not tell how many samples it has, or gives none by its number"
        raise ConfigError(where, what, "a data set with __len__ and __getitem__")
    size = len(dataset)

    def read(some: int = size) -> list[tuple[Column, Column]]:
        return [_pair(where, number, dataset[number]) for number in range(some)]  # type: ignore[index]

    once = "nothing there: a sample is read once, and stays so in all rounds; augment crops and flips in every step"
    what = f"{where}: a sample of {type(dataset).__name__}"
    with refuse_global_draws(what, once, lambda: read(min(size, _LOOKED_AT))):
        samples = read()
    if not samples:
        raise ConfigError(where, "has no samples", "one at least")
    if len(kinds := dict.fromkeys(x.dtype.name for x, _ in samples)) > 1:
        raise ConfigError(where, f"its inputs are {' and '.join(kinds)}", "a transform to one type")
    try:
        inputs, labels = (np.stack(column) for column in zip(*samples, strict=True))
    except ValueError as error:
        raise ConfigError(where, f"its samples are not alike ({one_line(error)})", "a transform to one size") from None
    return inputs, labels


def _pair(where: str, number: int, sample: object) -> tuple[Column, Column]:
    if isinstance(sample, Mapping):
        raise ConfigError(where, f"sample {number} has {some_of([*map(str, sample)])}", "(input, label), two of them")
    if not isinstance(sample, Sequence) or isinstance(sample, str) or len(sample) != 2:
        length = f" of {len(sample)}" if isinstance(sample, Sequence) else ""
        raise ConfigError(where, f"sample {number} is {type(sample).__name__}{length}", "(input, label)")
    accepted = "numbers, arrays, tensors or images, and a number or a word"

    def refused(what: str, _: str) -> ConfigError:
        return ConfigError(where, f"sample {number} is {what}", accepted)

    def column(given: object, kinds: str) -> Column:
        if getattr(given, "mode", None) == "P":  # its pixels are numbers of colours
            raise refused("an image with a palette; .convert('RGB') has its colours", "")
        if isinstance(given, Tensor):
            return array_of(given, refused) if given.ndim else array_of(given.reshape(1), refused)[0]
        try:  # an image of Pillow's is an array to numpy
            found = np.asarray(given)
        except (ValueError, TypeError, RuntimeError) as error:
            raise refused(f"no array ({one_line(error)})", "") from None
        if found.dtype.kind not in kinds:
            raise refused(type(given).__name__, "")
        return found

    x, label = sample
    return column(x, _NUMBERS), column(label, _NUMBERS + "U")
