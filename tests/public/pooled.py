"""Tasks one after the other in the small federation, and the samples of a learner that stands for a whole cohort.

A step of gradient descent on all samples of a cohort is the mean of its clients' steps, by their numbers of samples.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from federation import COHORTS, FEATURES, Samples, waves

COUNTS = (12, 9, 7, 4)
"""Samples of each client; the last one has none of the last task."""
CLASSES, OF_TASK = 6, 2
"""Of all tasks, and of each one."""
TURNS = tuple(tuple(cohort) for cohort in COHORTS)
"""Who trains in the rounds of a task."""
ALONE = ((0,),) * 3
"""A single client in as many."""


def samples(client: int) -> Samples:
    """Of a client, of all tasks."""
    x = (waves(COUNTS[client] * FEATURES, 2.0 * client + 1) * 64).round() / 32
    labels = (torch.arange(COUNTS[client]) * (1, 5, 7, 11)[client] + client) % CLASSES
    return x.view(-1, FEATURES), labels


def classes_of(task: int) -> range:
    """Those that are new in it."""
    return range(OF_TASK * task, OF_TASK * (task + 1))


def pooled(clients: Iterable[int], classes: Iterable[int]) -> Samples:
    """What some clients have of some classes."""
    parts = [samples(client) for client in clients]
    x, labels = (torch.cat(each) for each in zip(*parts, strict=True))
    those = torch.isin(labels, torch.tensor([*classes]))
    return x[those], labels[those]
