"""One client's local training: one batch after another."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from optimizers import Choice, Walker
from parameters import InTraining, Parameters
from torch import Tensor, nn
from torch.nn import functional as F

RUNNING = ("running_mean", "running_var")
State = dict[str, Parameters]
"""What the server knows, or what a client remembers or sends, by name."""


class Model:
    """A plain module, into which parameters and BatchNorm's running statistics are put.

    Attributes:
        after: running statistics as its last batch in training has left them.
        allowed: classes among which samples are classified; None for all.
        smoothing: of labels in training.
        kind: of its loss, as the command line has it.
    """

    allowed: Sequence[int] | None = None

    def __init__(self, module: nn.Module, smoothing: float = 0.0, kind: str = "cross_entropy") -> None:
        self.smoothing, self.kind = smoothing, kind
        self._module = copy.deepcopy(module).double()
        running = {name: own for name, own in self._module.named_buffers() if name.endswith(RUNNING)}
        own = dict(self._module.named_parameters()) | running
        self._initial = Parameters({name: tensor.detach().clone() for name, tensor in own.items()})
        self.after = self._initial.only(running)

    def initial(self) -> Parameters:
        """The parameters that the module was made with."""
        return self._initial

    def run(self, theta: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, D] and logits [B, C] of x [B, ...]; gradient() must come before other parameters are put in."""
        self._module.train(isinstance(theta, InTraining))
        with torch.no_grad():
            for name, own in self._module.named_parameters():
                if not own.equal(theta[name]):  # an earlier batch may need its gradient at them
                    own.copy_(theta[name])
        for name in self.after.keys() & theta.keys():
            layer, _, buffer = name.rpartition(".")
            setattr(self._module.get_submodule(layer), buffer, theta[name].clone())
        features, logits = self._module(x)
        if isinstance(theta, InTraining):
            buffers = dict(self._module.named_buffers())
            self.after = Parameters({name: buffers[name].clone() for name in self.after})
        return features, logits

    def statistics(self, theta: Parameters, x: Tensor) -> Parameters:
        """Mean and unbiased variance of all that the layers of BatchNorm see of x at theta."""
        norms = [each for each in self._module.modules() if isinstance(each, nn.BatchNorm1d)]
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None
        self.run(InTraining({name: own for name, own in theta.items() if name not in self.after}), x)
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        return self.after

    def logits(self, theta: Parameters, x: Tensor) -> Tensor:
        """[B, C] for x [B, ...]."""
        return self.run(theta, x)[1]

    def loss(self, theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
        """Mean of the samples, among the classes that are allowed."""
        return self.criterion(only_of(self.logits(theta, x), self.allowed), y)

    def criterion(self, logits: Tensor, y: Tensor) -> Tensor:
        """Mean of the samples; of a label's probability all classes that are allowed have a share alike."""
        if self.kind == "mse":
            return F.mse_loss(logits, y)
        if self.kind == "bce":
            return F.binary_cross_entropy_with_logits(logits, y)
        share = self.smoothing
        of_label = F.cross_entropy(logits, y)
        if not share:
            return of_label
        classes = range(logits.shape[1]) if self.allowed is None else self.allowed
        return (1 - share) * of_label - share * F.log_softmax(logits, 1)[:, list(classes)].mean()

    def call(self, part: str, theta: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        """What a submodule makes of x."""
        with torch.no_grad():
            for name, own in self._module.named_parameters():
                if not own.equal(theta[name]):
                    own.copy_(theta[name])
        out: tuple[Tensor, Tensor] = self._module.get_submodule(part)(x)
        return out

    def gradient(self, value: Tensor) -> Parameters:
        """Of a number that was made from logits()."""
        names, own = zip(*self._module.named_parameters(), strict=True)
        found = Parameters(zip(names, torch.autograd.grad(value, own, materialize_grads=True), strict=True))
        return Parameters({**found, **self.after.filled(0)})


def only_of(logits: Tensor, classes: Sequence[int] | None) -> Tensor:
    """Logits [B, C] with those of other classes at minus infinity."""
    if classes is None:
        return logits
    others = [label for label in range(logits.shape[1]) if label not in classes]
    return logits.index_fill(1, torch.tensor(others, dtype=torch.long), -torch.inf)


@dataclass(frozen=True)
class Client:
    """A client in one round.

    Attributes:
        id: its number.
        model: its network.
        x: inputs of its training samples.
        y: their labels.
        batches: positions in its samples, for each local step of the round.
        once: positions of all its samples, in the order in which importance passes of the round take them.
        noise: [n] uniform random numbers of such a pass; takes the samples of a batch, None where there are none, and
            the number of the draw.
        lr: learning rate of the round.
        momentum: of its SGD.
        lr_factor: what any learning rate of its own training is multiplied by; lr has it already.
        optimizer: by which it makes its steps.
        left: by the optimizer of its last round, if it goes on with it; its first training of this round leaves its own
            there.
        weight_decay: coefficient of theta in the gradient.
        clip_norm: longest gradient of a step, if there is one.
        lr_at: by what the learning rate is multiplied in a step of so many.
        shared: [C, ...] inputs of samples that everyone has, one of each class; none where a method shares none.
        draws: [n] uniform random numbers of the client's own in this round; takes a stream's number and n.
        orders: positions in n samples, for each local step of one of several trainings of the round; takes n, the
            training's number from 0 and its epochs, None for those of the round; with short=True short batches count.
        statistics: BatchNorm's running statistics, if they are its own.
        views: images [b, ...] as a local step sees them; takes its number and the images.
        noises: [b, d] standard normal random numbers of a local step; takes its number, b and d.
        normals: [n, d] standard normal random numbers of the client's own in this round; takes a stream's number, n, d.
        task: of the round.
        of_task: labels that its samples have, whoever has them.
        ends_task: whether the next round is of another task.
        known: whether shared has a sample of each class.
        server_draws: [n] uniform random numbers of the server's in this round; takes a stream's number and n.
        task_draws: as draws, but the same in all rounds of the task.
        held_out: positions in its samples of those that a method keeps from training, and of the others, the same in
            all rounds; takes the share of the first.
    """

    id: int
    model: Model
    x: Tensor
    y: Tensor
    batches: Sequence[Sequence[int]]
    once: Sequence[int]
    noise: Callable[[int | None, int], Tensor]
    lr: float
    momentum: float
    weight_decay: float
    shared: Tensor = field(default_factory=lambda: torch.zeros(0))
    draws: Callable[[int, int], Tensor] = lambda stream, n: torch.zeros(n)
    orders: Callable[..., Sequence[Sequence[int]]] = lambda n, draw, epochs, short=False: []
    statistics: Parameters = field(default_factory=Parameters)
    optimizer: Choice = field(default_factory=Choice)
    left: dict[str, Any] | None = None
    clip_norm: float | None = None
    lr_factor: float = 1.0
    lr_at: Callable[[int, int], float] = lambda step, steps: 1.0
    held_out: Callable[[float], tuple[Sequence[int], Sequence[int]]] = lambda share: ([], [])
    views: Callable[[int, Tensor], Tensor] = lambda step, x: x
    noises: Callable[[int, int, int], Tensor] = lambda step, b, d: torch.zeros(b, d)
    normals: Callable[[int, int, int], Tensor] = lambda stream, n, d: torch.zeros(n, d)
    task: int = 0
    of_task: Sequence[int] = ()
    ends_task: bool = False
    known: Sequence[bool] = ()
    server_draws: Callable[[int, int], Tensor] = lambda stream, n: torch.zeros(n)
    task_draws: Callable[[int, int], Tensor] = lambda stream, n: torch.zeros(n)

    @property
    def n(self) -> int:
        """n_k, the number of its training samples."""
        return len(self.y)

    @property
    def steps(self) -> int:
        """T_k, the number of its local steps."""
        return len(self.batches)


@dataclass(frozen=True)
class Step:
    """A local step as a path integral sees it.

    Attributes:
        gradient: of the batch's loss, at before, without what pulls at theta.
        before: theta.
        after: theta.
    """

    gradient: Parameters
    before: Parameters
    after: Parameters


@dataclass(frozen=True)
class Trained:
    """What local training leads to.

    Attributes:
        theta: after the last step.
        loss: mean over the steps of their batches' loss, without what pulls at theta; 0 without a step.
        path: all steps.
    """

    theta: Parameters
    loss: float
    path: list[Step]


def shortened(client: Client, g: Parameters) -> float:
    """The factor by which a gradient is too long, as torch.nn.utils.clip_grad_norm_ has it."""
    return 1.0 if client.clip_norm is None else min(client.clip_norm / (g.squared().total() ** 0.5 + 1e-6), 1.0)


def local_sgd(
    client: Client,
    theta: Parameters,
    pull: Callable[[Parameters], Parameters] | None = None,
    solve: Callable[[Parameters, float], Parameters] | None = None,
    objective: Callable[[Parameters, Tensor, Tensor], Tensor] | None = None,
    batches: Sequence[Sequence[int]] | None = None,
    lr: float | None = None,
    fixed: Collection[str] = (),
    goes_on: bool = False,
) -> Trained:
    """Train a client.

    Args:
        client: who trains.
        theta: where it starts.
        pull: gradient of what a method adds to the loss, a function of theta.
        solve: where a proximal step ends, a function of theta after the optimizer's step, and of that step's reach.
        objective: the loss of theta on samples x with labels y, if not the mean cross-entropy.
        batches: positions in its samples, for each step, if not the client's.
        lr: learning rate, if not the client's.
        fixed: names of parameters that stay as they are.
        goes_on: whether this is not the client's first training in the round.
    """
    theta = theta if goes_on else theta.having(client.statistics)
    objective = objective or client.model.loss
    lr = client.lr if lr is None else lr * client.lr_factor
    losses, path = list[float](), list[Step]()
    begin = {} if client.left is None or goes_on else client.left
    moving = [name for name in theta if name not in client.model.after]
    walker = Walker(client.optimizer, theta.only(moving), lr, client.momentum, client.weight_decay, begin)
    these = client.batches if batches is None else batches
    for batch in these:
        loss = objective(InTraining(theta), client.views(len(losses), client.x[batch]), client.y[batch])
        gradient, running = client.model.gradient(loss), client.model.after
        g = gradient + pull(theta) if pull else gradient
        g = shortened(client, g.only([name for name in moving if name not in fixed])) * g
        after = walker.step(theta, g, lr * client.lr_at(len(losses), len(these)))
        if solve:
            after = solve(after, walker.reach)
        after = after.having(theta.only(fixed)).having(running)
        losses.append(float(loss.detach()))
        path.append(Step(gradient, theta, after))
        theta = after
    if client.left is not None and not goes_on:
        client.left.update(walker.left() if walker.steps else {})
    return Trained(theta, sum(losses) / max(len(losses), 1), path)
