"""FedBN (Li et al. 2021): everything is averaged but BatchNorm, which is the client's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from fedavg import FedAvg, Logits, Update, When
from local_training import Client, Model, State, local_sgd
from parameters import Parameters, alone
from torch import Tensor


@dataclass(frozen=True)
class FedBN(FedAvg):
    """Clients train the received model with weights, biases and statistics of BatchNorm of their own.

    The average of these, which no client receives, serves to measure the generic model.
    """

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"norms": alone(norms_of(theta).flat())}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        return partial(model.logits, server["theta"].having(norms_of(server["theta"]).shaped(memory["norms"][""])))

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        theta_t = server["theta"]
        trained = local_sgd(client, theta_t.having(norms_of(theta_t).shaped(memory["norms"][""])))
        return Update(client, trained.theta, trained.loss, {"norms": alone(norms_of(trained.theta).flat())})

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """P without BatchNorm."""
        return (server["theta"].count() - norms_of(server["theta"]).count()) * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """P without BatchNorm, and two numbers."""
        return (theta.count() - norms_of(theta).count() + 2) * width


def norms_of(theta: Mapping[str, Tensor]) -> Parameters:
    """All that the layers `norm` and `last` of the network Normed have."""
    return Parameters({name: own for name, own in theta.items() if name.startswith(("norm.", "last."))})
