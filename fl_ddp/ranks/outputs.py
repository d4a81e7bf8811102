"""What models give for test samples, on the host in float64: all that is said of them where targets are numbers.

A forward pass has as many samples on any ranks and in any company: with others its last bits might be others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from fl_ddp.engine.samples import Samples
from fl_ddp.engine.transfer import upload
from fl_ddp.protocol import Indices
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.threads import workers_on

BATCH = 1000
"""Samples per forward pass."""


def gathered(
    predict: Callable[[Tensor], Tensor], samples: Samples, rows: Indices, dtype: torch.dtype, ranks: Ranks
) -> tuple[Tensor, Tensor]:
    """Outputs of a model for some samples, and their targets, [M, C] each; every rank gives every so-many-th batch.

    Args:
        predict: outputs [B, C] of inputs [B, ...].
        samples: that the rows are of.
        rows: [M] which of them.
        dtype: of the inputs.
        ranks: to deal batches to.
    """
    index = upload(torch.from_numpy(rows), samples.y.device)

    def of_batch(start: int) -> Tensor:
        with torch.no_grad():
            return predict(samples.inputs(samples.x[index[start : start + BATCH]], dtype)).double()

    mine = range(ranks.index * BATCH, len(rows), ranks.size * BATCH)
    found = ranks.together(lambda: workers_on(ranks.device.type).map(of_batch, mine))
    y = samples.y[index].double()
    outputs = torch.zeros_like(y)
    for start, some in zip(mine, found, strict=True):
        outputs[start : start + BATCH] = some
    # what others have is 0 here, so that the sum is what they have
    return _on_host(ranks.add(outputs), y)


def of_lanes(
    predict: Callable[[Tensor, Tensor], Tensor],
    theta: Tensor,
    samples: Samples,
    parts: Sequence[Indices],
    longest: int,
    dtype: torch.dtype,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Outputs of each lane's model for its own samples, and their targets, [m, C] each.

    Args:
        predict: outputs [B, C] of a model [V] for inputs [B, ...].
        theta: [G, V].
        samples: that the parts are of.
        parts: samples of each lane, one list a lane.
        longest: the most samples of any client, in whatever group.
        dtype: of the inputs.
    """
    width = min(max(1, BATCH // len(parts)), longest)
    index = torch.zeros(len(parts), -(-longest // width) * width, dtype=torch.int64)
    for lane, part in enumerate(parts):
        index[lane, : len(part)] = torch.from_numpy(part)
    index = upload(index, samples.y.device)
    with torch.no_grad():
        found = [
            torch.vmap(predict)(theta, samples.inputs(samples.x[at], dtype)).double()
            for at in torch.split(index, width, 1)
        ]
    outputs, targets = _on_host(torch.cat(found, 1), samples.y[index].double())
    for lane, part in enumerate(parts):
        yield outputs[lane, : len(part)], targets[lane, : len(part)]


def summed(score: Callable[[slice], Tensor], size: int, width: int, ranks: Ranks) -> Tensor:
    """Sums [width] over all batches, float64 on the host; every rank takes every so-many-th batch.

    Args:
        score: what is summed of a batch, [width] float64; sums of it must be exact, so that ranks move no bit.
        size: number of samples.
        width: of the sums.
        ranks: to deal batches to.
    """

    def of_batch(start: int) -> Tensor:
        with torch.no_grad():
            return score(slice(start, start + BATCH))

    mine = range(ranks.index * BATCH, size, ranks.size * BATCH)
    batches = ranks.together(lambda: workers_on(ranks.device.type).map(of_batch, mine))
    nothing = torch.zeros(width, dtype=torch.float64, device=ranks.device)
    return ranks.add(torch.stack([nothing, *batches]).sum(0)).cpu()


def _on_host(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Both, of one shape, in one copy: each waits for the device."""
    if outputs.device.type == "cpu":
        return outputs, targets
    both = torch.stack([outputs, targets]).cpu()
    return both[0], both[1]
