"""What a federation is in a round: the samples, the clients and the test sets of its task."""

from __future__ import annotations

import hashlib
import operator
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.engine.transfer import upload
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.partitions.class_reduction import ClassReduction
from fl_ddp.protocol import Indices, Origin, Tensors
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.data import Data, OwnTest, Parts, TaskTest, World
from fl_ddp.tasks.enrolment import enrolled, enrolment
from fl_ddp.tasks.of_stream import allowed_in, head_grows_in, inputs_in, labels_in, refuse_lost_label, tells_task

_LOOKED_AT = 16
"""Inputs of which it is told how a task has them."""
_AT_ONCE = 10_000
"""Samples whose inputs are changed for a task in one call."""


class Worlds:
    """The worlds of all tasks; beside the data, training samples are on the device as the present task has them.

    Attributes:
        largest_client: the most samples that any client has in any task.
        reductions: what clients lose of their classes from round to round; empty where they lose nothing.
    """

    def __init__(
        self,
        data: Data,
        stream: Stream,
        method: FedAvg,
        seed: int,
        reduction: ClassReduction | None,
    ) -> None:
        """Find out which samples clients have in each task.

        Args:
            data: of the run.
            stream: its tasks.
            method: says what samples the server and everyone have.
            seed: of the run.
            reduction: of clients' samples from round to round.

        Raises:
            ConfigError: a task has no test samples, or nobody has samples of it.
        """
        self._data, self._stream, self._method = data, stream, method
        self._seed, self._reduction, self.reductions = seed, reduction, reduction.text if reduction else ""
        self._of_run = enrolment(stream, len(data.clients), self._rng(Purpose.ENROLMENT))
        self._present: World | None = None
        self._known_labels: dict[tuple[int, Origin], Indices] = {}
        self._known_own: dict[int, Parts] = {}
        self._known_orders: dict[tuple[int, int], Indices] = {}
        self._known_parts: dict[int, tuple[Parts, dict[int, Indices]]] = {}
        self._known_present: dict[int, Indices] = {}
        self._known_tests: dict[int, Samples] = {}
        self._known_allowed: dict[int, Tensor | None] = {}
        self._known_own_tests: dict[int, OwnTest] = {}
        if stream.keep and tells_task(stream):
            what = f"{stream.keep}, but samples of earlier tasks would be classified among labels of the present one"
            raise ConfigError("--stream.keep", what, "false, or a stream whose tasks have the same labels")
        self._grows = head_grows_in(stream)
        counted = [self._allowed_labels(task) for task in range(stream.num_tasks)] if self._grows else []
        for task, (before, now) in enumerate(pairwise(counted), 1):
            refuse_lost_label(stream, task, before, now, len(data.classes))
        self.largest_client = max(len(part) for task in range(stream.num_tasks) for part in self.clients_in(task))
        self._known_orders.clear()  # all tasks are known, and they are as many as samples
        for task in range(stream.num_tasks):
            # models and methods begin with the first task
            if not any(map(len, self.clients_in(task))) and (stream.empty == "error" or not task):
                what = f"{stream.enrolment}: no client that is enrolled in task {task + 1} has samples in it"
                raise ConfigError("--stream.enrolment", what, "another" + (", or --stream.empty skip" if task else ""))
        self._shared(0)
        for task in range(self.num_tests):
            if not len(self._test_rows(task)):
                raise ConfigError("--stream", f"task {task + 1} has no test samples", "at least one in every task")

    @property
    def enrolment(self) -> str:
        """Who is enrolled, as --stream.enrolment reads it from a file; empty for a single task of all clients."""
        rows = [",".join("1" if here else "0" for here in row) + "\n" for row in self._of_run]
        return "" if self._stream.num_tasks == 1 and self._of_run.all() else "".join(rows)

    @cached_property
    def sha256(self) -> str:
        """Of the tasks: who has which samples in each, all targets in it, what is allowed, how a few inputs look."""
        digest, some = hashlib.sha256(b"grows" if self._grows else b""), self._data.train.x[:_LOOKED_AT]
        for task in range(self._stream.num_tasks):
            allowed = np.zeros(0, np.int64) if (among := self._allowed_labels(task)) is None else among
            for part in (*self.clients_in(task), self._labels(task, "train"), self._labels(task, "test"), allowed):
                digest.update(len(part).to_bytes(8, "little") + np.ascontiguousarray(part, np.int64).tobytes())
            digest.update(self._inputs(task, some).cpu().numpy().tobytes())
        for samples in (self._data.train, self._data.test):
            if samples.y.is_floating_point():  # no labels, which the loop above has
                digest.update(samples.y.cpu().numpy().tobytes())
        return digest.hexdigest()

    @property
    def samples(self) -> Tensors:
        """Inputs and targets of the training and the test set, as all tasks find them."""
        train, test = self._data.train, self._data.test
        return {"x_train": train.x, "y_train": train.y, "x_test": test.x, "y_test": test.y}

    @property
    def num_tests(self) -> int:
        """Number of test sets in all."""
        return self._stream.num_tasks if self._stream.tests_apart else 1

    @property
    def test_sizes(self) -> list[int]:
        """Numbers of test samples of the test sets."""
        return [len(self._test_rows(task)) for task in range(self.num_tests)]

    def renewed(self, rounds: int, outputs: int | None) -> dict[int, Indices]:
        """Classes, or all outputs, with more test samples from a task's first round on, by the round, of so many."""
        starts = {self._stream.task(index): index + 1 for index in reversed(range(rounds)) if self.num_tests > 1}
        tests = {first: self._labels(task, "test") for task, first in sorted(starts.items()) if task}
        return {first: np.unique(y[y >= 0]) if outputs is None else np.arange(outputs) for first, y in tests.items()}

    def clients_in(self, task: int) -> Parts:
        """Training samples of each client in a task, as its training set numbers them."""
        return self._with_kept(task)[0]

    def present(self, index: int) -> Indices:
        """Ids of the clients that are enrolled in a round, from 0, and have samples in its task, ascending."""
        return self._present_in(self._stream.task(index))

    def _present_in(self, task: int) -> Indices:
        if task not in self._known_present:
            parts = self.clients_in(task)
            self._known_present[task] = np.array([i for i in enrolled(self._of_run, task) if len(parts[i])], np.int64)
        return self._known_present[task]

    def given_bytes(self, index: int) -> int:
        """Bytes of the shared samples that clients are given before a round: once, or for each task its own."""
        world, begins = self.at(index), index == 0 or self._stream.ends_task(index - 1)
        given = len(world.present) if begins and self._stream.tests_apart else self.newcomers(index)
        return world.train.x[:1].nbytes * int((world.shared >= 0).sum()) * given

    def newcomers(self, index: int) -> int:
        """Number of clients that may take part for the first time from a round on."""
        if index and not self._stream.ends_task(index - 1):
            return 0
        task = self._stream.task(index)
        earlier = {i for before in range(task) for i, part in enumerate(self.clients_in(before)) if len(part)}
        return sum(1 for i, part in enumerate(self.clients_in(task)) if len(part) and i not in earlier)

    def at(self, index: int) -> World:
        """The world of a round, from 0."""
        world = self._of_task(self._stream.task(index))
        return replace(world, clients=self.parts(index)) if self._reduction else world

    def parts(self, index: int) -> Parts:
        """Training samples of each client in a round, from 0, as its task's training set numbers them."""
        return self._reduction.of_round(index) if self._reduction else self.clients_in(self._stream.task(index))

    @property
    def test_samples(self) -> list[Samples]:
        """Those of all tasks' test sets, also of those to come."""
        return [self._test_samples(task) for task in range(self.num_tests)]

    def all_tests(self, present: int) -> list[TaskTest]:
        """All tasks' test sets, also of those to come, and what is allowed in them in the present task."""
        return [TaskTest(each, self._allowed(task, present)) for task, each in enumerate(self.test_samples)]

    def own_tests(self, task: int) -> list[OwnTest]:
        """Own test samples, in each task up to one, of the clients that are enrolled in it and had samples so far."""
        here = np.zeros(len(self._data.clients), np.bool_)
        for each in range(task + 1):
            here[self._present_in(each)] = True
            if each not in self._known_own_tests:
                self._known_own_tests[each] = self._own_test(each)
        tests, nothing = [self._known_own_tests[each] for each in range(task + 1)], np.zeros(0, np.int64)
        return [
            test._replace(
                parts=[part if of_run else nothing for part, of_run in zip(test.parts, here, strict=True)],
                allowed=self._allowed(each, task),
            )
            for each, test in enumerate(tests)
        ]

    def _of_task(self, task: int) -> World:
        if self._present is None or self._present.task != task:
            self._present = None  # room for the next one's samples
            self._present = self._made(task)
        return self._present

    def _made(self, task: int) -> World:
        data, parts = self._data, self.clients_in(task)
        (train, labels), own = self._train(task), self._labels(task, "train")
        so_far = range(task + 1 if self._stream.tests_apart else 1)
        tests = [TaskTest(self._test_samples(each), self._allowed(each, task)) for each in so_far]
        return World(
            task=task,
            train=train,
            labels=labels,
            classes=np.unique(own[own >= 0]),
            clients=parts,
            present=self._present_in(task),
            local_test=self._local_test(task),
            own_samples=train if data.local_test_from == "train" else tests[-1].samples,
            proxy=self._proxy(task),
            shared=self._shared(task),
            allowed=self._allowed(task, task),
            tests=tests,
        )

    def _train(self, task: int) -> tuple[Samples, Indices]:
        """The task's training set, behind it what is kept of earlier ones; and its labels on the host."""
        data, labels = self._data, self._labels(task, "train")
        x = self._inputs(task, data.train.x)
        if kept := self._with_kept(task)[1]:
            images, of_all = [x], [labels]
            for before, rows in kept.items():
                of_all.append(self._labels(before, "train")[rows])
                images.append(self._inputs(before, data.train.x[torch.from_numpy(rows).to(x.device)]))
            x, labels = torch.cat(images), np.concatenate(of_all)
        elif x is data.train.x and labels is data.labels:
            return data.train, labels
        return Samples(x, torch.from_numpy(labels).to(x.device), data.train.normaliser), labels

    def _inputs(self, task: int, x: Tensor) -> Tensor:
        """Inputs as a task has them; the same object where it changes nothing."""
        stream = self._stream
        if type(stream).inputs is Stream.inputs:
            return x
        parts = torch.split(x, _AT_ONCE)
        changed = [inputs_in(stream, task, some, self._rng(Purpose.STREAM, task)) for some in parts]
        return x if all(map(operator.is_, changed, parts)) else torch.cat(changed)

    def _labels(self, task: int, origin: Origin) -> Indices:
        if (task, origin) not in self._known_labels:
            y = self._data.labels if origin == "train" else self._data.test_labels
            self._known_labels[task, origin] = labels_in(self._stream, task, y, len(self._data.classes), origin)
        return self._known_labels[task, origin]

    def _own(self, task: int) -> Parts:
        if task not in self._known_own:
            self._known_own[task] = self._own_in(task, self._of_run[:, task])
        return self._known_own[task]

    def _own_in(self, task: int, column: NDArray[np.bool_]) -> Parts:
        """Samples of the task itself of each client that a column of the enrolment has, as the data number them."""
        data, labels, nothing = self._data, self._labels(task, "train"), np.zeros(0, np.int64)
        if labels is data.labels:
            return [part if here else nothing for part, here in zip(data.clients, column, strict=True)]
        return [part[labels[part] >= 0] if here else nothing for part, here in zip(data.clients, column, strict=True)]

    def _left(self, task: int) -> list[Parts]:
        """What the clients of a task still have of each one before it."""
        nothing, own = np.zeros(0, np.int64), [self._own(before) for before in range(task)]
        left: list[Parts] = [[nothing] * len(self._data.clients) for _ in own]
        for i in map(int, np.flatnonzero(self._of_run[:, task])):
            sizes = {before: size for before, parts in enumerate(own) if (size := len(parts[i]))}
            for before, kept in zip(sizes, self._stream.kept([*sizes.values()]) if sizes else [], strict=True):
                order = self._order(before, i) if 0 < kept < sizes[before] else own[before][i]
                left[before][i] = np.sort(order[:kept])
        return left

    def _order(self, task: int, i: int) -> Indices:
        """A client's samples of a task in the order in which it keeps them, which is the same in all later tasks."""
        if (task, i) not in self._known_orders:
            self._known_orders[task, i] = self._rng(Purpose.KEPT, task, i).permutation(self._own(task)[i])
        return self._known_orders[task, i]

    def _with_kept(self, task: int) -> tuple[Parts, dict[int, Indices]]:
        """What clients_in() gives, and the samples of each task before that somebody still has, ascending."""
        if task not in self._known_parts:
            self._known_parts[task] = self._with_kept_in(task)
        return self._known_parts[task]

    def _with_kept_in(self, task: int) -> tuple[Parts, dict[int, Indices]]:
        parts, start = self._own(task), len(self._data.labels)
        if not self._stream.keep or not self._stream.tests_apart:
            return parts, {}
        kept: dict[int, Indices] = {}
        for before, left in enumerate(self._left(task)):
            if len(rows := np.unique(np.concatenate(left))):
                old = [start + np.searchsorted(rows, part) for part in left]
                parts = [np.concatenate(both) for both in zip(parts, old, strict=True)]
                kept[before], start = rows, start + len(rows)
        return parts, kept

    def _test_samples(self, task: int) -> Samples:
        if task not in self._known_tests:
            self._known_tests[task] = self._test_samples_in(task)
        return self._known_tests[task]

    def _test_samples_in(self, task: int) -> Samples:
        data, rows = self._data, self._test_rows(task)
        labels = self._labels(task, "test")
        x = data.test.x if len(rows) == len(labels) else data.test.x[torch.from_numpy(rows).to(data.test.x.device)]
        x = self._inputs(task, x)
        if x is data.test.x and labels is data.test_labels:
            return data.test
        return Samples(x, torch.from_numpy(labels[rows]).to(x.device), data.test.normaliser)

    def _test_rows(self, task: int) -> Indices:
        return np.flatnonzero(self._labels(task, "test") >= 0)

    def _local_test(self, task: int) -> Parts:
        """Test samples of each client's own that are of the task, as own_samples numbers them."""
        data, origin = self._data, self._data.local_test_from
        labels = self._labels(task, origin)
        if labels is (data.labels if origin == "train" else data.test_labels):
            return data.local_test
        of_task = [part[labels[part] >= 0] for part in data.local_test]
        return of_task if origin == "train" else [np.searchsorted(self._test_rows(task), part) for part in of_task]

    def _own_test(self, task: int) -> OwnTest:
        data, nothing, column = self._data, np.zeros(0, np.int64), self._of_run[:, task]
        parts = [part if here else nothing for part, here in zip(self._local_test(task), column, strict=True)]
        if data.local_test_from == "test":
            return OwnTest(self._test_samples(task), parts, self._allowed(task, task))
        train, labels, x = data.train, self._labels(task, "train"), data.train.x
        if type(self._stream).inputs is not Stream.inputs:  # of a task's own inputs all others need not be made
            rows = np.unique(np.concatenate(parts))
            labels, parts = labels[rows], [np.searchsorted(rows, part) for part in parts]
            x = x[upload(torch.from_numpy(rows), x.device)]
            x = self._inputs(task, x) if len(x) else x
        samples = Samples(x, upload(torch.from_numpy(labels), x.device), train.normaliser)
        return OwnTest(samples, parts, self._allowed(task, task))

    def _shared(self, task: int) -> Indices:
        """One of the clients' training samples of each class that the task has, if the method has everyone be given it.

        Where all tasks have the same data, it is one of all clients', and the same for all tasks.

        Raises:
            ConfigError: nobody has a sample of a class, where tasks are no reason for it.
        """
        if not self._method.shares_samples:
            return np.zeros(0, np.int64)
        parts, labels = self._own(task) if self._stream.tests_apart else self._data.clients, self._labels(task, "train")
        samples = np.unique(np.concatenate(parts))
        found = []
        for label, name in enumerate(self._data.classes):
            those = samples[labels[samples] == label]
            if not len(those) and not self._stream.tests_apart:
                wants = f"{type(self._method).__name__} shares one of each"
                raise ConfigError("--partition", f"no client has a training sample of class {name}, and {wants}")
            found.append(int(generator(self._seed, Purpose.SHARED, label).choice(those)) if len(those) else -1)
        return np.array(found)

    def _allowed(self, task: int, present: int) -> Tensor | None:
        last = max(task, present) if self._grows else task
        if last not in self._known_allowed:
            self._known_allowed[last] = self._allowed_until(last)
        return self._known_allowed[last]

    def _allowed_until(self, task: int) -> Tensor | None:
        if (labels := self._allowed_labels(task)) is None:
            return None
        allowed = np.isin(np.arange(len(self._data.classes)), labels)
        return torch.from_numpy(allowed).to(self._data.train.y.device)

    def _allowed_labels(self, task: int) -> Indices | None:
        present = np.concatenate([self._labels(task, "train"), self._labels(task, "test")])
        return allowed_in(self._stream, task, present, len(self._data.classes))

    def _rng(self, *words: int) -> np.random.Generator:
        return generator(self._seed if self._stream.seed is None else self._stream.seed, *words)

    def _proxy(self, task: int) -> Parts:
        """Samples drawn from clients' for the server, at least one, in parts of a batch each or in one."""
        method, everyone = self._method, np.ones(len(self._data.clients), bool)
        if method.proxy == 0:
            return []
        own = self._own_in(task, everyone) if method.proxy_everyone else self.clients_in(task)
        samples = np.unique(np.concatenate(own))
        words = (self._seed, Purpose.PROXY, task) if task else (self._seed, Purpose.PROXY)
        drawn = generator(*words).permutation(samples)[: max(1, round(method.proxy * len(samples)))]
        cuts = [] if method.proxy_whole else range(method.proxy_batch, len(drawn), method.proxy_batch)
        return np.split(drawn, cuts)
