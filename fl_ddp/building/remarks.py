"""What is said of a run before it begins, as it may surprise or be a mistake; the run goes on none the less."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fl_ddp.building.division import Division
from fl_ddp.config.idle_options import idle_options
from fl_ddp.config.settings import Config
from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.kinds import channels_are_behind
from fl_ddp.errors import some_of
from fl_ddp.guards.hooks import misspelt, uncalled
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.turnout import Turnout


def remarks_on(
    config: Config,
    data: Arrays,
    division: Division,
    stream: Stream,
    turnout: Turnout,
    method: FedAvg,
    *,
    renumbered: bool,
) -> tuple[str, ...]:
    """All that is said of a run's options, data, tasks, clients and method.

    Args:
        config: all settings.
        data: as they were loaded.
        division: of their samples.
        stream: the tasks.
        turnout: who takes part.
        method: the federated method.
        renumbered: whether the run numbers the classes otherwise than the data.
    """
    return (
        *idle_options(config),
        *_on_run(config, data, method, renumbered=renumbered),
        *_on_parts(config, division, len(data.y_train)),
        *((f"tasks: {some_of(stream.task_names)}",) if stream.task_names else ()),
        *(turnout.availability.remark if turnout.availability else ()),
        *misspelt(type(stream), Stream),
        *uncalled(method, FedAvg, stream.num_tasks),
    )


def _on_run(config: Config, data: Arrays, method: FedAvg, *, renumbered: bool) -> Iterator[str]:
    """What may surprise in its data, and in how clients are drawn of them and weighed."""
    few = config.cohort_size < config.clients
    if few and config.client_sampling == "samples" and method.weights == "data":
        yield (
            "warning: --client_sampling samples and --method.weights data: samples count twice, in who is drawn and in "
            "the mean; the mean of FedProx's algorithm is --method.weights uniform"
        )
    if config.init and renumbered:
        yield "warning: --init: its model's outputs are taken for the classes as the run numbers them, not the data"
    if data.y_train.dtype == np.int64 and min(int(np.min(data.y_train)), int(np.min(data.y_test))) == 1:
        yield (
            f"warning: class {data.classes[0]} has no samples: labels seem to count from 1; the model has one output "
            "too many"
        )
    elif data.y_train.dtype == np.int64 and (empty := np.setdiff1d(np.arange(len(data.classes)), data.y_train)).size:
        names = [data.classes[label] for label in empty]
        yield f"{len(names)} of {len(data.classes)} classes have no training samples: {some_of(names)}"
    shape = data.x_train.shape
    if data.x_train.dtype.kind == "f" and len(shape) == 4 and channels_are_behind(shape):
        yield f"warning: inputs {list(shape[1:])} are taken as [channels, height, width]: {shape[1]} channels"
    if config.partition.name == "Natural" and data.owners and config.clients < len(data.owners.names):
        yield f"{config.clients} of the {len(data.owners.names)} clients that the data name take part (--clients)"


def _on_parts(config: Config, division: Division, number: int) -> Iterator[str]:
    """What may be a mistake in who has which of so many samples, where that was given sample by sample."""
    if config.partition.name != "FromFile":
        return
    kept = division.local_test if config.local_test_from == "train" else []
    times = np.bincount(np.concatenate([*division.clients, *kept]).astype(np.int64), minlength=number)
    several, nobody = int((times > 1).sum()), int((times == 0).sum())
    if several or nobody:
        yield f"--partition: of {number} training samples {several} are with several clients, {nobody} with none"
