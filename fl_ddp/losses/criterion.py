"""What a loss is: of what targets, by which gradient, and what a test tells of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from fl_ddp.losses.choices import SCORES, Score
from fl_ddp.protocol import Targets, alike


@dataclass(frozen=True)
class Tested:
    """How a model does on a test set.

    Attributes:
        loss: mean over the samples.
        measures: what the loss says beside it, in the order of its own.
        accuracy: share of right decisions; None where nothing is decided.
        of_outputs: [C] the same of each output; empty likewise.
    """

    loss: float
    measures: Mapping[str, float] = field(default_factory=dict)
    accuracy: float | None = None
    of_outputs: tuple[float, ...] = ()


@dataclass(frozen=True)
class Criterion(ABC):
    """What clients train for unless their method overrides `loss`, and what models are measured by."""

    name: ClassVar[str]
    """Of --loss."""
    targets: ClassVar[Targets]
    """What samples have beside their inputs."""
    score: ClassVar[Score] = SCORES["cross_entropy"]
    """Of SCORES."""
    measures: ClassVar[tuple[str, ...]] = ()
    """Of MEASURES."""

    @abstractmethod
    def of_samples(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Of each sample [...], from a model's outputs [..., C] and targets."""

    @abstractmethod
    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Of of_samples in the outputs [..., C]."""

    def in_training(self, outputs: Tensor, y: Tensor) -> Tensor:
        """Of each sample [...] in clients' local steps."""
        return self.of_samples(outputs, y)


class ByOutput(Criterion):
    """A loss of targets [..., C] of as many numbers as the model has outputs."""

    @abstractmethod
    def tested(self, outputs: Tensor, y: Tensor) -> Tested:
        """From the outputs for a test set and its targets, [M, C] each, float64."""

    @abstractmethod
    def own_score(self, outputs: Tensor, y: Tensor) -> float:
        """`score` of a client's own test samples, from [m, C] each, float64, m at least 1."""


def mean_over(mask: Tensor, losses: Tensor) -> Tensor:
    """Mean of the losses [B] of a batch's real samples, whose mask [B] is 1 []; 0 of none."""
    return alike(losses * mask).sum() / mask.sum().clamp_min(1)
