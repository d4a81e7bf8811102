"""Images of Pillow as arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image


def pixels_of(image: Image.Image, mode: str, size: int | None) -> npt.NDArray[np.uint8]:
    """Pixels [H, W, 3] of mode RGB, or [H, W] of mode L, in so many rows and columns; None takes the image's own.

    Raises:
        ValueError: a channel has more than 8 bits.
    """
    if image.mode.startswith(("I", "F")):
        raise ValueError("more than 8 bits a channel")
    converted = image.convert(mode)
    if size is not None and converted.size != (size, size):
        converted = converted.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(converted, np.uint8)
