"""FedCL: Yao and Sun, Continual Local Training for Better Initialization of Federated Models, ICIP 2020.

arXiv 2005.12657, Eq. 1-3 and Algorithm 1. Its text leaves open what Omega is: `omega` names the readings. The official
code takes one number per tensor from squares of batch gradients (`per_tensor`) and has clients without Omega estimate
it themselves (`missing: local`); the text, and the defaults here, take a Fisher information and the identity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import Count, CountOrZero, NonNegative, Positive, Share
from fl_ddp.engine.group import Group
from fl_ddp.importance.fedcl_omega import Reading, omega_sum
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Quadratic, Round, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class FedCL(FedAvg):
    """FedAvg whose clients stay near the received model where the server's own samples say that it matters.

    Attributes:
        lam: strength of the penalty lam sum Omega (theta - theta_t)^2, without 1/2.
        every: rounds between two measurements of Omega, the paper's N, from the first round on; 0 never measures it
            (with missing: local, what the official code does by default).
        omega: per_param_sq (mean squared gradient), per_param_abs, per_tensor (the official code's), global (mean norm
            of a sample's gradient), mas (gradient of the squared norm of the logits) or si (path integral).
        missing: Omega of a round that sends none: identity, skip (no penalty), last (as last received) or local (the
            client measures it on its own samples).
        proxy: share of the clients' samples that the server has copies of.
        proxy_batch: samples of a batch on the server.
        xi: damping of si.
        penalty_step: explicit, or proximal, which is stable for any lam.
    """

    lam: NonNegative = 0.5
    every: CountOrZero = 1
    omega: Reading = "per_param_sq"
    missing: Literal["identity", "local", "skip", "last"] = "identity"
    proxy: Share = 0.01
    proxy_batch: Count = 64
    xi: Positive = 1e-3
    penalty_step: Literal["explicit", "proximal"] = "explicit"

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "omega")
    neutral: ClassVar[Mapping[str, float] | None] = {"lam": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("lam",)

    @property
    def proxy_whole(self) -> bool:
        """A path runs through all samples."""
        return self.omega == "si"

    @property
    def keeps_optimizer(self) -> bool:
        """A client's own path is a training of theta before the round's."""
        return self.omega != "si" or self.missing != "local"

    def init(self) -> Tensors:
        """The model, and the Omega of a client that received none."""
        theta = self.model.init()
        return {"theta": theta, "omega": torch.full_like(theta, float(self.missing != "skip"))}

    def init_client(self) -> Tensors:
        """The Omega last received; the identity before."""
        return {"omega": torch.ones_like(self.model.init())} if self.missing == "last" else {}

    def sent(self, in_round: Round) -> tuple[str, ...]:
        """Omega travels when it was measured."""
        return self.broadcast if self.measures(in_round.index) else ("theta",)

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """Readings of one number a tensor, or of one in all, travel as such."""
        numbers = {"per_tensor": len(self.model.shapes), "global": 1}.get(self.omega)
        if numbers is None or not self.measures(in_round.index):
            return super().sent_bytes(server, in_round)
        return server["theta"].nbytes + numbers * server["omega"].element_size()

    def measures(self, round_index: int) -> bool:
        """Algorithm 1: every N rounds."""
        return self.every > 0 and round_index % self.every == 0

    def measure(self, group: Group, server: Tensors) -> dict[str, Tensor | Term]:
        """Omega's sum over the server's samples at the present model, and by what to divide it."""
        omega, count = self._sum(group, server["theta"])
        return {"omega": omega, "count": count}

    def measured(self, server: Tensors, total: Total) -> Tensors:
        """Omega, the mean."""
        omega = total.sums["omega"] / total.sums["count"]
        return server | {"omega": omega.to(server["omega"].dtype)}

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """Eq. 3."""
        omega = (mine if "omega" in mine else server)["omega"]
        return (Quadratic(2 * self.lam * omega, server["theta"], exact=self.penalty_step == "proximal"),)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training near the received model."""
        mine = memory
        if self.missing in ("local", "last") and self.measures(group.round):
            mine = {"omega": server["omega"].expand(group.lanes, -1)}
        elif self.missing == "local":
            omega, count = self._sum(group, self.received(group, server["theta"]))
            mine = {"omega": omega / count.clamp_min(1)[:, None]}
        trained = group.train(server["theta"], self, server, mine)
        return Upload(self.average(group, server, trained), trained.theta, mine if self.missing == "last" else {})

    def _sum(self, group: Group, theta: Tensor) -> tuple[Tensor, Tensor]:
        return omega_sum(group, theta, self.model, self.omega, self.proxy_batch, _Path(self.model), self.xi)


@dataclass(frozen=True)
class _Path(FedAvg):
    """Plain training that tracks what each coordinate contributed to the fall of the loss."""

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        """The path integral w of -g dtheta."""
        return {"w": trace["w"] - g * (new - old)}
