"""Stochastic gradient descent, with momentum as torch.optim.SGD has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fl_ddp.bounds import UnitInterval
from fl_ddp.errors import ConfigError
from fl_ddp.optimizers.rule import Optimizer, Rates, gathered
from fl_ddp.protocol import Tensors


@dataclass(frozen=True, kw_only=True)
class SGD(Optimizer):
    """Gradient descent, with --momentum.

    Attributes:
        nesterov: look ahead along the momentum; needs --momentum, and no dampening.
        dampening: share of a gradient that does not go into the momentum; of the first one all does.
    """

    nesterov: bool = False
    dampening: UnitInterval = 0.0

    default_lr: ClassVar[float] = 0.1
    takes_momentum: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and self.dampening:
            raise ConfigError("--optimizer.dampening", f"{self.dampening}, but Nesterov momentum has none", "0")

    def remembers(self, *, momentum: bool) -> tuple[str, ...]:
        """The momentum, if there is one."""
        return ("momentum_buffer",) if momentum else ()

    def step(self, theta: Tensor, g: Tensor, state: Tensors, count: Tensor, rates: Rates) -> tuple[Tensor, Tensors]:
        """Theta - lr (rho b + g)."""
        if not state:
            return theta - rates.lr * g, {}
        new = torch.where(count > 0, (1 - self.dampening) * g, g) if self.dampening else g
        buffer = rates.momentum * state["momentum_buffer"] + new
        d = g + rates.momentum * buffer if self.nesterov else buffer
        return theta - rates.lr * d, {"momentum_buffer": buffer}

    def reach(self, state: Tensors, count: Tensor, rates: Rates) -> Tensor:
        """Of the first gradient nothing is dampened."""
        if not state:
            return rates.lr
        buffer = gathered(rates.momentum, count, self.dampening)
        return rates.lr * (1 + rates.momentum * buffer if self.nesterov else buffer)
