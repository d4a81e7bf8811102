"""Ragged clients with a model, and importance by a plain loop over samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from given import round_of_one_task
from torch import Tensor, nn

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.workplace import Workplace
from fl_ddp.importance.coverage import coverage
from fl_ddp.importance.fisher import fisher, mean_gradient_norm
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Indices

PLAN = Plan(10, 1.0, None, 0.1)

PASSES: Mapping[str, Callable[[Group, Tensor, FlatModel], Tensor]] = {
    "empirical": fisher,
    "exact": partial(fisher, kind="exact"),
    "three draws": partial(fisher, kind="mc", draws=3),
    "batch means": partial(fisher, kind="exact", reduction="batch_mean_sq", batch_size=9),
    "norms": mean_gradient_norm,
}
"""All kinds of steps that an importance pass has."""


class Bench(NamedTuple):
    """Clients of given sizes, whose samples follow each other in the training set."""

    work: Workplace
    clients: list[Indices]
    model: FlatModel

    def group(self, ids: Sequence[int], lanes: int = 0, round_index: int = 0) -> Group:
        samples = [self.clients[i] for i in ids]
        when = round_of_one_task(round_index)
        return Group(self.work, PLAN, np.array(ids, np.int64), samples, lanes or len(ids), 7, when)

    def theta(self, lanes: int) -> Tensor:
        """Parameters [lanes, P], other ones in each lane."""
        noise = torch.randn(lanes, self.model.num_params, generator=torch.Generator().manual_seed(2)).to(
            self.model.init()
        )
        return self.model.init() + 0.05 * noise

    def inputs(self, client: int) -> tuple[Tensor, Tensor]:
        samples, index = self.work.samples, torch.from_numpy(self.clients[client]).to(self.work.samples.x.device)
        return samples.inputs(samples.x[index], self.work.dtype), samples.y[index]


def bench(
    make: Callable[[], nn.Module],
    in_shape: tuple[int, ...],
    sizes: Sequence[int],
    *,
    classes: int = 3,
    tokens: int = 0,
    dtype: torch.dtype = torch.float64,
    compile: bool = False,
    bfloat16: bool = False,
    check: Callable[[], None] = lambda: None,
    device: str = "cpu",
) -> Bench:
    random = np.random.default_rng(1)
    x = torch.from_numpy(random.integers(0, tokens or 256, (sum(sizes), *in_shape)))
    x = x.to(torch.int32 if tokens else torch.uint8)
    y = torch.from_numpy(random.integers(0, classes, sum(sizes)))
    x, y = x.to(device), y.to(device)
    mean_and_std = (torch.full((), value, dtype=dtype, device=device) for value in (0.4, 0.6))
    samples = Samples(x, y, Normaliser() if tokens else Normaliser(*mean_and_std))
    example = torch.full((1, *in_shape), tokens - 1) if tokens else samples.inputs(x[:1], dtype)
    with torch_seed(4):
        model = FlatModel(make().to(device, dtype), classes, example.to(device))
    clients = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
    return Bench(Workplace(samples, dtype, bfloat16, compile, check, max(sizes)), clients, model)


def gradients(model: FlatModel, theta: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """Per-sample gradients [N, C, P] of -log p(class) for every class, and p [N, C], one backward pass each."""
    rows, probabilities = [], []
    for sample in x:
        leaf = theta.detach().clone().requires_grad_()
        log_p = model.logits(leaf, sample[None])[0].log_softmax(-1)
        rows.append(torch.stack([torch.autograd.grad(-each, leaf, retain_graph=True)[0] for each in log_p]))
        probabilities.append(log_p.detach().exp())
    return torch.stack(rows), torch.stack(probabilities)


def check_close(found: Tensor, expected: Tensor) -> None:
    """Equal to rounding in float64, as a part of the largest number."""
    assert expected.abs().max() > 0
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12 * float(expected.abs().max()))


def check_against_loop(b: Bench, kind: str = "empirical") -> None:
    """The Fisher of all lanes and the loop's; one lane more is padded."""
    ids = [*range(len(b.clients))]
    theta = b.theta(len(ids) + 1)
    assert kind in ("empirical", "exact")
    found = fisher(b.group(ids, len(ids) + 1), theta, b.model, kind="exact" if kind == "exact" else "empirical")
    for client in ids:
        x, y = b.inputs(client)
        g, p = gradients(b.model, theta[client], x)
        every = g.square()
        expected = (p[..., None] * every).sum(1) if kind == "exact" else every[torch.arange(len(y)), y]
        check_close(found[client], expected.mean(0))
    assert not found[-1].any()


def uncovered(b: Bench) -> set[str]:
    """Names of the parameters that are left to vmap(grad)."""
    return {b.model.names[leaf] for leaf in coverage(b.model, tuple(b.work.samples.x.shape[1:])).others}
