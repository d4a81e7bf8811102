"""Adagrad: Duchi et al., Adaptive Subgradient Methods for Online Learning and Stochastic Optimization, JMLR 2011."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import NonNegative
from fl_ddp.optimizers.rule import Optimizer, Rates
from fl_ddp.protocol import Tensors


@dataclass(frozen=True, kw_only=True)
class Adagrad(Optimizer):
    """Steps along the gradient, divided by the root of the sum of all squared ones.

    Attributes:
        lr_decay: the learning rate in step t, from 0, is lr / (1 + t lr_decay).
        initial_accumulator_value: what the sum begins with.
        eps: added to the root.
    """

    lr_decay: NonNegative = 0.0
    initial_accumulator_value: NonNegative = 0.0
    eps: NonNegative = 1e-10

    default_lr: ClassVar[float] = 1e-2

    @property
    def begins_with(self) -> float:
        """The sum."""
        return self.initial_accumulator_value

    def remembers(self, *, momentum: bool) -> tuple[str, ...]:
        """The sum."""
        return ("sum",)

    def step(self, theta: Tensor, g: Tensor, state: Tensors, count: Tensor, rates: Rates) -> tuple[Tensor, Tensors]:
        """Figure 1, diagonal."""
        total = state["sum"] + g.square()
        return theta - self.reach(state, count, rates) * g / (total.sqrt() + self.eps), {"sum": total}

    def reach(self, state: Tensors, count: Tensor, rates: Rates) -> Tensor:
        """The learning rate, which lr_decay lets fall."""
        return rates.lr / (1 + count.to(rates.lr) * self.lr_decay) if self.lr_decay else rates.lr
