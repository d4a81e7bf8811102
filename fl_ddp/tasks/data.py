"""What tasks are made of: the data of a run, and the samples that models are tested with."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from fl_ddp.engine.samples import Samples
from fl_ddp.protocol import Indices, Origin

Parts = list[Indices]


class Data(NamedTuple):
    """The data of a run, as all tasks find them.

    Attributes:
        train: training set on the device.
        test: test set on the device.
        labels: [N] of the training set, on the host.
        test_labels: [M] of the test set, on the host.
        classes: names of the labels that tasks have.
        clients: training samples of each client.
        local_test: test samples of each client's own.
        local_test_from: set that they are of.
    """

    train: Samples
    test: Samples
    labels: Indices
    test_labels: Indices
    classes: tuple[str, ...]
    clients: Parts
    local_test: Parts
    local_test_from: Origin


class TaskTest(NamedTuple):
    """The test samples of a task, and among which labels they are classified: [C] bool, None for all."""

    samples: Samples
    allowed: Tensor | None


class OwnTest(NamedTuple):
    """Clients' own test samples of a task.

    Attributes:
        samples: that the parts are of.
        parts: those of each client, empty for one that has none in the task.
        allowed: [C] bool, labels among which they are classified; None for all.
    """

    samples: Samples
    parts: Parts
    allowed: Tensor | None
