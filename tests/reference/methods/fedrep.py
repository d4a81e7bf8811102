"""FedRep (Collins et al. 2021): FedPer, but clients train the head first, and then the body below it."""

from __future__ import annotations

from dataclasses import dataclass

from fedper import FedPer
from local_training import Client, Trained, local_sgd
from network import HEAD
from parameters import Parameters


@dataclass(frozen=True)
class FedRep(FedPer):
    """Clients minimise L_k over the head, then over the body.

    Attributes:
        head_epochs: passes over a client's samples for the head; for the body they are the run's.
    """

    head_epochs: float = 10.0

    def train(self, client: Client, start: Parameters) -> Trained:
        """The head while the body is fixed, then the body while the head is."""
        body = start.keys() - set(HEAD)
        for_head, for_body = client.orders(client.n, 0, self.head_epochs), client.orders(client.n, 1, None)
        with_head = local_sgd(client, start, batches=for_head, fixed=body).theta
        return local_sgd(client, with_head, batches=for_body, fixed=HEAD, goes_on=True)
