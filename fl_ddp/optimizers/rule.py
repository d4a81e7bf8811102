"""What an optimizer is: a rule for one leaf, told its direction and what the optimizer remembers of it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from fl_ddp.bounds import check_fields
from fl_ddp.protocol import Tensors


class Rates(NamedTuple):
    """Hyper-parameters of a step as tensors [], so that other values do not compile another one.

    Where the learning rate changes over the steps, it is [G].
    """

    lr: Tensor
    momentum: Tensor
    weight_decay: Tensor
    clip_norm: Tensor


@dataclass(frozen=True, kw_only=True)
class Optimizer(ABC):
    """A rule with the names and defaults of torch.optim; its learning rate is --lr.

    Attributes:
        keep: clients go on with what the optimizer remembered after their last round; if not, each round begins anew.
    """

    keep: bool = False

    default_lr: ClassVar[float] = 1e-3
    """Where --lr is not given."""
    takes_momentum: ClassVar[bool] = False
    """Whether --momentum means something to it."""
    takes_weight_decay: ClassVar[bool] = True
    """Whether --weight_decay, which is added to gradients, does."""

    def __post_init__(self) -> None:
        check_fields(self, "--optimizer.")

    @property
    def begins_with(self) -> float:
        """What it remembers before the first step, in all coordinates."""
        return 0.0

    @abstractmethod
    def remembers(self, *, momentum: bool) -> tuple[str, ...]:
        """Names of the vectors that it remembers, in torch's words.

        Args:
            momentum: whether --momentum is above 0.
        """

    @abstractmethod
    def step(self, theta: Tensor, g: Tensor, state: Tensors, count: Tensor, rates: Rates) -> tuple[Tensor, Tensors]:
        """One leaf after a step, and what is remembered of it then.

        Args:
            theta: the leaf.
            g: its gradient, with all that methods and --weight_decay add to it.
            state: what is remembered of it.
            count: [] number of earlier steps.
            rates: of the step.
        """

    def reach(self, state: Tensors, count: Tensor, rates: Rates) -> Tensor:
        """How far a step goes if all gradients so far were 1: the rate at which priors are solved beside it.

        So the steps end where loss and priors balance, however much of the loss's gradient momentum gathers.
        Steps that are divided by a root go as far as --lr, as AdamW's weight decay does.

        Args:
            state: names of what is remembered.
            count: [] number of earlier steps.
            rates: of the step.
        """
        return rates.lr * gathered(rates.momentum, count) if "momentum_buffer" in state else rates.lr


def gathered(momentum: Tensor, count: Tensor, dampening: float = 0.0) -> Tensor:
    """What a momentum [] holds of a gradient that was 1 in so many earlier steps and in this one."""
    past = momentum ** count.to(momentum)
    return past + (1 - dampening) * (1 - past) / (1 - momentum)


def one_less_power(beta: float, exponent: Tensor) -> Tensor:
    """1 - beta ** exponent, which float32 would round where it is near 0; beta in [0, 1)."""
    return -torch.expm1(exponent * math.log(beta)) if beta else torch.ones_like(exponent)
