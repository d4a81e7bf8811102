"""What options offer, without what carries it out, so that commands need not wait for torch."""

from __future__ import annotations

from typing import Literal

Augmentation = Literal["crop", "flip"]
Convolution = Literal["auto", "cudnn"]
