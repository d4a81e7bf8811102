"""How models do on clients' own test samples, and clients' own models on the test set, class by class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fl_ddp.engine.lanes import ForEach, by_lane
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.transfer import upload
from fl_ddp.losses.cross_entropy import one_hot
from fl_ddp.protocol import Indices
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exact_sum import LIMIT, bins
from fl_ddp.ranks.outputs import WIDTH, Passes, in_widths, summed

_OF_EACH = 100
"""Samples of the test set per forward pass of each client's own model, in whatever company."""


class ByClient(NamedTuple):
    """Accuracy [K] of a model on each client's own test samples, and mean cross-entropy [K]; nan without any."""

    accuracy: npt.NDArray[np.float64]
    loss: npt.NDArray[np.float64]


class OfLanes(NamedTuple):
    """Accuracy [G] of each lane's own model, and mean cross-entropy [G], float64; 0 where it has no test samples."""

    accuracy: Tensor
    loss: Tensor


def evaluate_clients(
    predict: Callable[[Tensor], Tensor],
    samples: Samples,
    parts: Sequence[Indices],
    passes: Passes,
    ranks: Ranks,
) -> ByClient:
    """How a model does with each client, on its own test samples.

    Args:
        predict: logits [B, C] of inputs [B, ...].
        samples: that the parts are of.
        parts: test samples of each client.
        passes: over them.
        ranks: to deal batches to.
    """
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    index, client = (upload(torch.from_numpy(t), samples.y.device) for t in (np.concatenate(parts), owner))

    def look(batch: slice) -> Tensor:
        y = samples.y[index[batch]]
        logits = predict(samples.inputs(samples.x[index[batch]], passes.dtype))
        nll = torch.nn.functional.cross_entropy(logits, y, reduction="none")
        return torch.stack([logits.argmax(1) == y, nll.double()])

    def score(found: Tensor, places: Tensor) -> Tensor:
        """Right predictions and the two bins of the loss by client."""
        right, nll = found
        each = torch.stack([right, *bins(nll.clamp(max=LIMIT / max(len(owner), 1)))])
        return each.new_zeros(3, len(parts)).index_add_(1, client[places], each).flatten()

    wait = summed(look, score, 3 * len(parts), len(owner), passes.size, ranks)
    right, *loss = wait().view(3, -1).numpy()
    sizes = np.array([len(part) for part in parts], np.float64)
    with np.errstate(invalid="ignore"):
        return ByClient(right / sizes, np.add(*loss) / sizes)


def own_scores(
    predict: Callable[[Tensor, Tensor], Tensor],
    theta: Tensor,
    samples: Samples,
    parts: Sequence[Indices],
    dtype: torch.dtype,
    spread: ForEach | None = None,
) -> OfLanes:
    """How each lane's model does on its own samples, in batches of one width, so that company moves no bit of a loss.

    Args:
        predict: logits [B, C] of a model [V] for inputs [B, ...].
        theta: [G, V].
        samples: that the parts are of.
        parts: test samples of each lane, one list a lane.
        dtype: of the inputs.
        spread: does something with lanes one after another; None for all side by side.
    """
    device = samples.y.device
    right, loss = torch.zeros(2, len(parts), device=device, dtype=torch.float64)
    if not any(map(len, parts)):  # there may be no sample at all to fill lanes up with
        return OfLanes(right, loss)
    rows = upload(in_widths(parts), device)
    with torch.no_grad():
        for at in torch.split(rows, WIDTH, 1):
            index = at.clamp_min(0)
            y = samples.targets_at(index)
            logits = by_lane(predict, theta, samples.inputs(samples.x[index], dtype), spread)
            nll = torch.nn.functional.cross_entropy(logits.transpose(1, 2), y, reduction="none").double()
            right += ((logits.argmax(2) == y) & (at >= 0)).sum(1)
            loss += torch.where(at >= 0, nll.clamp(max=LIMIT), 0).sum(1)
    size = (rows >= 0).sum(1).clamp_min(1)
    return OfLanes(right / size, loss / size)


def right_by_class(
    predict: Callable[[Tensor, Tensor], Tensor],
    theta: Tensor,
    samples: Samples,
    num_classes: int,
    spread: ForEach | None = None,
) -> Tensor:
    """Right predictions [G, C], whole numbers in float32, of each lane's model on all samples, by label.

    Args:
        predict: logits [B, C] of a model [V] for inputs [B, ...].
        theta: [G, V].
        samples: the test set.
        num_classes: C.
        spread: does something with lanes one after another; None for all side by side.
    """
    total = torch.zeros(len(theta), num_classes, device=theta.device)
    with torch.no_grad():
        places = torch.arange(len(samples.y), device=theta.device)
        for at in torch.split(places, _OF_EACH):
            y = samples.y[at]
            right = by_lane(predict, theta, samples.inputs(samples.x[at], theta.dtype), spread, None).argmax(2) == y
            total += right.to(total) @ one_hot(y, num_classes).to(total)
    return total
