"""What clients' optimizers remember from round to round, where clients go on with it."""

from __future__ import annotations

import torch

from fl_ddp.engine.step import STEPS
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.protocol import OF_OPTIMIZER, Tensors


def first_state(model: FlatModel, optimizer: Optimizer, *, momentum: bool) -> Tensors:
    """A client's before it first takes part: vectors [P] by torch's names, and the number of steps []."""
    vectors = {
        name: torch.full_like(model.init(), optimizer.begins_with) for name in optimizer.remembers(momentum=momentum)
    }
    return kept_state(vectors | {STEPS: torch.zeros((), dtype=torch.int64, device=model.device)})


def taken_state(memory: Tensors) -> Tensors | None:
    """What a group's clients remember of it, taken out of their memory; None where every round begins anew."""
    found = {name.removeprefix(OF_OPTIMIZER): memory.pop(name) for name in [*memory] if name.startswith(OF_OPTIMIZER)}
    return found or None


def kept_state(state: Tensors | None) -> Tensors:
    """The same as clients' memory has it."""
    return {f"{OF_OPTIMIZER}{name}": t for name, t in (state or {}).items()}
