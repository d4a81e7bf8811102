"""What a stream makes of its tasks: what is not as Stream says is refused, with the line of the stream's function."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from functools import partial
from numbers import Integral, Real
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from fl_ddp.errors import ConfigError, is_users, place_of_hook
from fl_ddp.guards.global_random import refuse_global_draws
from fl_ddp.guards.samples import read_only, refuse_other_samples
from fl_ddp.protocol import Indices, Origin, Owners, form_of
from fl_ddp.streams.stream import Stream

Given = TypeVar("Given")

_ROUNDING = 1e-4
"""Of a sample's largest number, by which it may differ in other company."""
_LOOKED_AT = 100_000
"""Rounds whose tasks are looked at before a run."""


def told_owners(stream: Stream, owners: Owners | None, rounds: int) -> Stream:
    """The stream for data that say so whose samples they are.

    Raises:
        ConfigError: of_owners() gives something else, or other tasks than refuse_other_tasks() allows.
    """
    given: object = _called(stream, "of_owners", partial(stream.of_owners, owners))
    if not isinstance(given, Stream):
        raise ConfigError(_who(stream, "of_owners"), f"gives {type(given).__name__}", "a Stream")
    if given is not stream:
        refuse_other_tasks(given, rounds)
    return given


def classes_in(stream: Stream, names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the run's labels, of those that the data have.

    Raises:
        ConfigError: classes() gives something else.
    """
    given: object = _called(stream, "classes", partial(stream.classes, names))
    if not isinstance(given, tuple | list) or not all(isinstance(name, str) for name in given) or not given:
        what = f"gives {given!r}" if isinstance(given, tuple | list) else f"gives {type(given).__name__}"
        raise ConfigError(_who(stream, "classes"), what, "a tuple of names, of at least one label")
    if len(set(given)) < len(given):
        twice = next(name for name in given if given.count(name) > 1)
        raise ConfigError(_who(stream, "classes"), f"names two labels {twice!r}", "names that are distinct")
    return tuple(given)


def order_in(stream: Stream, num_classes: int, rng: np.random.Generator) -> Indices | None:
    """The data's classes in the order in which the run numbers them; None for the data's.

    Raises:
        ConfigError: class_order() gives something else.
    """
    call = partial(stream.class_order, num_classes, rng)
    given: object = _called(stream, "class_order", call, "from rng, which it is given")
    if given is None:
        return None
    array = None
    with suppress(TypeError, ValueError, RuntimeError):  # rows of unlike lengths, tensors of another device
        array = np.asarray(given)
    whole = array is not None and array.ndim == 1 and np.issubdtype(array.dtype, np.integer)
    if array is None or not whole or not np.array_equal(np.sort(array), np.arange(num_classes)):
        accepted = f"each of 0 to {num_classes - 1} once, the data's classes, or None"
        raise ConfigError(_who(stream, "class_order"), f"gives {given!r}", accepted)
    return array.astype(np.int64)


def refuse_other_tasks(stream: Stream, rounds: int) -> None:
    """Refuse tasks that are not a whole number of them, one after the other.

    Raises:
        ConfigError: num_tasks is no whole number from 1 up, or task() gives none of them for one of so many rounds, or
            an earlier one than in the round before.
    """
    given: object = stream.num_tasks
    if not isinstance(given, Integral) or isinstance(given, bool) or given < 1:
        what = f"is {given}" if isinstance(given, Real) else f"is {type(given).__name__}"
        raise ConfigError(
            f"--stream: num_tasks of {type(stream).__name__}", what, "a whole number from 1 up, a property"
        )
    if type(stream).task is Stream.task:
        return
    before = 0
    for index in range(min(rounds, _LOOKED_AT) + 1):  # who ends a task asks about the round behind it
        task: object = _called(stream, "task", partial(stream.task, index))
        if not isinstance(task, Integral) or not before <= int(task) < int(given):
            accepted = f"whole numbers from {before} to {given - 1}, counted from 0; one that comes again has another"
            raise ConfigError(_who(stream, "task"), f"gives {task} in round {index + 1}", accepted)
        before = int(task)


def labels_in(stream: Stream, task: int, y: Indices, num_classes: int, origin: Origin) -> Indices:
    """Labels of all samples of a set in a task, -1 of those that are not of it; the same object if all are.

    Args:
        stream: the tasks.
        task: from 0.
        y: [N] labels of the set, which the stream may not write into.
        num_classes: C, of the run.
        origin: the set.

    Raises:
        ConfigError: labels() or of_task() gives something else.
    """
    labels = _whole(
        stream, "labels", task, _called(stream, "labels", partial(stream.labels, task, read_only(y), num_classes))
    )
    if labels.shape != y.shape:
        raise _refused(stream, "labels", task, f"{list(labels.shape)} labels", f"one of each sample, {list(y.shape)}")
    rows = _whole(
        stream, "of_task", task, _called(stream, "of_task", partial(stream.of_task, task, read_only(labels), origin))
    )
    refuse_other_samples(rows, len(labels), partial(_refused, stream, "of_task", task))
    if len(rows) < len(labels):
        others = np.full_like(labels, -1)
        others[rows] = labels[rows]
        labels = others
    if len(beyond := labels[(labels < -1) | (labels >= num_classes)]):
        what = f"-1 to {num_classes - 1}, of the {num_classes} classes()"
        raise _refused(stream, "labels", task, f"the label {beyond[0]}", what)
    return y if np.array_equal(labels, y) else labels


def allowed_in(stream: Stream, task: int, labels: Indices, num_classes: int) -> Indices | None:
    """Labels among which a task's samples are classified, ascending; None for all.

    Args:
        stream: the tasks.
        task: from 0.
        labels: [N] that samples of the task have, -1 of others.
        num_classes: C.

    Raises:
        ConfigError: allowed() gives something else, or lacks a label that a sample has.
    """
    given = _called(stream, "allowed", partial(stream.allowed, task))
    if given is None:
        return None
    allowed = np.unique(_whole(stream, "allowed", task, [*given] if isinstance(given, set) else given))
    if len(beyond := allowed[(allowed < 0) | (allowed >= num_classes)]):
        raise _refused(stream, "allowed", task, f"the label {beyond[0]}", f"0 to {num_classes - 1}")
    if len(lacking := np.setdiff1d(labels[labels >= 0], allowed)):
        what = f"{allowed.tolist()}, without {lacking[0]}, which samples of the task have"
        raise _refused(stream, "allowed", task, what, "all labels of the task")
    return allowed


def head_grows_in(stream: Stream) -> bool:
    """Whether labels count from a task on, also in later tests of earlier ones.

    Raises:
        ConfigError: head_grows is something else.
    """
    grows: object = stream.head_grows
    if not isinstance(grows, bool):
        raise ConfigError(f"head_grows of {type(stream).__name__}", f"is {grows!r}", "a property that is True or False")
    return grows


def refuse_lost_label(stream: Stream, task: int, before: Indices | None, now: Indices | None, num_classes: int) -> None:
    """Refuse a head that grows, and yet lacks one of so many labels that counted in the task before; None is all.

    Raises:
        ConfigError: it does.
    """
    every = np.arange(num_classes)
    lost = np.setdiff1d(every if before is None else before, every if now is None else now).tolist()
    if lost:
        what = f"labels without {lost[0]}, which counted in the task before (head_grows is True),"
        raise _refused(stream, "allowed", task, what, "all labels so far")


def tells_task(stream: Stream) -> bool:
    """Whether in one of the tasks samples are classified among its own labels alone."""
    if head_grows_in(stream):
        return False
    given = (_called(stream, "allowed", partial(stream.allowed, task)) for task in range(stream.num_tasks))
    return any(labels is not None for labels in given)


def inputs_in(stream: Stream, task: int, some: Tensor, rng: np.random.Generator) -> Tensor:
    """Some samples' inputs as a task has them; the same object where it changes nothing.

    Raises:
        ConfigError: inputs() gives something else, numbers that are not finite, or what it makes of the last sample
            depends on the others.
    """
    again = deepcopy(rng)
    given = some.clone()  # which may be written in
    new: object = _called(stream, "inputs", partial(stream.inputs, task, given, rng))
    if not isinstance(new, Tensor) or new.shape != some.shape or new.dtype != some.dtype:
        what = f"turns {form_of(some)} into {form_of(new)}"
        raise ConfigError(_who(stream, "inputs"), what, "inputs of the same shape and type")
    if not is_users(type(stream).inputs.__code__.co_filename):
        return some if new is given and new.equal(some) else new
    if new.is_floating_point() and not new.isfinite().all():
        raise _refused(stream, "inputs", task, f"{new[~new.isfinite()][0].item()}", "numbers that are finite")
    if len(some) > 1:
        alone: object = _called(stream, "inputs", partial(stream.inputs, task, some[-1:].clone(), again))
        if not isinstance(alone, Tensor) or not _alike(alone, new[-1:]):
            what = f"turns a sample alone into something else than among {len(some)}"
            raise ConfigError(_who(stream, "inputs"), what, "what depends on the sample and the task")
    return some if new is given and new.equal(some) else new


def _alike(alone: Tensor, among: Tensor) -> bool:
    """Whether inputs are the same but for roundings."""
    if alone.shape != among.shape or alone.dtype != among.dtype:
        return False
    exact, own = among.double(), alone.double()
    rounded = _ROUNDING * exact.abs().nan_to_num(0).amax() if among.is_floating_point() else among.dtype == torch.uint8
    return bool((((own - exact).abs() <= rounded) | (own.isnan() & exact.isnan()) | (own == exact)).all())


def _called(
    stream: Stream,
    hook: str,
    call: Callable[[], Given],
    instead: str = "from a generator of the task's own, as inputs() is given",
) -> Given:
    """What a function of a stream gives, without draws from global generators."""
    with refuse_global_draws(f"{hook} of {type(stream).__name__}", instead, call):
        return call()


def _whole(stream: Stream, hook: str, task: int, given: object) -> Indices:
    """An array of whole numbers [n]."""
    array = given if isinstance(given, np.ndarray | list | tuple | range) else None
    array = None if array is None else np.asarray(array)
    if array is None or array.ndim != 1 or (len(array) and not np.issubdtype(array.dtype, np.integer)):
        what = form_of(given) if array is None else f"{array.dtype} {list(array.shape)}"
        raise _refused(stream, hook, task, what, "an array or a list of whole numbers [n]")
    return array.astype(np.int64, copy=False)


def _who(stream: Stream, hook: str) -> str:
    return place_of_hook(type(stream), hook)


def _refused(stream: Stream, hook: str, task: int, what: str, accepted: str) -> ConfigError:
    return ConfigError(_who(stream, hook), f"gives {what} in task {task + 1}", accepted)
