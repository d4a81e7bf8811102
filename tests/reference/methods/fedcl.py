"""FedCL (Yao and Sun 2020): clients stay near the received model where the server's own samples say that it matters."""

from __future__ import annotations

from dataclasses import dataclass

import importance
from fedavg import FedAvg, Update, When
from local_training import Client, State, local_sgd
from parameters import Parameters
from path_integral import si


@dataclass(frozen=True)
class FedCL(FedAvg):
    """Clients minimise L_k(theta) + lam sum_j Omega_j (theta_j - theta_t,j)^2, Eq. 3.

    Attributes:
        lam: strength of the penalty.
        every: rounds between two measurements of Omega, the paper's N; 0 for none.
        omega: what Omega is: a reading of Eqs. 1 and 2, mas or si.
        missing: Omega of a client in a round that sends none: identity, skip, last or local.
        proxy: share of the clients' samples that the server has copies of.
        proxy_batch: samples of a batch on the server.
        xi: damping of si.
        penalty_step: explicit, along the penalty's gradient, or proximal.
    """

    lam: float = 0.5
    every: int = 1
    omega: str = "per_param_sq"
    missing: str = "identity"
    proxy: float = 0.01
    proxy_batch: int = 64
    xi: float = 1e-3
    penalty_step: str = "explicit"

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "omega": theta.filled(1)}

    def client_start(self, theta: Parameters) -> State:
        """The last Omega of a client that has received none is the identity."""
        return {"omega": theta.filled(1)} if self.missing == "last" else {}

    def sends(self, t: int) -> bool:
        """Whether Omega is sent in round t: t mod N = 0."""
        return self.every > 0 and t % self.every == 0

    @property
    def server_batch(self) -> int:
        """See FedAvg."""
        return self.proxy_batch

    def server_measure(self, server: State, proxy: Client | None, t: int) -> State:
        """Estimate Omega with Eqs. 1 and 2 at theta_t."""
        assert proxy is not None
        return server | {"omega": self.measured(proxy, server["theta"])} if self.sends(t) else server

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Train near the received model."""
        theta_t = server["theta"]
        if self.sends(t):
            omega = server["omega"]
        elif self.missing == "last":
            omega = memory["omega"]
        elif self.missing == "local":
            omega = self.measured(client, theta_t.having(client.statistics))
        else:
            omega = theta_t.filled(1 if self.missing == "identity" else 0)
        held = 2 * self.lam * omega
        if self.penalty_step == "explicit":
            trained = local_sgd(client, theta_t, pull=lambda theta: held * (theta - theta_t))
        else:
            trained = local_sgd(client, theta_t, solve=lambda x, far: (x + far * held * theta_t) / (1 + far * held))
        return Update(client, trained.theta, trained.loss, {"omega": omega} if self.missing == "last" else {})

    def measured(self, owner: Client, theta: Parameters) -> Parameters:
        """Omega at theta on the server's samples, or on a client's own."""
        if self.omega == "per_tensor":
            return importance.tensor_squares(owner, theta, self.proxy_batch)
        if self.omega == "si":
            return si(local_sgd(owner, theta).path, theta, self.xi)
        reading = {
            "per_param_sq": importance.mean_squared,
            "per_param_abs": importance.mean_absolute,
            "global": importance.mean_norm,
            "mas": importance.mean_sensitivity,
        }[self.omega]
        return reading(owner, theta)

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model, and where it is sent Omega: P numbers, for per_tensor one a tensor, for global a single one."""
        numbers = {"per_tensor": len(server["theta"]), "global": 1}.get(self.omega, server["theta"].count())
        return (server["theta"].count() + (numbers if self.sends(when.t) else 0)) * width
