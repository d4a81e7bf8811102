"""Local steps on a CPU that follow each other without Python: the compiled step finds its samples by a counter.

Its own C++ calls it as often as is asked, so that a worker computes without Python's lock, and a step costs what its
arithmetic does. A model that fills a core's cache goes on alone: one lane takes its steps, then the next one, and none
takes steps that only others have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from itertools import repeat
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map_only, tree_unflatten

from fl_ddp.compiler.compilation import compiled, layout, made_once
from fl_ddp.compiler.repeated import in_a_row
from fl_ddp.engine.lanes import ForEach
from fl_ddp.engine.samples import Normaliser
from fl_ddp.engine.stacks import Stack
from fl_ddp.engine.step import Drawn, Objective, StepKind, Training, local_step
from fl_ddp.errors import CompilerError, first_line

ALONE = 2**18
"""Bytes of a lane's state from which it goes on alone; part of what a run computes, as sums of its products are."""
_CHANNELS_FIRST = 2**24
"""Bytes of it from which channels come first: filters as large take longer to be brought into another order."""
_TURN = 0.05
"""Seconds after which a loop looks whether the run is asked to stop."""

_log = logging.getLogger(__name__)


class StepInput(NamedTuple):
    """What a step is given: its training, the stack that it is of, its place [1] there, and how samples are inputs."""

    training: Training
    drawn: Drawn
    lr: Tensor | None
    place: Tensor
    normaliser: Normaliser


@made_once
def next_step(
    objective: Objective, kind: StepKind, shapes: Hashable, *, channels_last: bool
) -> Callable[[StepInput], None]:
    """The step at the given place; the state and the place of the next one are written in place.

    Args:
        objective: loss and its changes.
        kind: numerics.
        shapes: of what is given, as in local_step().
        channels_last: whether they may be, around convolutions.
    """
    step = local_step(objective, kind._replace(compile=False), shapes)

    def one(given: StepInput) -> None:
        training, stack, lr, place, normaliser = given
        x, y, mask, _, number = (part.index_select(0, place)[0] for part in stack)
        here = torch.arange(len(stack.key)) == place
        # a sum is stored: what is only picked would be picked again for each of the many numbers that noise hashes
        drawn = Drawn(x, y, mask, torch.where(here[:, None], stack.key, 0).sum(0), number)
        rates = training.rates if lr is None else training.rates._replace(lr=lr.index_select(0, place)[0])
        step(training._replace(rates=rates), drawn, normaliser)
        place.add_(1)

    what = "the local step"
    return compiled(one, what, products=kind.products, repeats=True, channels_last=channels_last)


class Loops:
    """The loops of a run, by what their steps are made of; several threads may be in one at once."""

    def __init__(self) -> None:
        """Nothing is compiled so far."""
        self._made: dict[Hashable, _Loop | None] = {}
        self._lock = Lock()

    def train(
        self,
        objective: Objective,
        kind: StepKind,
        training: Training,
        stacks: Iterator[Stack],
        normaliser: Normaliser,
        check: Callable[[], None],
        spread: ForEach,
    ) -> bool:
        """Take all steps of a training; False, and nothing is done, where they cannot follow each other so.

        Args:
            objective: loss and its changes.
            kind: numerics.
            training: what all steps are given.
            stacks: what each of them is given.
            normaliser: of their samples.
            check: called between steps, several times a second.
            spread: does something with all lanes that go on alone.
        """
        lanes = len(training.state.loss)
        at_once = 1 if _bytes_of_lane(training) >= ALONE else lanes
        trainings = _apart(training, at_once)
        loop = None
        for stack in stacks:
            parts = [
                StepInput(own, drawn, lr, torch.zeros(1, dtype=torch.int64), normaliser)
                for own, (drawn, lr) in zip(trainings, _by_lanes(stack, at_once), strict=True)
            ]
            loop = loop or self._of(objective, kind, parts[0])
            if loop is None:
                return False
            spread(partial(loop.run, check), zip(parts, _own_steps(stack, at_once), strict=True))
        return True

    def _of(self, objective: Objective, kind: StepKind, given: StepInput) -> _Loop | None:
        key = (objective, kind, layout(given))
        with self._lock:
            if key not in self._made:
                self._made[key] = _tried(
                    next_step(*key, channels_last=_bytes_of_lane(given.training) < _CHANNELS_FIRST), given
                )
            return self._made[key]


class _Loop:
    """A step that is taken several times in a row."""

    def __init__(self, step: Callable[[StepInput], None]) -> None:
        self._step = step
        self._at_once = 1

    @torch.no_grad()
    def run(self, check: Callable[[], None], steps: tuple[StepInput, int]) -> None:
        """Take so many steps of what is given, with a check before each turn of them; of any thread."""
        given, count = steps
        while (done := int(given.place)) < count:
            check()
            began = time.perf_counter()
            with in_a_row(min(count - done, self._at_once)):
                self._step(given)
            # one, where torch has been told to run what it compiled as it stands
            taken = int(given.place) - done
            assert taken > 0
            self._at_once = max(1, int(_TURN * taken / (time.perf_counter() - began)))


def _tried(step: Callable[[StepInput], None], given: StepInput) -> _Loop | None:
    """A loop of a step, which is compiled and taken once on copies; None if it cannot be compiled."""
    try:
        state = tree_map_only(Tensor, torch.clone, given.training.state)
        step(given._replace(training=given.training._replace(state=state), place=given.place.clone()))
    except CompilerError as error:
        _log.info("local steps are taken one by one (%s)", first_line(error))
        return None
    return _Loop(step)


def _apart(training: Training, lanes: int) -> list[Training]:
    """The trainings of so many lanes each, whose states are written."""
    state, mine, rates = training.state, training.mine, training.rates
    leaves, form = tree_flatten((state, mine, (rates.lr,) if rates.lr.ndim else ()))
    found = []
    for own in zip(*(torch.split(leaf, lanes) for leaf in leaves), strict=True):
        own_state, own_mine, lr = tree_unflatten(own, form)
        own_rates = rates._replace(lr=lr[0]) if lr else rates
        found.append(training._replace(state=own_state, mine=own_mine, rates=own_rates))
    return found


def _by_lanes(stack: Stack, lanes: int) -> Iterator[tuple[Drawn, Tensor | None]]:
    """Of so many lanes each, what is drawn in all steps of a stack, and its learning rates where they change."""
    drawn, lr = stack.drawn, stack.lr
    parts = zip(*(torch.split(t, lanes, 1) for t in drawn[:-1]), strict=True)
    rates = repeat(None) if lr is None else torch.split(lr, lanes, 1)
    for (x, y, mask, key), own in zip(parts, rates, strict=False):
        yield Drawn(x, y, mask, key, drawn.number), own


def _bytes_of_lane(training: Training) -> int:
    state = training.state
    return sum(t.nbytes for t in state.walk.tensors) // len(state.loss)


def _own_steps(stack: Stack, lanes: int) -> list[int]:
    """Up to which step of a stack so many lanes after another have samples: behind it they stay as they are."""
    has_any = stack.drawn.mask[: stack.size].any(2).view(stack.size, -1, lanes).any(2)
    last = has_any * torch.arange(1, stack.size + 1)[:, None]
    found: list[int] = last.amax(0).tolist()
    return found


def loops_on(device: torch.device, *, compile: bool) -> Loops | None:
    """Where the steps of a device follow each other without Python; None where it takes them one by one."""
    return Loops() if device.type == "cpu" and compile else None
