"""What a data source gives to a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Arrays:
    """A data set in memory.

    Attributes:
        x_train: [N, channels, height, width] uint8 pixels, or float32 features of any shape [N, ...], taken as they are.
        y_train: [N] int64 labels from 0 up.
        x_test: [M, ...] like x_train.
        y_test: [M] int64.
        classes: names of the labels, in their order.
    """

    x_train: npt.NDArray[np.uint8] | npt.NDArray[np.float32]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[np.uint8] | npt.NDArray[np.float32]
    y_test: npt.NDArray[np.int64]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Dataset(ABC):
    """A source of images and labels; its fields are its options.

    Attributes:
        normalize: subtract the training set's mean and divide by its deviation, per channel, after pixels became [0, 1].
    """

    normalize: bool = False

    @abstractmethod
    def load(self) -> Arrays:
        """Read the data.

        Raises:
            ConfigError: it is missing, cut short or not what it should be; the message says what was looked for, where,
                and how to get it.
        """
