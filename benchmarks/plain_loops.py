"""What a client of each method does in a round, in plain PyTorch: modules, autograd, one batch after another.

Only what takes time matters here: the work is that of a method's default options after its first rounds, the numbers
that come of it are nobody's. Importance is that of single samples, one backward pass each, as the engine's is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fl_ddp.methods.fedala import FedALA
from fl_ddp.methods.fedcl import FedCL
from fl_ddp.methods.fedfomo import FedFomo
from fl_ddp.methods.fedpac import FedPAC
from fl_ddp.methods.fedrep import FedRep

Loss = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""Of a model on samples and their labels."""
Pull = Callable[[Tensor, Tensor], Tensor]
"""What a method adds to the gradient of a parameter, of it and of the received one."""
Vectors = list[Tensor]


@dataclass(frozen=True)
class Client:
    """A client's samples and the models that it has; all of the same make.

    Attributes:
        received: the model of this round.
        last: the client's own of the last one.
        x: [N, ...] inputs.
        y: [N] labels.
        anchors: [A, ...] inputs of FedKA's anchors.
        batch: samples in a batch.
        lr: learning rate.
        momentum: of SGD.
    """

    received: nn.Module
    last: nn.Module
    x: Tensor
    y: Tensor
    anchors: Tensor
    batch: int
    lr: float = 0.01
    momentum: float = 0.9

    def train(
        self,
        model: nn.Module,
        loss: Loss | None = None,
        pull: Pull | None = None,
        parameters: Iterable[Tensor] | None = None,
        samples: int | None = None,
        epochs: int = 1,
    ) -> nn.Module:
        """Train a model on the client's first samples, with a method's loss and its pull."""
        own = list(model.parameters() if parameters is None else parameters)
        anchors = [parameter.detach().clone() for parameter in own]
        sgd = torch.optim.SGD(own, lr=self.lr, momentum=self.momentum)
        for _ in range(epochs):
            batches = (torch.split(each[:samples], self.batch) for each in (self.x, self.y))
            for x, y in zip(*batches, strict=True):
                sgd.zero_grad()
                torch.autograd.backward((loss or cross_entropy)(model, x, y), inputs=own)
                if pull:
                    for parameter, anchor in zip(own, anchors, strict=True):
                        assert parameter.grad is not None
                        parameter.grad += pull(parameter.detach(), anchor)
                sgd.step()
        return model

    def start(self) -> nn.Module:
        """A copy of the received model."""
        return copy.deepcopy(self.received)


def logits_of(model: nn.Module, x: Tensor) -> Tensor:
    """Of a model that gives features and logits, or logits alone."""
    out = model(x)
    logits: Tensor = out[1] if isinstance(out, tuple) else out
    return logits


def cross_entropy(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """FedAvg's loss."""
    return F.cross_entropy(logits_of(model, x), y)


def head_of(model: nn.Module) -> nn.Module:
    """The linear layer behind the features."""
    return model.get_submodule("head")


def head_alone(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """The loss where the body stays."""
    with torch.no_grad():
        z = model.get_submodule("body")(x)
    return F.cross_entropy(head_of(model)(z), y)


def fisher(client: Client, model: nn.Module, samples: int | None = None) -> Vectors:
    """Mean square of each sample's gradient."""
    own = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in own]
    for x, y in zip(torch.split(client.x[:samples], 1), torch.split(client.y[:samples], 1), strict=True):
        for sum_, g in zip(total, torch.autograd.grad(cross_entropy(model, x, y), own), strict=True):
            sum_ += g.square()
    return [sum_ / len(client.x[:samples]) for sum_ in total]


def plain(client: Client) -> None:
    """FedAvg, and all that do as it does on a client."""
    client.train(client.start())


def near(client: Client) -> None:
    """FedProx: the received model pulls."""
    client.train(client.start(), pull=lambda theta, anchor: 0.01 * (theta - anchor))


def drifting(client: Client) -> None:
    """SCAFFOLD: the server's control variate and the client's own."""
    client.train(client.start(), pull=lambda theta, anchor: anchor - anchor)


def dynamic(client: Client) -> None:
    """FedDyn: the received model pulls, and the client's own gradient memory."""
    client.train(client.start(), pull=lambda theta, anchor: 0.01 * (theta - anchor) - anchor)


def fisher_averaging(client: Client) -> None:
    """FisherAvg: a quadratic of the Fisher's, and the next one."""
    fisher(client, client.train(client.start(), pull=lambda theta, anchor: anchor * (theta - anchor)))


def curvature(client: Client) -> None:
    """FedCurv: 2 lam (u theta - v), and the client's own Fisher."""
    fisher(client, client.train(client.start(), pull=lambda theta, anchor: anchor * theta - anchor))


def continual(client: Client) -> None:
    """FedCL: a quadratic of Omega's, and the client's part of its measurement on the server."""
    fisher(client, client.received, round(FedCL.proxy * len(client.y)))
    client.train(client.start(), pull=lambda theta, anchor: anchor * (theta - anchor))


def anchored(client: Client) -> None:
    """FedKA; the received model's logits of the anchors are found once."""
    with torch.no_grad():
        wanted = logits_of(client.received, client.anchors)

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        distance = (logits_of(model, client.anchors) - wanted).square().sum(1).mean()
        return cross_entropy(model, x, y) + 0.1 * distance

    client.train(client.start(), loss)


def contrastive(client: Client) -> None:
    """MOON."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        z, logits = model(x)
        with torch.no_grad():
            close, far = client.received(x)[0], client.last(x)[0]
        gap = F.cosine_similarity(z, far) - F.cosine_similarity(z, close)
        return F.cross_entropy(logits, y) + F.softplus(gap / 0.5).mean()

    client.train(client.start(), loss)


def not_true(client: Client) -> None:
    """FedNTD."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        logits = logits_of(model, x)
        with torch.no_grad():
            wanted = logits_of(client.received, x)
        true = F.one_hot(y, logits.shape[1]).bool()
        ours, theirs = (z.masked_fill(true, -1e30).log_softmax(1) for z in (logits, wanted))
        return F.cross_entropy(logits, y) + F.kl_div(ours, theirs, log_target=True, reduction="batchmean")

    client.train(client.start(), loss)


def two_models(client: Client) -> None:
    """Ditto: the global model, then the client's own."""
    plain(client)
    client.train(copy.deepcopy(client.last), pull=lambda theta, anchor: theta - anchor)


def head_first(client: Client) -> None:
    """FedRep: epochs of the head alone, then the body."""
    model = client.start()
    client.train(model, head_alone, parameters=head_of(model).parameters(), epochs=int(FedRep.head_epochs))
    client.train(model, parameters=model.get_submodule("body").parameters())


def two_heads(client: Client) -> None:
    """FedRoD: balanced softmax, and a head of the client's own on the same features."""
    model = client.start()
    own = copy.deepcopy(head_of(model))

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        z, logits = model(x)
        personal = logits.detach() + own(z.detach())
        return F.cross_entropy(logits + torch.ones_like(logits), y) + F.cross_entropy(personal, y)

    client.train(model, loss, parameters=[*model.parameters(), *own.parameters()])


def mixed(client: Client) -> None:
    """FedALA: one pass of the mixing weights over a share of the samples, then training from the mixture."""
    model = client.start()
    layers = list(zip(model.parameters(), client.received.parameters(), client.last.parameters(), strict=True))
    top = layers[-FedALA.layers :]
    weights = [torch.ones_like(own) for own, _, _ in top]
    share = round(FedALA.share * len(client.y))
    for x, y in zip(*(torch.split(each[:share], client.batch) for each in (client.x, client.y)), strict=True):
        gradients = torch.autograd.grad(cross_entropy(model, x, y), [own for own, _, _ in top])
        with torch.no_grad():
            for w, g, (own, received, last) in zip(weights, gradients, top, strict=True):
                w.sub_(g * (received - last)).clamp_(0, 1)
                own.copy_(received - (received - last) * (1 - w))
    client.train(model)


def first_order(client: Client) -> None:
    """FedFomo: losses of others' models and distances from them, a step towards them, then training on the rest."""
    held_out, model = round(FedFomo.held_out * len(client.y)), client.start()
    x, y = client.x[:held_out], client.y[:held_out]
    with torch.no_grad():
        before = cross_entropy(client.last, x, y)
        for _ in range(min(FedFomo.models, CLIENTS)):
            gaps = [a - b for a, b in zip(client.received.parameters(), client.last.parameters(), strict=True)]
            distance = torch.stack([gap.square().sum() for gap in gaps]).sum().sqrt().clamp_min(1e-9)
            gain = (before - cross_entropy(client.received, x, y)) / distance
            for own, gap in zip(model.parameters(), gaps, strict=True):
                own.add_(1e-9 * gain * gap)
    client.train(model, samples=len(client.y) - held_out)


def aligned(client: Client) -> None:
    """FedPAC: class means of the features, an epoch of the head, the body with a pull to them, the means again."""
    model = client.start()

    def means() -> Tensor:
        with torch.no_grad():
            z = torch.cat([model.get_submodule("body")(x) for x in torch.split(client.x, client.batch)])
            label = F.one_hot(client.y, head_of(model).get_parameter("bias").numel()).to(z)
            found: Tensor = label.mT @ z / label.sum(0).clamp_min(1)[:, None]
            return found

    wanted = means()

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        z, logits = model(x)
        distance: Tensor = (z - wanted[y]).square().mean()
        return F.cross_entropy(logits, y) + distance

    client.train(model, head_alone, parameters=head_of(model).parameters(), epochs=int(FedPAC.head_epochs))
    client.train(model, loss, parameters=model.get_submodule("body").parameters())
    means()


CLIENTS = 4
"""In the benchmark; FedFomo weighs the models of all."""
LOOPS: Mapping[str, Callable[[Client], None]] = {
    "FedAvg": plain, "FedAvgM": plain, "FedOpt": plain, "FedNova": plain, "LocalOnly": plain, "FedBN": plain,
    "FedPer": plain,
    "FedProx": near, "Scaffold": drifting, "FedDyn": dynamic, "FisherAvg": fisher_averaging, "FedCurv": curvature,
    "OnlineEWC": near, "FedCL": continual, "FedKA": anchored, "MOON": contrastive, "FedNTD": not_true,
    "Ditto": two_models, "FedRep": head_first, "FedRoD": two_heads, "FedALA": mixed, "FedFomo": first_order,
    "FedPAC": aligned,
}  # fmt: skip
