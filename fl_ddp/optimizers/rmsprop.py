"""RMSprop: Tieleman and Hinton, lecture 6e of Neural Networks for Machine Learning, 2012; centered as Graves 2013."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import BelowOne, NonNegative
from fl_ddp.optimizers.rule import Optimizer, Rates
from fl_ddp.protocol import Tensors


@dataclass(frozen=True, kw_only=True)
class RMSprop(Optimizer):
    """Steps along the gradient, divided by the root of its mean square, with --momentum.

    Attributes:
        alpha: weight of the past in the mean.
        eps: added to the root.
        centered: divide by the root of the variance.
    """

    alpha: BelowOne = 0.99
    eps: NonNegative = 1e-8
    centered: bool = False

    default_lr: ClassVar[float] = 1e-2
    takes_momentum: ClassVar[bool] = True

    def remembers(self, *, momentum: bool) -> tuple[str, ...]:
        """The means, and the momentum."""
        return ("square_avg", *(["grad_avg"] if self.centered else []), *(["momentum_buffer"] if momentum else []))

    def step(self, theta: Tensor, g: Tensor, state: Tensors, count: Tensor, rates: Rates) -> tuple[Tensor, Tensors]:
        """As torch.optim.RMSprop."""
        square = self.alpha * state["square_avg"] + (1 - self.alpha) * g.square()
        after = {"square_avg": square}
        if self.centered:
            mean = self.alpha * state["grad_avg"] + (1 - self.alpha) * g
            after["grad_avg"], square = mean, (square - mean.square()).clamp_min(0)
        d = g / (square.sqrt() + self.eps)
        if "momentum_buffer" in state:
            d = rates.momentum * state["momentum_buffer"] + d
            after["momentum_buffer"] = d
        return theta - rates.lr * d, after
