"""FedNova: Wang et al., Tackling the Objective Inconsistency Problem, NeurIPS 2020 (arXiv 2007.07481), eq. 9-12.

Plain SGD, momentum rho = the clients' momentum, or a proximal term mu: the paper gives no coefficients for both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fl_ddp.bounds import NonNegative
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class FedNova(FedAvg):
    """Average the clients' changes per unit of local progress, so that many local steps do not bend the objective.

    Attributes:
        mu: strength of the proximal term; needs --momentum 0.
    """

    mu: NonNegative = 0.0

    neutral: ClassVar[Mapping[str, float] | None] = None
    coefficients: ClassVar[tuple[str, ...]] = ("mu",)
    keeps_optimizer: ClassVar[bool] = False
    counts_sgd_steps: ClassVar[bool] = True

    def refuse(self, plan: Plan, told_task: bool) -> None:
        """A proximal term with momentum, for which the paper gives no step coefficients."""
        if self.mu > 0 and plan.momentum > 0:
            what = f"{self.mu:g}, but FedNova has no rule for a proximal term with momentum"
            raise ConfigError("--method.mu", what, "0, or --momentum 0 beside it")

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """The proximal term."""
        return self.mu / 2 * (theta - server["theta"]).square().sum()

    def progress(self, group: Group) -> Tensor:
        """The norm ||a_k||_1 of each client's step coefficients [G], float64, as float32 loses a small lr mu."""
        if self.mu == 0:
            return group.momentum_steps
        shrink = group.plan.lr * self.mu * group.lr_factor
        return group.lr_factor * (1 - (1 - shrink) ** group.steps.double()) / shrink

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training, then the normalised change d_k = (theta_t - theta^k) / ||a_k||_1, weighted by data.

        A client without a full batch, which takes no step, lessens the mean change as FedAvg's does, and not tau_eff.
        """
        a = self.progress(group)
        trained = group.train(server["theta"], self, server, memory)
        sums = self.average(group, server, trained)
        weight = group.n if self.weights == "data" else group.real
        sums["delta"] = Term(trained.theta, minus=server["theta"], weight=torch.where(a > 0, weight / a, 0))
        sums["steps"] = Term((group.steps * group.lr_factor).to(group.n) if self.mu > 0 else a, weight=weight)
        # ||a_k||_1 tells the server who is active
        return Upload(sums | {"active": torch.where(a > 0, weight, 0)}, trained.theta, sent=sums)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Take tau_eff = sum p_k ||a_k||_1 normalised steps; with a proximal term sum p_k tau_k (official code)."""
        active = total.sums["active"]
        theta, tau_eff = server["theta"], total.sums["steps"] / torch.where(active > 0, active, 1)
        return {"theta": (theta + self.server_lr * tau_eff * self.mean_delta(total)).to(theta.dtype)}
