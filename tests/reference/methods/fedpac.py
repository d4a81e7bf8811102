"""FedPAC (Xu et al. 2023): features are drawn to all clients' class means, heads are mixed for each client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import torch
from fedavg import FedAvg, Logits, Update, When
from local_training import Client, Model, State, local_sgd
from network import HEAD
from parameters import Parameters, alone
from torch import Tensor


@dataclass(frozen=True)
class FedPAC(FedAvg):
    """Clients train their heads, then the body with lam / D ||f(x) - c_y||^2, c_y the mean feature of a class.

    Attributes:
        lam: weight of the class means, from the second round.
        head_lr: learning rate of the head.
        head_epochs: passes over a client's samples for the head.
        least: weights of heads below it become 0, where one is not.
    """

    lam: float = 1.0
    head_lr: float = 0.1
    head_epochs: float = 1.0
    least: float = 1e-3

    def server_start(self, theta: Parameters, clients: int) -> State:
        """The model, each client's head, the class means and of which classes there is one."""
        classes, features = theta["out.weight"].shape
        return {
            "theta": theta,
            "heads": alone(torch.stack([theta.only(HEAD).flat()] * clients)),
            "means": alone(torch.zeros(classes, features, dtype=torch.float64)),
            "known": alone(torch.zeros(classes)),
        }

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        theta_t = server["theta"]
        return partial(model.logits, theta_t.having(theta_t.only(HEAD).shaped(server["heads"][""][k])))

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Measure features, then train the head, then the body."""
        model, theta_t = client.model, server["theta"]
        count, sums, squares = features_of(client, theta_t.having(client.statistics))
        h = sums / client.n
        v = (squares / client.n - float(h.square().sum())) / client.n
        own = sums / count.clamp(min=1)[:, None]
        c = torch.where(server["known"][""][:, None] > 0, server["means"][""], own)
        pull = self.lam if t > 0 else 0.0

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            f, z = model.run(theta, x)
            return model.criterion(z, y) + pull * (f - c[y]).square().mean(1).mean()

        head = theta_t.only(HEAD).shaped(server["heads"][""][client.id])
        for_head, for_body = client.orders(client.n, 0, self.head_epochs), client.orders(client.n, 1, None)
        start, body = theta_t.having(head), theta_t.keys() - set(HEAD)
        with_head = local_sgd(client, start, batches=for_head, lr=self.head_lr, fixed=body).theta
        trained = local_sgd(client, with_head, objective=objective, batches=for_body, fixed=HEAD, goes_on=True)
        count, sums, _ = features_of(client, trained.theta)
        sent = {
            "h": alone(h),
            "v": alone(torch.tensor(v, dtype=torch.float64)),
            "count": alone(count),
            "sums": alone(sums),
        }
        return Update(client, trained.theta, trained.loss, sent=sent)

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """Average models and features, and mix the cohort's heads anew for each of its clients."""
        heads, means, known = (server[name][""].clone() for name in ("heads", "means", "known"))
        count = torch.stack([update.sent["count"][""] for update in updates]).sum(0)
        sums = torch.stack([update.sent["sums"][""] for update in updates]).sum(0)
        for label in range(len(count)):
            if count[label] > 0:
                means[label], known[label] = sums[label] / count[label], 1
        trained = torch.stack([update.theta.only(HEAD).flat() for update in updates])
        h = [update.sent["h"][""] for update in updates]
        v = torch.stack([update.sent["v"][""] for update in updates])
        for h_k, update in zip(h, updates, strict=True):
            d = torch.stack([torch.stack([((h_k - h_i) * (h_k - h_j)).sum() for h_j in h]) for h_i in h])
            w = least_on_simplex(torch.diag(v) + d)
            w = torch.where(w < self.least, 0.0, w) if (w >= self.least).any() else w
            heads[update.client.id] = w / w.sum() @ trained
        theta = self.averaged(server["theta"], updates)
        return {"theta": theta, "heads": alone(heads), "means": alone(means), "known": alone(known)}

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model, P, and once somebody has trained the class means, C D."""
        return (server["theta"].count() + (server["theta"]["out.weight"].numel() if when.anybody else 0)) * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The model, h and V, and the classes' sums and counts: P + 2 C D + C + 1."""
        classes, features = theta["out.weight"].shape
        return (theta.count() + 2 * classes * features + classes + 1) * width


def features_of(client: Client, theta: Parameters) -> tuple[Tensor, Tensor, float]:
    """Of a client's classes the numbers of samples [C] and the sums of features [C, D]; the sum of |f|^2."""
    count, sums = torch.zeros(len(theta["out.weight"])), torch.zeros_like(theta["out.weight"])
    squares = 0.0
    for x, label in zip(client.x, client.y, strict=True):
        f = client.model.run(theta, x[None])[0][0].detach()
        count[label] += 1
        sums[label] += f
        squares += float(f @ f)
    return count, sums, squares


def least_on_simplex(a: Tensor) -> Tensor:
    """argmin w' a w over w >= 0 that sum to 1: of all supports, each with its stationary point, the best."""
    m = len(a)
    found = []
    for support in (list(s) for size in range(1, m + 1) for s in combinations(range(m), size)):
        size = len(support)
        system = torch.zeros(size + 1, size + 1, dtype=a.dtype)
        system[:size, :size] = 2 * a[support][:, support]
        system[size, :size] = system[:size, size] = 1
        right = torch.zeros(size + 1, dtype=a.dtype)
        right[size] = 1
        solution, failed = torch.linalg.solve_ex(system, right)
        if not failed and (solution[:size] >= 0).all():
            w = torch.zeros(m, dtype=a.dtype)
            w[support] = solution[:size]
            found.append(w)
    return min(found, key=lambda w: float(w @ a @ w))
