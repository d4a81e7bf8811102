"""What options can say of losses; without torch, which commands need not wait for."""

from typing import Literal

LossName = Literal["cross_entropy", "mse", "bce"]
