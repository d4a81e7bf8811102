"""SCAFFOLD: Karimireddy et al., Stochastic Controlled Averaging for Federated Learning, ICML 2020 (arXiv 1910.06378).

Algorithm 1, option II. With momentum local progress is lr * ||a_k||_1 (FedNova's norm) in place of lr * T_k, without
which option II would overestimate the gradient by up to 1 / (1 - momentum).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class Scaffold(FedAvg):
    """FedAvg whose clients correct their gradients by control variates; the mean over the cohort is uniform.

    Attributes:
        weights: uniform, as the paper's.
    """

    weights: Literal["data", "uniform"] = "uniform"

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "c")
    neutral: ClassVar[Mapping[str, float] | None] = None
    keeps_optimizer: ClassVar[bool] = False
    counts_sgd_steps: ClassVar[bool] = True

    def refuse(self, plan: Plan, told_task: bool) -> None:
        """Shortened gradients: line 12 takes what a client moved for their mean."""
        if plan.clip_norm:
            what = f"{plan.clip_norm:g}, but Scaffold takes what a client moved for the mean of its gradients"
            raise ConfigError("--clip_norm", what, "null, or another method")

    def init(self) -> Tensors:
        """The model and a zero control variate c."""
        theta = self.model.init()
        return {"theta": theta, "c": torch.zeros_like(theta)}

    def init_client(self) -> Tensors:
        """A zero control variate c_k."""
        return {"c": torch.zeros_like(self.model.init())}

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Line 10: g - c_k + c."""
        return g - mine["c"] + server["c"]

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training, then line 12: c_k+ = c_k - c + (x - y) / (T_k lr); a client without steps keeps c_k."""
        trained = group.train(server["theta"], self, server, memory)
        steps = group.momentum_steps[:, None].to(trained.theta.dtype)
        c = memory["c"] - server["c"] + (server["theta"] - trained.theta) / (steps * group.plan.lr)
        c = torch.where(steps > 0, c, memory["c"])
        sums = self.average(group, server, trained) | {"c": Term(c, minus=memory["c"])}
        return Upload(sums, trained.theta, memory={"c": c})

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Lines 16-17: c moves by |S| / N times the cohort's mean change, so that it stays the mean over all c_k."""
        c = (server["c"] + total.sums["c"] / info.num_clients).to(server["c"].dtype)
        return super().server_update(server, total, info) | {"c": c}
