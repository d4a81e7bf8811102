"""AdamW: Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019 (arXiv 1711.05101)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import NonNegative
from fl_ddp.optimizers.adam import Adam
from fl_ddp.optimizers.rule import Rates
from fl_ddp.protocol import Tensors


@dataclass(frozen=True, kw_only=True)
class AdamW(Adam):
    """Adam whose weights shrink beside its steps.

    Attributes:
        weight_decay: share, times --lr, by which weights shrink in a step.
    """

    weight_decay: NonNegative = 0.01

    takes_weight_decay: ClassVar[bool] = False

    def step(self, theta: Tensor, g: Tensor, state: Tensors, count: Tensor, rates: Rates) -> tuple[Tensor, Tensors]:
        """Algorithm 2: weights shrink first."""
        return super().step(theta * (1 - rates.lr * self.weight_decay), g, state, count, rates)
