"""Local steps that find their own samples by a counter on the device: recorded once as a CUDA graph, then replayed.

A training is then: copy its state and what it is given into tensors that stay where they are, the samples of its steps,
too, replay as often as it has steps, copy the state back. Between a step's kernels there is no Python, and no wait.
Steps that are given their samples, such as those of an importance pass, are recorded on copies of these.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from threading import Lock
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from fl_ddp.compiler.compilation import compiled, layout, made_once
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.step import Drawn, Objective, State, StepKind, Steps, Training, cloned, local_step
from fl_ddp.errors import first_line

ROWS = 64
"""Steps whose samples lie ready at a time; they are part of what is compiled, so a longer training fills them again."""
MOST = 6
"""Recordings at a time: of a method's one to three trainings in a round and two importance passes, and its server's."""

Recorder = Callable[[Callable[[], None]], Callable[[], object]]
"""Makes of a function of tensors that stay where they are what does the same to them again."""

Ended = TypeVar("Ended")
Made = TypeVar("Made", "Recording", "RecordedCall")

_log = logging.getLogger(__name__)


class Ready(NamedTuple):
    """The next steps, ROWS of them, and the number [1] of the next one, whose remainder says which of them it is."""

    steps: Steps
    number: Tensor


Tick = Callable[[Training, Ready, Samples], None]


@made_once
def tick(objective: Objective, kind: StepKind, shapes: Hashable) -> Tick:
    """The next step of a training; its state and the number of the next one are written in place.

    Args:
        objective: loss and its changes.
        kind: numerics.
        shapes: of all that is given, as in local_step().
    """
    step = local_step(objective, kind._replace(compile=False), shapes)

    def one(training: Training, ready: Ready, samples: Samples) -> None:
        place = ready.number.remainder(ROWS)
        rows, key, lr = (None if part is None else part.index_select(0, place)[0] for part in ready.steps)
        assert rows is not None and key is not None
        at = rows.clamp_min(0)
        drawn = Drawn(samples.x[at], samples.targets_at(at), (rows >= 0).to(kind.dtype), key, ready.number[0])
        rates = training.rates if lr is None else training.rates._replace(lr=lr)
        step(training._replace(rates=rates), drawn, samples.normaliser)
        ready.number.add_(1)

    return compiled(one, "the local step", products=kind.products) if kind.compile else one


class Recording:
    """A tick recorded on tensors of its own, for all trainings that look alike.

    Attributes:
        failed: whether it could not be recorded, and is run anew for each step.
    """

    def __init__(
        self,
        objective: Objective,
        kind: StepKind,
        training: Training,
        steps: Steps,
        samples: Samples,
        record: Recorder,
    ) -> None:
        """Record it.

        Args:
            objective: loss and its changes.
            kind: numerics.
            training: one of them, which is left as it is.
            steps: of it.
            samples: of all of them.
            record: what does it.
        """
        self._training = cloned(training)
        empty = tree_map_only(Tensor, lambda t: t.new_zeros(ROWS, *t.shape[1:]), steps)
        empty.rows.fill_(-1)  # what runs before it is recorded looks at no samples
        self._ready = Ready(empty, torch.zeros(1, dtype=torch.int64, device=empty.rows.device))
        given = (self._training, self._ready, samples)
        once = partial(tick(objective, kind, layout(given)), *given)
        self._again = record(once)
        self.failed = self._again is once

    def run(self, training: Training, steps: Steps, check: Callable[[], None]) -> State:
        """Take all steps of a training, with a check before each; gives its state, which lasts until the next one."""
        for own, given in zip(_tensors(self._training.state), _tensors(training.state), strict=True):
            own.copy_(given)  # each by itself, as what all lanes share does not lie as their own does
        _copy(self._training[1:], training[1:])
        self._ready.number.zero_()
        for first in range(0, len(steps.rows), ROWS):
            for ready, part in zip(_tensors(self._ready.steps), _tensors(steps), strict=True):
                few = part[first : first + ROWS]
                ready[: len(few)].copy_(few)
            for _ in range(min(ROWS, len(steps.rows) - first)):
                check()
                self._again()
        state: State = self._training.state
        return state


class RecordedCall:
    """A function recorded on tensors of its own, which adds to the first thing that it is given.

    Attributes:
        failed: whether it could not be recorded, and is run anew in each call.
    """

    def __init__(self, function: Callable[..., None], given: tuple[object, ...], record: Recorder) -> None:
        """Record it.

        Args:
            function: of tensors, and of nests of them.
            given: to one of its calls, which is left as it is.
            record: what does it.
        """
        self._own = cloned(given)
        once = partial(function, *self._own)
        self._replay = record(once)
        self.failed = self._replay is once

    def run(self, calls: Iterable[tuple[object, ...]], check: Callable[[], None]) -> Any:
        """Make all calls, with a check before each; gives what they added up to, which lasts until the next ones.

        What is the same object as in the call before is what it was then.
        """
        before: tuple[object, ...] = (None,) * len(self._own)
        for given in calls:
            check()
            changed = [i for i, (one, old) in enumerate(zip(given, before, strict=True)) if one is not old]
            _copy(tuple(self._own[i] for i in changed), tuple(given[i] for i in changed))
            self._replay()
            before = given
        return self._own[0]


class Recordings:
    """The recordings of a run's trainings and importance passes, by what their steps are made of.

    Each holds a state of its own, a copy of what it is given, and the memory in which a step computes; so there are
    only some, and all give way to one more. None goes alone: from 2.14 on, torch lets a graph that ends take the memory
    along in which cuBLAS computes on their common stream. What gave way to one that failed beside it is tried again
    when that is gone, or used less, as they may never fit together. All threads' work passes through one after another.
    """

    def __init__(self, record: Recorder) -> None:
        """Remember how to record."""
        self._record = record
        self._made: dict[Hashable, Recording | RecordedCall] = {}
        self._refused: set[Hashable] = set()
        self._gave_way: dict[Hashable, set[Hashable]] = {}
        self._uses = Counter[Hashable]()
        self._lock = Lock()

    def train(
        self,
        objective: Objective,
        kind: StepKind,
        training: Training,
        steps: Steps,
        samples: Samples,
        check: Callable[[], None],
        end: Callable[[State], Ended],
    ) -> Ended | None:
        """Take all steps of a training; None, and nothing is done, where its steps cannot be recorded.

        Args:
            objective: loss and its changes.
            kind: numerics.
            training: what all steps are given; its state's tensors may share memory.
            steps: what each of them is given.
            samples: that stay where they are.
            check: called before each step.
            end: makes something else of the state, whose tensors are not the training's.
        """
        shapes = tuple(None if part is None else (part.shape[1:], part.dtype) for part in steps)
        key = (objective, kind, _form(training.state), layout(training[1:]), shapes, layout(samples))
        with self._lock:
            new = partial(Recording, objective, kind, training, steps, samples, self._record)
            made = self._recorded(key, new, "the local step")
            return None if made is None else end(made.run(training, steps, check))

    def call(
        self,
        function: Callable[..., None],
        first: tuple[object, ...],
        calls: Iterable[tuple[object, ...]],
        check: Callable[[], None],
        end: Callable[[Any], Ended],
        what: str,
    ) -> Ended | None:
        """Make calls of a function that add to the first thing they are given; None where it cannot be recorded.

        Args:
            function: of tensors, and of nests of them, whose layout is the same in all calls.
            first: what the first call is given.
            calls: what each of them is given, the first among them; nothing is taken where there is no recording.
            check: called before each.
            end: makes something else of what they added up to.
            what: it is, for messages.
        """
        with self._lock:
            made = self._recorded((function, layout(first)), partial(RecordedCall, function, first, self._record), what)
            return None if made is None else end(made.run(calls, check))

    def _recorded(self, key: Hashable, new: Callable[[], Made], what: str) -> Made | None:
        """What was recorded by this key, or is now; None where it cannot be."""
        self._uses[key] += 1
        if key in self._refused:
            return None
        if (made := self._made.get(key)) is not None:
            return cast(Made, made)
        others = {other for other, each in self._made.items() if not each.failed}
        if any(self._uses[key] <= self._uses[other] for other in others & self._gave_way.get(key, set())):
            return None
        if len(self._made) >= MOST:
            self._made.clear()
            others.clear()
        made, why = _tried(new)
        if (made is None or made.failed) and others:
            made = None  # with its own tensors
            # theirs may be the memory that it lacks, or gone with its own
            self._made = {other: each for other, each in self._made.items() if each.failed}
            for other in others:
                self._gave_way.setdefault(other, set()).add(key)
            made, why = _tried(new)
        if made is None or made.failed:
            _log.info("%s cannot be recorded%s; its kernels are launched singly", what, why)
        if made is None:
            self._refused.add(key)
        else:
            self._made[key] = made
        return made


def _tried(new: Callable[[], Made]) -> tuple[Made | None, str]:
    """A new recording; None where it fails before anything is recorded, and why."""
    try:
        return new(), ""
    except RuntimeError as error:  # of CUDA, also where its memory does not hold a recording
        return None, f" ({first_line(error)})"


def recordings_on(device: torch.device, *, compile: bool) -> Recordings | None:
    """Where the steps of a device are recorded; None where they are not, and Python takes them one by one."""
    return Recordings(as_cuda_graph) if device.type == "cuda" and compile else None


def as_cuda_graph(function: Callable[[], None]) -> Callable[[], object]:
    """A function recorded as a CUDA graph: what replays it on the same tensors; itself where that fails."""
    warm_up(function)
    try:
        return recorded(function)
    except RuntimeError as error:
        _log.info("a recording failed (%s)", first_line(error.__context__ or error))
        return function


def warm_up(function: Callable[[], object]) -> None:
    """Run a function twice, which compiles it and makes the libraries' handles; neither may happen while recording."""
    stream = _side_stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            for _ in range(2):
                function()
    finally:  # one that failed may still write into what is given up, and to others, now
        torch.cuda.current_stream().wait_stream(stream)


def recorded(function: Callable[[], object]) -> Callable[[], None]:
    """A function that is warm as a CUDA graph.

    Raises:
        RuntimeError: it cannot be one; torch is as it was before.
    """
    stream, graph, before = _side_stream(), torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    try:
        # other threads, such as NCCL's, may go on with what they do
        with torch.cuda.graph(graph, pool=_pool(), stream=stream, capture_error_mode="thread_local"):
            function()
    except RuntimeError:
        # torch stays on the stream, takes the pool for one in use, and draws no number until the recording ends
        torch.cuda.set_stream(before)
        with suppress(RuntimeError):
            torch._C._cuda_endAllocateToPool(stream.device_index, _pool())
        with suppress(RuntimeError):
            generator = torch.cuda.default_generators[stream.device_index]
            generator.graphsafe_set_state(generator.clone_state())
        _pool.cache_clear()
        raise
    replay: Callable[[], None] = graph.replay
    return replay


@cache
def _side_stream() -> torch.cuda.Stream:
    """That of all recordings, since cuBLAS keeps some memory for each stream that it has seen."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


@cache
def _pool() -> Any:
    """Memory of all recordings, which take turns: nothing of a step is left in it when the next one begins."""
    return torch.cuda.graph_pool_handle()


def _copy(to: object, given: object) -> None:
    """Write all tensors of a nest into those of another one that looks alike."""
    of_type: dict[torch.dtype, tuple[list[Tensor], list[Tensor]]] = {}
    for own, other in zip(_tensors(to), _tensors(given), strict=True):  # a GPU copies those of one type in one launch
        for tensors, t in zip(of_type.setdefault(own.dtype, ([], [])), (own, other), strict=True):
            tensors.append(t)
    for pair in of_type.values():
        torch._foreach_copy_(*pair)


def _form(given: object) -> Hashable:
    """Names, shapes and types of all tensors in a nest of tuples and dictionaries, however they lie in memory."""
    if isinstance(given, Tensor):
        return given.shape, given.dtype
    if isinstance(given, dict):
        return tuple((name, _form(each)) for name, each in given.items())
    assert isinstance(given, tuple)
    return tuple(map(_form, given))


def _tensors(given: object) -> Iterator[Tensor]:
    """All tensors in a nest of tuples and dictionaries; torch's own way through it takes three times as long."""
    if isinstance(given, Tensor):
        yield given
    elif isinstance(given, tuple | dict):
        for each in given.values() if isinstance(given, dict) else given:
            yield from _tensors(each)
