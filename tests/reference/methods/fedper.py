"""FedPer (Arivazhagan et al. 2019): the body is averaged, the head is the client's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fedavg import FedAvg, Logits, Update, When
from local_training import Client, Model, State, Trained, local_sgd
from network import HEAD
from parameters import Parameters, alone


@dataclass(frozen=True)
class FedPer(FedAvg):
    """Clients train the received body and their own heads.

    The average of the heads, which no client receives, serves to measure the generic model.
    """

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"head": alone(theta.only(HEAD).flat())}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        return partial(model.logits, server["theta"].having(server["theta"].only(HEAD).shaped(memory["head"][""])))

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        theta_t = server["theta"]
        own_head = theta_t.only(HEAD).shaped(memory["head"][""])
        trained = self.train(client, theta_t.having(own_head))
        return Update(client, trained.theta, trained.loss, {"head": alone(trained.theta.only(HEAD).flat())})

    def train(self, client: Client, start: Parameters) -> Trained:
        """Head and body at once."""
        return local_sgd(client, start)

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The body, P - H."""
        return (server["theta"].count() - server["theta"].only(HEAD).count()) * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The body, P - H, and two numbers."""
        return (theta.count() - theta.only(HEAD).count() + 2) * width
