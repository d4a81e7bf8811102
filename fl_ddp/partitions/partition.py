"""What a partition is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Partition(ABC):
    """A way to divide a training set; its fields are its options.

    Attributes:
        seed: of the division; null follows the run's seed.
        min_size: least number of samples of any client.
    """

    seed: int | None = None
    min_size: int = 1

    @abstractmethod
    def split(
        self, labels: npt.NDArray[np.int64], num_clients: int, rng: np.random.Generator
    ) -> list[npt.NDArray[np.int64]]:
        """Divide the samples among the clients.

        Args:
            labels: [N] label of each training sample.
            num_clients: number of parts.
            rng: source of all randomness.

        Returns:
            one array of sample indices per client, disjoint.

        Raises:
            ConfigError: no such division exists (the message names the option).
        """
