"""When models are tested."""

from __future__ import annotations

from collections.abc import Callable

from fl_ddp.config.settings import Config


def tests_due(config: Config, ends_task: Callable[[int], bool], index: int) -> tuple[bool, bool]:
    """Whether models are tested in a round, and clients' own ones by class: every so often, and in a task's last.

    An interval of 0 is never.
    """
    last = ends(config, ends_task, index)
    every = config.eval_every, config.forgetting_every
    due, looks = (each > 0 and (last or (index + 1) % each == 0) for each in every)
    return due, looks


def ends(config: Config, ends_task: Callable[[int], bool], index: int) -> bool:
    """Whether a task ends with a round, or all that were asked for are over."""
    return index + 1 == config.rounds or ends_task(index)
