"""Every client by itself, as papers on personalised methods have it to compare with: nothing is sent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fedavg import FedAvg, Logits, Update, When
from local_training import Client, Model, State, local_sgd
from parameters import Parameters


@dataclass(frozen=True)
class LocalOnly(FedAvg):
    """Clients train their own models on and on; the average of those of a cohort is only looked at."""

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"theta": theta}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        return partial(model.logits, memory["theta"])

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        trained = local_sgd(client, memory["theta"])
        return Update(client, trained.theta, trained.loss, {"theta": trained.theta})

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """Nothing."""
        return 0

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """Nothing."""
        return 0
