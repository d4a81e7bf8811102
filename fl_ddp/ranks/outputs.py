"""What models give for test samples, on the host in float64: all that is said of them where targets are numbers.

A forward pass has as many samples on any ranks and in any company: with others its last bits might be others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fl_ddp.engine.lanes import ForEach, by_lane
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.transfer import on_its_way, upload
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Indices
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.threads import workers_on

BATCH = 1000
"""Samples per forward pass."""
CONVOLVED = 100
"""As many where a CPU convolves: its cache holds what layers give to each other; a seventh to half of the time less."""
WIDTH = 32
"""Samples of a lane per forward pass of clients' own models, whatever company it has."""


class Passes(NamedTuple):
    """How a model is asked about many samples.

    Attributes:
        dtype: of its inputs.
        size: samples per forward pass.
    """

    dtype: torch.dtype
    size: int


def passes_of(model: FlatModel) -> Passes:
    """Those of a model, in whatever company."""
    return Passes(model.dtype, CONVOLVED if model.device.type == "cpu" and model.convolves else BATCH)


def gathered(
    predict: Callable[[Tensor], Tensor], samples: Samples, rows: Indices, passes: Passes, ranks: Ranks
) -> Callable[[], tuple[Tensor, Tensor]]:
    """Outputs of a model for some samples, and their targets, [M, C] each; every rank gives every so-many-th batch.

    Args:
        predict: outputs [B, C] of inputs [B, ...].
        samples: that the rows are of.
        rows: [M] which of them.
        passes: over them.
        ranks: to deal batches to.

    Returns:
        what waits for both, which are on their way to the host.
    """
    index = upload(torch.from_numpy(rows), samples.y.device)

    def of_batch(start: int) -> Tensor:
        with torch.no_grad():
            return predict(samples.inputs(samples.x[index[start : start + passes.size]], passes.dtype)).double()

    def of_mine() -> Tensor:
        """What others have is 0 here, so that the sum is what they have."""
        mine, outputs = range(ranks.index * passes.size, len(rows), ranks.size * passes.size), torch.zeros_like(y)
        for start, some in zip(mine, workers_on(ranks.device.type).map(of_batch, mine), strict=True):
            outputs[start : start + passes.size] = some
        return outputs.flatten()

    y = samples.y[index].double()
    return _to_host(ranks.add_together(of_mine, y.numel()).view(y.shape), y)


def of_lanes(
    predict: Callable[[Tensor, Tensor], Tensor],
    theta: Tensor,
    samples: Samples,
    parts: Sequence[Indices],
    dtype: torch.dtype,
    spread: ForEach | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of each lane's model for its own samples, and their targets, [m, C] each; WIDTH a forward pass.

    Args:
        predict: outputs [B, C] of a model [V] for inputs [B, ...].
        theta: [G, V].
        samples: that the parts are of.
        parts: samples of each lane, one list a lane.
        dtype: of the inputs.
        spread: does something with lanes one after another; None for all side by side.
    """
    index = upload(in_widths(parts).clamp_min(0), samples.y.device)
    inputs = (samples.inputs(samples.x[at], dtype) for at in torch.split(index, WIDTH, 1))
    found = [by_lane(predict, theta, x, spread).double() for x in inputs]
    outputs, targets = _to_host(torch.cat(found, 1), samples.y[index].double())()
    for lane, part in enumerate(parts):
        yield outputs[lane, : len(part)], targets[lane, : len(part)]


def in_widths(parts: Sequence[Indices]) -> Tensor:
    """Samples [G, M] of lanes, -1 where a lane has no more of them; M is a multiple of WIDTH, and not 0."""
    longest = max(1, *map(len, parts))
    rows = torch.full((len(parts), -(-longest // WIDTH) * WIDTH), -1)
    for lane, part in enumerate(parts):
        rows[lane, : len(part)] = torch.from_numpy(part)
    return rows


def summed(
    look: Callable[[slice], Tensor],
    score: Callable[[Tensor, Tensor], Tensor],
    sums: int,
    size: int,
    batch: int,
    ranks: Ranks,
) -> Callable[[], Tensor]:
    """Sums over all samples in float64, on their way to the host; every rank looks at every so-many-th batch.

    Args:
        look: what is found of a batch's samples, [2, B] float64.
        score: sums of what is found [2, M] of samples at places [M], float64; exact ones, so that ranks move no bit.
        sums: how many they are.
        size: number of samples.
        batch: samples of a batch.
        ranks: to deal batches to; they sum once.

    Returns:
        what waits for them.
    """

    def of_batch(start: int) -> Tensor:
        with torch.no_grad():
            return look(slice(start, start + batch))

    def of_mine() -> Tensor:
        found = workers_on(ranks.device.type).map(of_batch, mine)
        if not found:  # of a rank without a batch
            found = [torch.zeros(2, 0, dtype=torch.float64, device=ranks.device)]
        places = np.flatnonzero(np.arange(size) // batch % ranks.size == ranks.index)
        return score(torch.cat(found, 1), upload(torch.from_numpy(places), ranks.device))

    mine = range(ranks.index * batch, size, ranks.size * batch)
    return on_its_way(ranks.add_together(of_mine, sums))


def _to_host(outputs: Tensor, targets: Tensor) -> Callable[[], tuple[Tensor, Tensor]]:
    """Both, of one shape, in one copy: each waits for the device."""
    if outputs.device.type == "cpu":
        return lambda: (outputs, targets)
    both = on_its_way(torch.stack([outputs, targets]))

    def wait() -> tuple[Tensor, Tensor]:
        first, second = both()
        return first, second

    return wait
