"""Adam: Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015 (arXiv 1412.6980)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fl_ddp.bounds import BelowOne, NonNegative
from fl_ddp.optimizers.rule import Optimizer, Rates, one_less_power
from fl_ddp.protocol import Tensors


@dataclass(frozen=True, kw_only=True)
class Adam(Optimizer):
    """Steps along the mean gradient, divided by the root of the mean squared one.

    Attributes:
        betas: weights of the past in the two means.
        eps: added to the root.
        amsgrad: divide by the largest mean so far, whose name that is.
    """

    betas: tuple[BelowOne, BelowOne] = (0.9, 0.999)
    eps: NonNegative = 1e-8
    amsgrad: bool = False

    def remembers(self, *, momentum: bool) -> tuple[str, ...]:
        """Both means, and the largest of the second."""
        return ("exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if self.amsgrad else []))

    def step(self, theta: Tensor, g: Tensor, state: Tensors, count: Tensor, rates: Rates) -> tuple[Tensor, Tensors]:
        """Algorithm 1, with eps beside the root of the unbiased mean."""
        first, second = self.betas
        mean = first * state["exp_avg"] + (1 - first) * g
        square = second * state["exp_avg_sq"] + (1 - second) * g.square()
        after = {"exp_avg": mean, "exp_avg_sq": square}
        if self.amsgrad:
            square = torch.maximum(state["max_exp_avg_sq"], square)
            after["max_exp_avg_sq"] = square
        steps = (count + 1).to(g)
        root = (square / one_less_power(second, steps)).sqrt() + self.eps
        return theta - rates.lr / one_less_power(first, steps) * mean / root, after
