"""What tasks are made of: the data of a run, the samples that models are tested with, and a task's world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class World:
    """A task's samples and clients.

    Attributes:
        task: from 0.
        train: training set, in which clients have samples.
        labels: [N] of it, on the host; -1 of samples that are not of the task.
        classes: labels that training samples of the task have, ascending; what is kept of earlier ones has others.
        clients: training samples of each client; empty arrays of those that are not present.
        present: ids of the clients that may take part, ascending.
        local_test: test samples of each client's own.
        own_samples: set that these are of.
        proxy: the server's samples, copied from the clients', in parts that ranks can share.
        shared: [C] a training sample of each class, which everyone is given, -1 of one without; empty if none are.
        allowed: [C] bool, labels among which the task's samples are classified; None for all.
        tests: test sets of the tasks up to this one; one in all where tasks have none of their own.
    """

    task: int
    train: Samples
    labels: Indices
    classes: Indices
    clients: Parts
    present: Indices
    local_test: Parts
    own_samples: Samples
    proxy: Parts
    shared: Indices
    allowed: Tensor | None
    tests: Sequence[TaskTest]

    @property
    def own_test(self) -> OwnTest:
        """Clients' own test samples in the task."""
        return OwnTest(self.own_samples, self.local_test, self.allowed)
