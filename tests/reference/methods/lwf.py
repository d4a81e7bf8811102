"""Learning without Forgetting (Li and Hoiem 2016) in a federation: clients keep the last task's model's opinion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update, When
from local_training import Client, State, local_sgd
from parameters import Parameters, alone
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class LwF(FedAvg):
    """Clients minimise L_k(theta) + lam KL(p || q), p and q of the classes of earlier tasks, of logits / tau.

    Attributes:
        lam: weight of the distillation.
        tau: its temperature.
        heads: one softmax of the known classes in the distillation; or one for each task's new ones, added up.
        classes: all; or new, where a sample of a class that no earlier task had is classified among such of the task,
            any other among the classes of all tasks so far.
    """

    lam: float = 1.0
    tau: float = 2.0
    heads: str = "one"
    classes: str = "new"

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        nothing = alone(torch.zeros(len(theta["out.weight"])))
        return {"theta": theta, "old": theta, "known": nothing, "seen": nothing}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Train beside the model of the last task's end."""
        model, old = client.model, server["old"].having(client.statistics)
        every = range(len(server["known"][""]))
        known = [c for c in every if server["known"][""][c]]
        heads = [known] if known else []
        if self.heads == "each":
            came = server["known"][""].tolist()
            heads = [[c for c in known if came[c] == task] for task in sorted({came[c] for c in known})]

        def of_sample(logits: Tensor, label: int) -> Tensor:
            """Cross-entropy of one, among the classes that count for it."""
            allowed = [*(every if model.allowed is None else model.allowed)]
            if self.classes == "new":
                count = {label, *(c for c in client.of_task if c not in known), *(known if label in known else [])}
                allowed = [c for c in allowed if c in count]
            place = torch.tensor(allowed.index(label))
            return F.cross_entropy(logits[allowed], place, label_smoothing=model.smoothing)

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            before = model.logits(old, x).detach()
            now = model.logits(theta, x)
            own = torch.stack([of_sample(*sample) for sample in zip(now, y.tolist(), strict=True)]).mean()
            for head in heads:
                p, q = torch.softmax(before[:, head] / self.tau, 1), torch.softmax(now[:, head] / self.tau, 1)
                own = own + self.lam * (p * (p / q).log()).sum(1).mean()
            return own

        trained = local_sgd(client, server["theta"], objective=objective)
        has = torch.zeros(len(server["known"][""]))
        has[client.y] = 1
        return Update(client, trained.theta, trained.loss, sent={"has": alone(has)})

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """FedAvg, and the classes that somebody had."""
        seen = torch.stack([server["seen"][""], *(update.sent["has"][""] for update in updates)]).amax(0)
        return super().server_update(server, updates, clients, t) | {"seen": alone(seen)}

    def task_ended(self, server: State, task: int) -> State:
        """The model and the classes so far are the next task's to keep; of heads for each, with their first task."""
        if self.heads == "one":
            return server | {"old": server["theta"], "known": server["seen"]}
        known = server["known"][""].tolist()
        tasks = [of or (task + 1) * has for of, has in zip(known, server["seen"][""].tolist(), strict=True)]
        return server | {"old": server["theta"], "known": alone(torch.tensor(tasks))}

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model; after the first task the last one's, and of each class whether it is known, or since when."""
        model = server["theta"].count() * width
        of_class = 2 if self.heads == "each" else 1
        return model if when.task == 0 else 2 * model + of_class * len(server["known"][""])

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The model, two numbers, and how many samples of each class there are."""
        return (theta.count() + 2 + len(theta["out.weight"])) * width
