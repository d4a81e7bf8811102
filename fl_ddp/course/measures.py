"""What functions of the user's own measure of the global model wherever it is tested."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor, nn

from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import Purpose, torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.host.stopwatch import Stopwatch
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results.metrics import of_function

TaskTests = Sequence[tuple[Samples, Tensor | None]]
"""Test samples of tasks, and among which labels [C] bool they are classified, None for all."""


@dataclass(frozen=True)
class GlobalModel:
    """The global model where it is tested, by the names that a result of fl_ddp.load() has.

    Attributes:
        round: number of finished rounds.
        task: the present one, from 1.
        weights: parameters and buffers, for load_state_dict; copies.
        tests: of each task so far, one where there are none, inputs as the model takes them, and labels; copies.
        allowed: among which labels [C] bool the samples of each are classified; None for all.
    """

    round: int
    task: int
    weights: Tensors
    tests: list[tuple[Tensor, Tensor]]
    allowed: list[Tensor | None]
    _made: Callable[[], nn.Module]

    @cached_property
    def model(self) -> nn.Module:
        """A module of the run's kind in evaluation mode, with these weights."""
        module = self._made()
        module.load_state_dict(self.weights)
        return module.eval()


class Measures:
    """The functions of --measures; rank 0 calls them, every rank hears what they give."""

    def __init__(self, config: Config, model: FlatModel, fresh: Callable[[], nn.Module], ranks: Ranks) -> None:
        """Find the functions.

        Args:
            config: names them.
            model: of the run.
            fresh: makes its module anew, as the user wrote it.
            ranks: of the run.

        Raises:
            ConfigError: one is not there.
        """
        self._functions = {path: registry.measure(path) for path in config.measures}
        self._seed, self._model, self._fresh, self._ranks = config.seed, model, fresh, ranks

    def of(self, round: int, task: int, theta: Tensor, tests: TaskTests, watch: Stopwatch) -> Mapping[str, float]:
        """What each gives, by the column of metrics.csv; all ranks ask together.

        Args:
            round: number of finished rounds.
            task: the present one, from 0.
            theta: [P] of the global model.
            tests: of the tasks so far.
            watch: takes the time, as evaluation.

        Raises:
            ConfigError: a function gives no number.
        """
        if not self._functions:
            return {}
        with watch.phase("evaluation"):
            measured = partial(self._measured, round, task, theta, tests)
            row = self._ranks.add_together(measured, len(self._functions))
            return dict(zip(map(of_function, self._functions), row.tolist(), strict=True))

    def _measured(self, round: int, task: int, theta: Tensor, tests: TaskTests) -> Tensor:
        """[functions] what each gives, on rank 0; 0 on others."""
        row = torch.zeros(len(self._functions), dtype=torch.float64)
        if not self._ranks.is_main:
            return row
        device = self._model.device
        for i, (path, function) in enumerate(self._functions.items()):
            copies = [samples.copies(self._model.dtype) for samples, _ in tests]
            allowed = [None if labels is None else labels.clone() for _, labels in tests]
            tested = GlobalModel(round, task + 1, self._model.state_dict(theta), copies, allowed, self._module)
            with torch.no_grad(), torch_seed(self._seed, Purpose.MEASURE, round, device=device):
                row[i] = _number(path, function(tested))
        return row

    def _module(self) -> nn.Module:
        """On the run's device; one of its own for each who asks, as it may be changed."""
        return copy.deepcopy(self._made).to(self._model.device)

    @cached_property
    def _made(self) -> nn.Module:
        return self._fresh()


def _number(path: str, given: object) -> float:
    """What a function gives, if it is one number."""
    if isinstance(given, Tensor | np.ndarray | np.generic) and np.prod(given.shape) == 1:
        given = given.item()
    if isinstance(given, bool) or not isinstance(given, int | float):
        shape = f" {list(given.shape)}" if isinstance(given, Tensor | np.ndarray) else ""
        raise ConfigError("--measures", f"{path} gives {type(given).__name__}{shape}", "a number; a function for each")
    try:
        return float(given)
    except OverflowError as error:
        raise ConfigError("--measures", f"{path} gives {error}", "a number that a float holds") from error
