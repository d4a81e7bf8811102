"""How much samples say of each parameter: one sample after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from local_training import Client
from parameters import Parameters, summed
from torch import Tensor

Labels = Sequence[tuple[int | None, float]]
"""Labels of a sample and their probabilities; None is its own."""


@dataclass(frozen=True)
class FisherOptions:
    """How Fisher information is measured.

    Attributes:
        kind: of the labels: empirical (the data's), exact (the expectation over the model's own) or mc (draws of them).
        reduction: per_sample_mean, F = 1/n sum_i g_i^2, the definition (Kim et al. 2020, Eq. 1); sum, F = sum_i g_i^2;
            or batch_mean_sq, F = 1/#b sum_b (1/|b| sum_{i in b} g_i)^2, as public code has it.
        fisher_batch: samples of a batch in batch_mean_sq.
        fisher_samples: the first so many in the client's order, 0 for all.
        fisher_draws: of mc, for each sample: the mean of what each draw gives.
    """

    kind: str
    reduction: str
    fisher_batch: int
    fisher_samples: int
    fisher_draws: int = 1


def fisher(client: Client, theta: Parameters, options: FisherOptions) -> Parameters:
    """Diagonal Fisher information of a client's samples; gradients are taken at theta."""
    draws = options.fisher_draws if options.kind == "mc" else 1
    return summed(fisher_of_draw(client, theta, options, draw) for draw in range(draws)) / draws


def fisher_of_draw(client: Client, theta: Parameters, options: FisherOptions, draw: int) -> Parameters:
    """The same, where labels are drawn of one draw alone."""
    chosen = client.once[: options.fisher_samples or None]
    labelled: list[tuple[int, Labels]]
    by_batch = options.reduction == "batch_mean_sq"
    if options.kind == "mc":
        noise = client.noise(options.fisher_batch if by_batch else None, draw)
        labelled = [(i, [(drawn_label(client, theta, i, float(u)), 1.0)]) for i, u in zip(chosen, noise, strict=False)]
    elif options.kind == "exact":
        labelled = [(i, list(enumerate(probabilities(client, theta, i).tolist()))) for i in chosen]
    else:
        labelled = [(i, [(None, 1.0)]) for i in chosen]
    if not by_batch:
        squares = [p * gradient(client, theta, i, y).squared() for i, known in labelled for y, p in known]
        return summed(squares) / (1 if options.reduction == "sum" else len(chosen))
    size = options.fisher_batch
    batches = [labelled[first : first + size] for first in range(0, len(chosen), size)]
    return summed(squared_mean(client, theta, batch) for batch in batches) / len(batches)


def squared_mean(client: Client, theta: Parameters, batch: Sequence[tuple[int, Labels]]) -> Parameters:
    """The square of a batch's mean gradient, in expectation over labels that each sample draws for itself.

    The expected square of a mean is the square of the expected mean, and the mean's variance.

    Args:
        client: whose samples.
        theta: where the gradients are taken.
        batch: positions of the samples, each with its labels and their probabilities.
    """
    mean = variance = theta.filled(0)
    for i, known in batch:
        gradients = [(p, gradient(client, theta, i, y)) for y, p in known]
        expected = summed(p * g for p, g in gradients)
        mean = mean + expected / len(batch)
        variance = variance + summed(p * (g - expected).squared() for p, g in gradients) / len(batch) ** 2
    return mean.squared() + variance


def probabilities(client: Client, theta: Parameters, i: int) -> Tensor:
    """p(y | x_i) of each class y, by the model at theta."""
    return torch.softmax(client.model.logits(theta, client.x[i : i + 1])[0].detach(), 0)


def drawn_label(client: Client, theta: Parameters, i: int, u: float) -> int:
    """The first class up to which the probabilities sum to more than u, a uniform random number."""
    below = probabilities(client, theta, i).cumsum(0) <= u
    return min(int(below.sum()), len(below) - 1)


def gradient(client: Client, theta: Parameters, i: int, y: int | None = None) -> Parameters:
    """g_i, the gradient of one sample's loss, for its own label or another."""
    label = client.y[i : i + 1] if y is None else torch.tensor([y])
    return client.model.gradient(client.model.loss(theta, client.x[i : i + 1], label))


def mean_squared(client: Client, theta: Parameters) -> Parameters:
    """Omega = 1/n sum_i g_i^2, EWC's."""
    return summed(gradient(client, theta, i).squared() for i in client.once) / client.n


def mean_absolute(client: Client, theta: Parameters) -> Parameters:
    """Omega = 1/n sum_i |g_i|: Eqs. 1 and 2 of Yao and Sun 2020 for each parameter."""
    return summed(gradient(client, theta, i).absolute() for i in client.once) / client.n


def mean_norm(client: Client, theta: Parameters) -> Parameters:
    """Omega = 1/n sum_i ||g_i||_2: Eqs. 1 and 2 of Yao and Sun 2020 for the gradient as a whole."""
    norms = [gradient(client, theta, i).squared().total() ** 0.5 for i in client.once]
    return theta.filled(sum(norms) / client.n)


def tensor_squares(client: Client, theta: Parameters, batch_size: int) -> Parameters:
    """Official code of Yao and Sun 2020: one Omega for a tensor T, 1/n sum_b sum_{j in T} (mean_{i in b} g_ij)^2."""
    total = theta.filled(0)
    for first in range(0, client.n, batch_size):
        batch = client.once[first : first + batch_size]
        mean = summed(gradient(client, theta, i) for i in batch) / len(batch)
        total = total + mean.squared().each(lambda square: square.sum().expand_as(square))
    return total / client.n


def mean_sensitivity(client: Client, theta: Parameters) -> Parameters:
    """Omega = 1/n sum_i |d ||f(x_i)||^2 / d theta|, f the logits: MAS (Aljundi et al. 2018)."""

    def squared_norm(i: int) -> Tensor:
        return client.model.logits(theta, client.x[i : i + 1]).square().sum()

    return summed(client.model.gradient(squared_norm(i)).absolute() for i in client.once) / client.n
