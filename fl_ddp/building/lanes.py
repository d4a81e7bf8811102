"""How many clients of a run train side by side."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fl_ddp.config.settings import Config
from fl_ddp.guards.hooks import Hooks
from fl_ddp.guards.room import Activations, lanes_with_room, memory_of, need
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.cohort import auto_lanes
from fl_ddp.ranks.memory import room_on
from fl_ddp.ranks.outputs import passes_of
from fl_ddp.tasks.data import Data


def lanes_of(
    config: Config,
    whole: Data,
    optimizer: Optimizer,
    method: FedAvg,
    first_memory: Callable[[Tensors], Tensors],
    activations: Activations,
    largest_client: int,
    device: torch.device,
) -> int:
    """Clients side by side in a group; on a GPU automatic ones have room.

    Args:
        config: all settings.
        whole: samples that lie on the device.
        optimizer: whose memory counts, too.
        method: whose state does.
        first_memory: gives what a client remembers between rounds, with what it does by the method.
        activations: of one sample.
        largest_client: samples of the client that has most.
        device: to train on.

    Raises:
        ConfigError: the method's init() or init_client() gives something else.
    """
    if config.lanes != "auto":
        return config.lanes
    lanes = auto_lanes(config.cohort_size, device.type, method.model.num_params)
    if device.type != "cuda":
        return lanes
    server, of_method = Hooks(method, config.model.name).first(method)
    remembered, slots = first_memory(of_method), len(optimizer.remembers(momentum=config.momentum > 0))
    of_step = activations.kept * min(config.batch_size, largest_client)
    beside = sum(each.x.nbytes + each.y.nbytes for each in (whole.train, whole.test))
    beside += activations.passing * min(passes_of(method.model).size, len(whole.test.y))
    needed = need(server, slots, of_step, remembered, beside, recorded=config.compile)
    room = memory_of(device) - (room_on(device) if remembered else 0)
    return lanes_with_room(lanes, needed, room)
