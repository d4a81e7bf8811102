"""What groups of clients share as long as their samples are the same."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fl_ddp.config.settings import Config
from fl_ddp.engine.graphed import recordings_on
from fl_ddp.engine.group import Workplace
from fl_ddp.engine.looped import Loops
from fl_ddp.engine.transfer import upload
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.ranks.threads import apart, workers_on
from fl_ddp.tasks.world import World, Worlds


def workplace(
    config: Config,
    worlds: Worlds,
    world: World,
    model: FlatModel,
    check: Callable[[], None],
    loops: Loops | None,
) -> Workplace:
    """Where clients of one of a run's worlds train.

    Args:
        config: of the run.
        worlds: all of them.
        world: the one.
        model: that is trained, on its device.
        check: is called between steps; it raises if the run is asked to stop.
        loops: of all worlds' steps.
    """
    device = model.device
    return Workplace(
        world.train,
        model.dtype,
        config.precision == "bfloat16",
        config.compile,
        check,
        worlds.largest_client,
        upload(torch.from_numpy(world.shared), device),
        world.task,
        world.allowed,
        config.batch_size,
        recordings=recordings_on(device, compile=config.compile),
        loops=loops,
        convolution=config.convolution,
        spread=workers_on(device.type).spread,
        apart=apart(model),
    )
