"""FedProx: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020.

arXiv 1812.06127, Algorithm 2 with exact local epochs. Clients are drawn uniformly and weighted by data, as all public
code does; the paper draws them by data and weights them alike: --client_sampling samples --method.weights uniform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import NonNegative
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Tensors


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg whose clients are held near the received model.

    Attributes:
        mu: strength of the pull, mu / 2 * ||theta - theta_t||^2, in every round.
    """

    mu: NonNegative = 0.01

    neutral: ClassVar[Mapping[str, float] | None] = {"mu": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("mu",)

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """The proximal term of eq. 2."""
        return self.mu / 2 * (theta - server["theta"]).square().sum()
