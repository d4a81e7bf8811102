"""What a model gives of a sample is to depend on that sample alone, and the same whenever it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fl_ddp.errors import ConfigError, one_line
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import form_of

_ROUNDING, _OF_ANOTHER_KERNEL = 1e-2, 0.1
"""Of the largest logit: the most that rounding makes, in batches as large, and in others, for which a GPU may have a
kernel of less precision; what other samples make is about as large as the logit."""


class Looks(NamedTuple):
    """Logits [2, C] of two inputs, asked in several ways.

    Attributes:
        training: in training mode, twice.
        evaluation: in evaluation mode, twice.
        beside_itself: of the last input twice, in evaluation mode, which are as many and so summed in the same order.
        alone: [1, C] of the last input, in evaluation mode.
    """

    training: tuple[Tensor, Tensor]
    evaluation: tuple[Tensor, Tensor]
    beside_itself: Tensor
    alone: Tensor


def looks(model: FlatModel, x: Tensor, name: str) -> Looks:
    """Ask an initial model of this name about two inputs [2, ...].

    Raises:
        ConfigError: it fails on two.
    """
    theta, key = model.init(), torch.ones((), dtype=torch.int64, device=x.device)
    mask = torch.ones(len(x), dtype=model.dtype, device=x.device)

    def ask(rows: Sequence[int], *of_training: Tensor) -> Tensor:
        """About copies, which a model may write into."""
        return model.logits(theta.clone(), torch.stack([x[row] for row in rows]), *of_training)

    try:
        with torch.no_grad():
            training = ask((0, 1), key, mask), ask((0, 1), key, mask)
            return Looks(training, (ask((0, 1)), ask((0, 1))), ask((1, 1)), ask((1,)))
    except Exception as error:  # a user's module may raise anything
        what = f"fails on two samples of {list(x.shape[1:])}: {one_line(error)}"
        raise _refused(name, what, "a forward of any number of them") from error


def refuse_other_rows(found: Looks, num_classes: int, name: str) -> None:
    """Refuse a model whose logits of a sample depend on something else.

    Args:
        found: what it gives.
        num_classes: C.
        name: of the module, for the message.

    Raises:
        ConfigError: logits have another shape in a mode, are not numbers, or depend on other samples or earlier calls.
    """
    for mode, (logits, _) in (("training", found.training), ("evaluation", found.evaluation)):
        if not isinstance(logits, Tensor) or logits.shape != (2, num_classes):
            what = f"gives {form_of(logits)} for two samples in {mode} mode"
            raise _refused(name, what, f"logits [2, {num_classes}] or (features, logits)")
        if logits.isnan().any():
            raise _refused(name, f"gives nan in {mode} mode, with its initial parameters", "numbers")
    for mode, (logits, again) in (("training", found.training), ("evaluation", found.evaluation)):
        if not torch.equal(logits, again):
            what = f"gives other logits of the same samples when it is called again in {mode} mode"
            raise _refused(name, what, "a forward that keeps nothing of its own between calls")
    logits = found.evaluation[0]
    scale = float(logits.abs().max())
    for other, rounding in ((found.beside_itself[1], _ROUNDING), (found.alone[0], _OF_ANOTHER_KERNEL)):
        if not torch.allclose(logits[1], other, rtol=0, atol=rounding * scale):
            what = "gives other logits of a sample beside another one than by itself: its batch takes part"
            raise _refused(name, what, "a forward of each sample by itself, but for torch.nn.BatchNorm layers")


def _refused(name: str, what: str, accepted: str) -> ConfigError:
    return ConfigError("--model", f"{name}'s forward {what}", accepted)
