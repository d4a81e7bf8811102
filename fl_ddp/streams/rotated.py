"""Tasks that differ by a turn of the images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from fl_ddp.bounds import Count, Positive
from fl_ddp.errors import ConfigError
from fl_ddp.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Rotated(Stream):
    """Every task has all images, turned by a multiple of an angle; what turns in from outside is 0.

    Attributes:
        tasks: their number.
        angle: between two tasks, in degrees, counter-clockwise.

    Source: Lopez-Paz and Ranzato 2017 (arXiv:1706.08840), whose angles are random.
    """

    tasks: Count = 4
    angle: Positive = 45.0

    @property
    def num_tasks(self) -> int:
        """As many as were asked for."""
        return self.tasks

    def inputs(self, task: int, x: Tensor, rng: np.random.Generator) -> Tensor:
        """Images [n, channels, height, width]."""
        if x.ndim != 4:
            raise ConfigError("--stream", f"Rotated turns images, and samples have the shape {list(x.shape[1:])}")
        # they take a second to import, which --help need not wait for
        from torchvision.transforms.v2 import InterpolationMode
        from torchvision.transforms.v2.functional import rotate_image

        turn = task * self.angle
        return rotate_image(x, turn, interpolation=InterpolationMode.BILINEAR) if turn % 360 else x
