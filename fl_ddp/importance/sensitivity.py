"""What is summed over a client's samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fl_ddp.importance.taps import Power
from fl_ddp.losses.criterion import Criterion

Label = Literal["empirical", "exact", "mc"]


@dataclass(frozen=True)
class Sensitivity:
    """What is summed over samples.

    Attributes:
        label: of the negative log-likelihood: empirical takes the data's, exact the expectation over all classes by the
            model's probabilities, mc the mean over classes drawn by them.
        of: nll, or norm for the logits' squared 2-norm, which needs no label (MAS).
        draws: of mc, for each sample.
        power: of every sample's gradient.
        batch_mean: take the power of the mean gradient of each batch. With exact it is the expectation of that square
            over labels drawn for each sample: as such gradients have mean 0, the sum of all squares over B^2.

    Raises:
        ValueError: exact labels have no absolute value of a batch's mean gradient in closed form.

    Source: Kirkpatrick et al. 2017, eq. 3; Kunstner et al. 2019 for the labels; Aljundi et al. 2018 (MAS), eq. 3.
    """

    label: Label = "empirical"
    of: Literal["nll", "norm"] = "nll"
    power: Power = "square"
    batch_mean: bool = False
    draws: int = 1

    def __post_init__(self) -> None:
        if self.of == "nll" and self.label == "exact" and self.batch_mean and self.power == "absolute":
            raise ValueError("the absolute mean gradient of a batch has no exact expectation over labels")

    @property
    def over_classes(self) -> bool:
        """Whether every class is somebody's label."""
        return self.of == "nll" and self.label == "exact"

    def cotangents(self, loss: Criterion, logits: Tensor, y: Tensor, u: Tensor, classes: Tensor) -> Tensor:
        """Gradients of every sample's losses in its logits, [K, B, C] for logits [B, C].

        Args:
            loss: the negative log-likelihood; with exact and mc that of classes.
            logits: of the samples.
            y: [B] the data's labels.
            u: [B] uniform in [0, 1), draws the classes of mc.
            classes: [K] to weigh by their probability; numbers from C up count nothing.
        """
        if self.of == "norm":
            return 2 * logits[None]
        if self.label == "empirical":
            return loss.gradient(logits, y)[None]
        p, every = logits.softmax(-1), torch.arange(logits.shape[-1], device=logits.device)
        if self.label == "exact":
            label = (classes[:, None, None] == every).to(p)
            weight = (p * label).sum(-1, keepdim=True)
            return (weight.sqrt() if self.power == "square" else weight) * (p - label)
        up_to = (p[:, None] * (every <= every[:, None])).sum(-1)  # cumsum takes long to compile
        drawn = (up_to <= u[:, None]).sum(-1).clamp(max=len(every) - 1)
        return loss.gradient(logits, drawn)[None]
