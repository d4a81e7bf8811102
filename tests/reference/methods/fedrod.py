"""FedRoD (Chen and Chao 2022), linear personal heads: a generic model that is fair to all classes, personal ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from fedavg import FedAvg, Logits, Update
from local_training import Client, Model, State, Step, local_sgd, shortened
from parameters import InTraining, Parameters, alone
from torch import Tensor


@dataclass(frozen=True)
class FedRoD(FedAvg):
    """Clients minimise CE(z + gamma log n_k, y), the balanced softmax, and beside it CE(z + W_k f + b_k, y).

    The second loss trains W_k and b_k alone: f and z, the features and the generic logits, count as given in it.

    Attributes:
        gamma: power of the classes' counts.
    """

    gamma: float = 1.0

    def client_start(self, theta: Parameters) -> State:
        """phi_k: W_k, then b_k."""
        classes, features = theta["out.weight"].shape
        return {"phi": alone(torch.zeros(classes * (features + 1), dtype=torch.float64))}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        return partial(with_personal_head, model, server["theta"], memory["phi"][""])

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Both parts take their steps together; the personal one follows the generic one's path."""
        model, theta_t = client.model, server["theta"]
        classes = len(theta_t["out.weight"])
        count = torch.stack([(client.y == label).sum() for label in range(classes)]).double()
        there = [label for label in range(classes) if count[label] > 0]
        prior = self.gamma * count[there].log()

        def balanced(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            z = model.logits(theta, x)
            if not self.gamma:
                return model.criterion(z, y)
            return model.criterion(z[:, there] + prior, torch.tensor([there.index(label) for label in y.tolist()]))

        trained = local_sgd(client, theta_t, objective=balanced)
        phi, loss = follow(client, trained.path, memory["phi"][""])

        personal = partial(with_personal_head, model, trained.theta, phi)
        return Update(client, trained.theta, trained.loss + loss, {"phi": alone(phi)}, predict=personal)


def with_personal_head(model: Model, theta: Parameters, phi: Tensor, x: Tensor) -> Tensor:
    """Logits z + W f + b."""
    f, z = model.run(theta, x)
    return z + linear(phi, f)


def follow(client: Client, path: list[Step], phi: Tensor) -> tuple[Tensor, float]:
    """SGD on the personal head, whose inputs are those of the generic model's path; with it the mean loss."""
    losses, buffer = [], torch.zeros_like(phi)
    for batch, step in zip(client.batches, path, strict=True):
        f, z = client.model.run(InTraining(step.before), client.x[batch])
        at = phi.clone().requires_grad_()
        loss = client.model.criterion(z.detach() + linear(at, f.detach()), client.y[batch])
        (gradient,) = torch.autograd.grad(loss, at)
        gradient = shortened(client, alone(gradient)) * gradient
        buffer = client.momentum * buffer + gradient + client.weight_decay * phi
        phi = phi - client.lr * buffer
        losses.append(float(loss.detach()))
    return phi, sum(losses) / max(len(losses), 1)


def linear(phi: Tensor, f: Tensor) -> Tensor:
    """W f + b of features [B, D], where phi holds W row by row, then b."""
    features = f.shape[1]
    classes = len(phi) // (features + 1)
    weight, bias = phi[: classes * features].view(classes, features), phi[classes * features :]
    return f @ weight.T + bias
