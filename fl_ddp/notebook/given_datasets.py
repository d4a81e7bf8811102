"""torch's own data sets, (train, test), as arrays: what they give once is what a run has in all its rounds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import Dataset

from fl_ddp.errors import ConfigError, one_line

Column = npt.NDArray[np.generic]
_PARTS = ("train", "test")


def are_datasets(given: Sequence[object]) -> bool:
    """Whether all of them are torch's, two at least."""
    return len(given) > 1 and all(isinstance(each, Dataset) for each in given)


def arrays_from(given: Sequence[object]) -> tuple[tuple[Column, Column, Column, Column], tuple[str, ...]]:
    """Inputs and labels of a training and a test set, (x, y, x_test, y_test), and the classes that torchvision names.

    Raises:
        ConfigError: there are not two, or a sample is no pair of an input and a label like that of the others.
    """
    if len(given) != len(_PARTS):
        raise ConfigError("data", f"{len(given)} data sets", "(train, test)")
    (x, y), (x_test, y_test) = (_columns(part, each) for part, each in zip(_PARTS, given, strict=True))
    names = getattr(given[0], "classes", None)
    named = names if isinstance(names, list) and all(isinstance(each, str) for each in names) else []
    return (x, y, x_test, y_test), tuple(named)


def _columns(part: str, dataset: object) -> tuple[Column, Column]:
    where = f"data: {part}"
    try:
        size = len(dataset)  # type: ignore[arg-type]
    except TypeError:
        what = f"{type(dataset).__name__} does not know how many samples it has"
        raise ConfigError(where, what, "a data set with __len__ and __getitem__") from None
    samples = [_pair(where, number, dataset[number]) for number in range(size)]  # type: ignore[index]
    if not samples:
        raise ConfigError(where, "has no samples", "one at least")
    try:
        inputs, labels = (np.stack(column) for column in zip(*samples, strict=True))
    except ValueError as error:
        raise ConfigError(where, f"its samples are not alike ({one_line(error)})", "a transform to one size") from None
    return inputs, labels


def _pair(where: str, number: int, sample: object) -> tuple[Column, Column]:
    if not isinstance(sample, Sequence) or len(sample) != 2:
        raise ConfigError(where, f"sample {number} is {type(sample).__name__}", "(input, label)")
    # an image of Pillow's is an array to numpy
    x, y = (each.detach().cpu().numpy() if isinstance(each, Tensor) else np.asarray(each) for each in sample)
    if x.dtype.hasobject or y.dtype.hasobject or x.dtype.kind in "US" or y.dtype.kind in "US":
        kinds = " and ".join(type(each).__name__ for each in sample)
        raise ConfigError(where, f"sample {number} is {kinds}", "numbers, arrays, tensors or images, and a number")
    return x, y
