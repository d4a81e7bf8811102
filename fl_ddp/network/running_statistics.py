"""BatchNorm's running statistics from round to round, whatever a method does with its vectors.

They are coordinates of theta, so they travel with it. Whatever a server update makes of these coordinates (momentum,
control variates, a dual variable) gives way to the clients' mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from fl_ddp.errors import ConfigError
from fl_ddp.network.choices import RunningStatistics
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import OF_STATISTICS, Tensors, Total, Upload


@dataclass(frozen=True)
class Statistics:
    """What becomes of the running statistics of a model.

    Attributes:
        model: the network.
        choice: average takes the mean of the cohort's after each round, first that of the first round for good; local
            has each client keep its own.

    Raises:
        ConfigError: something is to become of them, but the model has none.
    """

    model: FlatModel
    choice: RunningStatistics

    def __post_init__(self) -> None:
        if self.choice != "average" and not self.model.running:
            raise ConfigError("--running_statistics", f"{self.choice}, but the model has no BatchNorm")

    @property
    def are_local(self) -> bool:
        """Whether each client keeps its own, so that the global model has none that count."""
        return self.choice == "local"

    def first_memory(self, of_method: Tensors) -> Tensors:
        """A client's memory before it first takes part, with its own statistics if it keeps them."""
        return of_method | self._own(self.model.init())

    def kept(self, upload: Upload) -> Tensors:
        """What a group's clients remember; their own statistics are those of their own models."""
        return upload.memory | self._own(upload.theta[:, : self.model.num_params])

    def own(self, theta: Tensor, memory: Tensors) -> Tensor:
        """Models [..., V] with the statistics that their clients keep to themselves; as they are where none does."""
        if not self.are_local:
            return theta
        of_model, beside = theta[..., : self.model.num_params], theta[..., self.model.num_params :]
        return torch.cat([self.model.put(of_model, self.model.running, memory[OF_STATISTICS]), beside], -1)

    def now(self, before: Tensors, total: Total, *, first: bool) -> Tensor | None:
        """The statistics after a round, of the server's before it and of what its clients hand over; None if none.

        Args:
            before: the server's state.
            total: of the round.
            first: whether nobody has trained before it.

        Raises:
            ConfigError: the method's clients hand over no sum of them.
        """
        running = self.model.running
        if not running:
            return None
        if not {"statistics", "weight"} <= total.sums.keys():
            what = "hands over no sum of running statistics, and the model has BatchNorm"
            raise ConfigError("--method", f"its client_update {what}", "the sums of FedAvg.average, and others")
        now = self.model.take(before["theta"], running)
        if self.choice != "first" or first:
            now = (now + total.sums["statistics"] / total.sums["weight"]).to(now.dtype)
        return now

    def put(self, state: Tensors, now: Tensor | None) -> Tensors:
        """A server's state with these in place of what its update made of the statistics."""
        running = self.model.running
        if now is None:
            return state
        return state | {"theta": self.model.put(state["theta"], running, now)}

    def estimated(self, theta: Tensor, sums: Mapping[str, Tensor]) -> Tensor:
        """The model [P] with the statistics of samples: sums over them, and their number."""
        mean = (sums["statistics"] / sums["samples"]).to(theta.dtype)
        return self.model.put(theta, self.model.running, mean)

    def _own(self, theta: Tensor) -> Tensors:
        return {OF_STATISTICS: self.model.take(theta, self.model.running)} if self.are_local else {}
