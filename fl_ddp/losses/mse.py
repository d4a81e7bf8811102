"""Regression: the mean squared error."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import ClassVar

from torch import Tensor

from fl_ddp.losses.choices import MEASURES, SCORES, Score
from fl_ddp.losses.criterion import ByOutput, Tested
from fl_ddp.protocol import Targets


@dataclass(frozen=True)
class MSE(ByOutput):
    """The mean over outputs of the squared error, as torch.nn.MSELoss has it."""

    name: ClassVar[str] = "mse"
    targets: ClassVar[Targets] = "numbers"
    score: ClassVar[Score] = SCORES["mse"]
    measures: ClassVar[tuple[str, ...]] = MEASURES["mse"]

    def of_samples(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        return (outputs - y).square().mean(-1)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        return 2 / outputs.shape[-1] * (outputs - y)

    def tested(self, outputs: Tensor, y: Tensor) -> Tested:
        """Beside the loss the mean absolute error, and R squared as a mean over the outputs whose targets differ."""
        left = (outputs - y).square().sum(0)
        spread = (y - y.mean(0)).square().sum(0)
        shares = (1 - left / spread)[y.amax(0) > y.amin(0)]
        r2 = float(shares.mean()) if len(shares) else nan
        return Tested(float(self.of_samples(outputs, y).mean()), {"mae": self.own_score(outputs, y), "r2": r2})

    def own_score(self, outputs: Tensor, y: Tensor) -> float:
        """Mean absolute error, over samples and outputs."""
        return float((outputs - y).abs().mean())
