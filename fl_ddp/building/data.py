"""What a run makes of its data: the order of their classes, their labels, the tests of merged ones, clients' names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fl_ddp.building.division import Division
from fl_ddp.config import registry
from fl_ddp.config.settings import Config
from fl_ddp.datasets.dataset import Arrays, Dataset
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError
from fl_ddp.losses.criterion import ByOutput, Criterion
from fl_ddp.protocol import Indices, Owners
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.data import Parts
from fl_ddp.tasks.of_stream import order_in


def dataset_of(config: Config) -> Dataset:
    """The data of a configuration, before they are loaded.

    Raises:
        ConfigError: merged ones would have no test set.
    """
    source = registry.build(config.data)
    assert isinstance(source, Dataset)
    if source.merge and (config.local_test == 0 or config.local_test_from == "test"):
        kept = "what --local_test keeps aside of the clients' samples is then the test set"
        raise ConfigError("--data.merge", f"true, but {kept}; give --local_test 0.25, say, and --local_test_from train")
    return source


def renumbered(data: Arrays, stream: Stream, loss: Criterion, seed: int) -> Arrays:
    """The data, with its classes numbered in the order that the stream has them in."""
    rng = generator(seed if stream.seed is None else stream.seed, Purpose.CLASS_ORDER)
    order = None if isinstance(loss, ByOutput) else order_in(stream, len(data.classes), rng)
    if order is None:
        return data
    number = np.argsort(order)
    in_order = tuple(data.classes[label] for label in order)
    return replace(data, y_train=number[data.y_train], y_test=number[data.y_test], classes=in_order)


def labels_of(data: Arrays, loss: Criterion) -> tuple[Indices, Indices, tuple[str, ...]]:
    """Labels of the training and of the test set, and their names; one for all where samples have other targets."""
    if isinstance(loss, ByOutput):
        return np.zeros(len(data.y_train), np.int64), np.zeros(len(data.y_test), np.int64), ("samples",)
    return data.y_train.astype(np.int64, copy=False), data.y_test.astype(np.int64, copy=False), data.classes


def own_tests_together(division: Division, train: Samples, labels: Indices) -> tuple[Samples, Indices]:
    """The test set of merged data, with its labels: what is kept aside of all clients' samples."""
    tested = np.unique(np.concatenate(division.local_test))
    rows = torch.from_numpy(tested).to(train.x.device)
    return Samples(train.x[rows], train.y[rows], train.normaliser), labels[tested]


def names_of_clients(owners: Owners, clients: Parts) -> tuple[str, ...]:
    """Names of clients each of which has all its training samples, at least one, from one owner."""
    return tuple(owners.names[owners.train[part[0]]] for part in clients)
