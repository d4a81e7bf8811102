"""Whose samples are whose: the partition, and what is kept aside of each client's as its own test samples."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError
from fl_ddp.losses.criterion import ByOutput, Criterion
from fl_ddp.partitions.local_split import drawn_like, local_split
from fl_ddp.partitions.partition import Partition
from fl_ddp.protocol import Indices, Owners
from fl_ddp.tasks.data import Parts


class Division(NamedTuple):
    """A division of the samples.

    Attributes:
        clients: training samples of each client.
        local_test: its own test samples, of the set that --local_test_from names; empty arrays if none were asked for.
        seed: that the partition was drawn with.
    """

    clients: Parts
    local_test: Parts
    seed: int


def divide(config: Config, loss: Criterion, labels: Indices, test_labels: Indices, owners: Owners | None) -> Division:
    """Divide the samples as a configuration says.

    Args:
        config: all settings.
        loss: a division by class makes no sense for one without classes.
        labels: [N] of the training set.
        test_labels: [M] of the test set.
        owners: of the samples, where the data know them.

    Raises:
        ConfigError: the data cannot be divided so, or a client has no samples.
    """
    partition = registry.build(config.partition, owners=owners, num_clients=config.clients)
    assert isinstance(partition, Partition)
    if isinstance(loss, ByOutput) and partition.by_label:
        what = f"{config.partition.name} divides by class, and --loss {loss.name} has none"
        raise ConfigError("--partition", what, "IID, Quantity, Natural or FromFile")
    seed = config.seed if partition.seed is None else partition.seed
    clients = partition.split(labels, config.clients, generator(seed, Purpose.PARTITION))
    empty = [i for i, samples in enumerate(clients) if not len(samples)]
    if empty:
        raise ConfigError("--partition", f"client {empty[0]} has no samples", "at least one for every client")
    test = [np.zeros(0, np.int64)] * len(clients)
    rng = generator(seed, Purpose.LOCAL_TEST)
    known = partition.local_test(config.local_test_from, len(test_labels)) if config.local_test > 0 else None
    if known:
        test = known
    elif config.local_test > 0 and config.local_test_from == "test":
        test = drawn_like(clients, labels, test_labels, config.local_test, rng)
    elif config.local_test > 0:
        clients, test = local_split(clients, config.local_test, rng)
    if config.local_test > 0 and not any(map(len, test)) and not config.resume:
        if known:
            what = f"{config.partition.name} has no test samples of a client there is"
            raise ConfigError("--local_test", f"{config.local_test}, but {what}", "0, or the other --local_test_from")
        raise ConfigError("--local_test", f"{config.local_test} leaves no client a test sample", "a larger share")
    return Division(clients, test, seed)
