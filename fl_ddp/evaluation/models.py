"""How models do: the server's on the test set, those of clients on their own samples; all ranks share the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import nan
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fl_ddp.engine.lanes import ForEach
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.transfer import upload
from fl_ddp.evaluation.scores import Scores, evaluate, pooled
from fl_ddp.federation import Federation
from fl_ddp.guards.hooks import Hooks
from fl_ddp.losses.criterion import ByOutput
from fl_ddp.losses.cross_entropy import among
from fl_ddp.protocol import Indices, Tensors, Term, Total
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exchange import Summed
from fl_ddp.ranks.outputs import gathered, of_lanes, passes_of
from fl_ddp.ranks.own_tests import ByClient, OfLanes, evaluate_clients, own_scores, right_by_class
from fl_ddp.ranks.threads import apart
from fl_ddp.results.client_table import ClientScores
from fl_ddp.results.forgetting_table import ClassChange
from fl_ddp.results.metrics import Record
from fl_ddp.tasks.data import OwnTest, TaskTest, World

Predict = Callable[[Tensor, Tensor], Tensor]
"""Logits [B, C] of a model [V] for inputs [B, ...]."""


class Received(NamedTuple):
    """Accuracy, or the loss's own score, of what clients have before they train, on their own test samples.

    Attributes:
        by_all: mean over all clients that are enrolled; None if none of them has test samples.
        by_cohort: over the cohort, likewise.
        each: [K] of each client, nan for one without test samples; None if none has any.
        losses: [K] mean cross-entropies, likewise.
    """

    by_all: float | None = None
    by_cohort: float | None = None
    each: npt.NDArray[np.float64] | None = None
    losses: npt.NDArray[np.float64] | None = None


class Personal(NamedTuple):
    """How clients' own models do: the mean over all clients, if all train, and each that did."""

    by_all: float | None = None
    each: Sequence[ClientScores] = ()


class Evaluation:
    """How the models of one federation do in a task, on the test sets of the tasks so far.

    It looks at copies of them: a model may write into its parameters, and what becomes of a run must not depend on how
    often it is looked at, nor by how many ranks and threads.

    Attributes:
        any_own: whether clients have test samples of their own, without which received() has nothing to tell.
        any_own_tasks: whether they have such of tasks with tests of their own.
    """

    def __init__(self, federation: Federation, world: World, ranks: Ranks, hooks: Hooks) -> None:
        """Look at a world's test samples, all ranks together, as the hooks of a method predict."""
        self._federation, self._world, self._ranks, self._hooks = federation, world, ranks, hooks
        self.any_own = any(map(len, federation.local_test))
        self.any_own_tasks = self.any_own and federation.worlds.num_tests > 1
        self._passes = passes_of(federation.model)
        criterion = federation.model.criterion
        self._by_output = criterion if isinstance(criterion, ByOutput) else None

    def of_server(self, theta: Tensor, of_all_tasks: bool = False) -> Callable[[], Scores]:
        """The server's model [P] on the test sets of the tasks so far together; of each task, or of all to come too.

        Gives what waits for the scores: a GPU may be given more to do before.
        """
        model, worlds, tests = self._federation.model, self._federation.worlds, self._world.tests
        # those of tasks to come are made, which may fail on one rank
        more = of_all_tasks and len(tests) < worlds.num_tests
        tested = self._ranks.together(lambda: worlds.all_tests(self._world.task)) if more else tests

        def score(test: TaskTest) -> Callable[[], Scores]:
            def predict(x: Tensor) -> Tensor:
                return among(model.logits(theta.clone(), x), test.allowed)

            if self._by_output:
                return self._by_its_outputs(self._by_output, predict, test.samples)
            return evaluate(predict, test.samples, model.num_classes, self._passes, self._ranks)

        coming = [score(test) for test in tested]

        def of_all() -> Scores:
            each = [scores() for scores in coming]
            of_each = tuple(scores.accuracy for scores in each if scores.accuracy is not None)
            of_tasks = of_each if worlds.num_tests > 1 else ()
            return pooled(each[: len(tests)])._replace(of_tasks=of_tasks)

        return of_all

    def _by_its_outputs(
        self, loss: ByOutput, predict: Callable[[Tensor], Tensor], samples: Samples
    ) -> Callable[[], Scores]:
        """Scores of a model by a loss of outputs, and what waits for them."""
        wait = gathered(predict, samples, np.arange(len(samples.y)), self._passes, self._ranks)

        def scores() -> Scores:
            found = loss.tested(*wait())
            return Scores(found.accuracy, found.loss, found.of_outputs, measures=found.measures)

        return scores

    def received(self, theta: Tensor, cohort: Indices) -> Received:
        """How the model [P] that clients receive does on their own test samples, all clients' and the cohort's."""
        assert self.any_own
        world = self._world
        accuracy, loss = self._received_in(theta, world.own_test)
        return Received(_mean(accuracy[world.present]), _mean(accuracy[cohort]), accuracy, loss)

    def received_in_tasks(self, theta: Tensor, tests: Sequence[OwnTest]) -> npt.NDArray[np.float64]:
        """Accuracy [K, tests] of the model [P] that all clients have, on their own test samples, nan without any."""
        return np.stack([self._received_in(theta, test).accuracy for test in tests], 1)

    def _received_in(self, theta: Tensor, test: OwnTest) -> ByClient:
        model, (samples, parts, allowed) = self._federation.model, test

        def predict(x: Tensor) -> Tensor:
            return among(model.logits(theta.clone(), x), allowed)

        if self._by_output:
            return self._scores_of_clients(predict, samples, parts)
        return evaluate_clients(predict, samples, parts, self._passes, self._ranks)

    def received_own(self, clients: Indices, cohort: Indices, found: Tensors) -> Received:
        """The same of models that clients keep: own_accuracy and own_loss [k] of clients [k]."""
        each = [np.full(len(self._world.clients), nan) for _ in Received._fields[2:]]
        tested = [len(self._world.local_test[i]) > 0 for i in clients]
        for of_all, name in zip(each, ("own_accuracy", "own_loss"), strict=True):
            of_all[clients[tested]] = found[name].numpy()[tested]
        accuracy, loss = each
        return Received(_mean(accuracy[clients]), _mean(accuracy[cohort]), accuracy, loss)

    def told_of(self, record: Record, total: Total, initial: Received, personal: Personal, *, of_all: bool) -> Record:
        """A round's record with how its clients did; of_all where all were asked to train."""
        return replace(
            record,
            train_loss=total.ratio("loss", "trained"),
            initial_accuracy=initial.by_all,
            personalised_accuracy=total.ratio("own_accuracy", "tested"),
            initial_accuracy_cohort=initial.by_cohort if of_all else None,
            personalised_accuracy_all=personal.by_all,
            reported=total.means(self._federation.method.reports),
        )

    def personal(
        self, trained: Indices, received: Received, done: Summed, of_others: tuple[Indices, Summed] | None
    ) -> Personal:
        """How clients' own models do.

        Args:
            trained: ids [k].
            received: how the received model does.
            done: what comes of the clients that trained.
            of_others: ids of all others and what comes of them, if they trained, too.
        """
        own = {name: t for name, t in done.reported.items() if name in ("own_accuracy", "own_loss")}
        if of_others is None:
            return Personal(None, self.of_clients(trained, received, own))
        ids, others = of_others
        names = ("own_accuracy", "tested")
        both = {name: done.total.numbers[name] + others.total.numbers[name] for name in names}
        own = {name: torch.cat([row, others.reported[name]]) for name, row in own.items()}
        each = self.of_clients(np.concatenate([trained, ids]), received, own)
        return Personal(Total({}, numbers=both).ratio("own_accuracy", "tested"), each)

    def of_clients(self, trained: Indices, received: Received, own: Tensors) -> list[ClientScores]:
        """How clients' models do on their own test samples: those that trained, and all that are enrolled.

        Args:
            trained: ids [k].
            received: how the received model does; without it there is nothing to tell of others.
            own: own_accuracy and own_loss [k] of the trained models; nothing where no client has test samples.
        """
        world = self._world
        if not own:
            return []
        place = {int(i): k for k, i in enumerate(trained)}
        after = torch.stack([own["own_accuracy"], own["own_loss"]]).tolist()
        listed = trained if received.each is None else np.union1d(world.present, trained)
        of_received, found = (received.each, received.losses), list[ClientScores]()
        for i in map(int, listed):
            tested = len(world.local_test[i])
            before = [None if each is None or not tested else float(each[i]) for each in of_received]
            mine = [each[place[i]] if i in place and tested else None for each in after]
            found.append(ClientScores(i, len(world.clients[i]), tested, before[0], mine[0], before[1], mine[1]))
        return found

    def by_class(self, theta: Tensor) -> Tensor:
        """Right predictions [G, C] of clients' own models [G, V] on the test sets of the tasks so far, by label."""
        theta, num_classes, spread = theta.clone(), len(self._federation.classes), apart(self._federation.model)
        found = [right_by_class(self._predicting(test.allowed), theta, test.samples, num_classes, spread)
                 for test in self._world.tests]  # fmt: skip
        return torch.stack(found).sum(0)

    def changes(self, clients: Indices, received: Scores, right: Tensor) -> list[ClassChange]:
        """What local training made of each class's accuracy.

        Args:
            clients: ids [k].
            received: scores of the model that they received.
            right: [k, C] right predictions of their own.
        """
        world, num_classes = self._world, len(self._federation.classes)
        sizes = [sum(row) for row in received.confusion]
        return [
            ClassChange(int(i), c, int(counts[c]), received.class_accuracy[c], own[c] / sizes[c] if sizes[c] else nan)
            for i, own in zip(clients, right.tolist(), strict=True)
            for counts in [np.bincount(world.labels[world.clients[i]], minlength=num_classes)]
            for c in range(num_classes)
        ]

    def own(self, clients: Indices, theta: Tensor) -> tuple[dict[str, Term], Tensors]:
        """How clients' own models do on their own test samples: sums over the cohort, and rows.

        Args:
            clients: [G] ids, -1 for a padded lane.
            theta: [G, V].

        Returns:
            the sums own_accuracy and tested, their number; the rows own_accuracy and own_loss [G]; nothing where no
            client has test samples.
        """
        if not self.any_own:
            return {}, {}
        test = self._world.own_test
        accuracy, loss = self._own_in(clients, theta, test)
        tested = upload(torch.tensor([float(i >= 0 and len(test.parts[i]) > 0) for i in clients]), accuracy.device)
        sums = {"own_accuracy": Term(accuracy, weight=tested), "tested": Term(tested)}
        return sums, {"own_accuracy": accuracy, "own_loss": loss}

    def own_in_tasks(
        self, tests: Sequence[OwnTest], clients: Indices, theta: Tensor
    ) -> tuple[dict[str, Term], Tensors]:
        """Likewise how their own models do in tasks: the row own_accuracy [G, tests], 0 without test samples."""
        return {}, {"own_accuracy": torch.stack([self._own_in(clients, theta, test).accuracy for test in tests], 1)}

    def _own_in(self, clients: Indices, theta: Tensor, test: OwnTest) -> OfLanes:
        parts = [test.parts[i] if i >= 0 else np.zeros(0, np.int64) for i in clients]
        model, predict = self._federation.model, self._predicting(test.allowed)
        find = self._own_scores if self._by_output else own_scores
        return find(predict, theta.clone(), test.samples, parts, model.dtype, apart(model))

    def _predicting(self, allowed: Tensor | None) -> Predict:
        """Logits of a client's own model for inputs, with those of labels that are not allowed far below all others."""
        federation, hooks = self._federation, self._hooks

        def predict(theta: Tensor, x: Tensor) -> Tensor:
            logits = hooks.predicted(federation.method.predict(theta, x), (len(x), federation.model.num_classes))
            return logits if allowed is None else among(logits, allowed)

        return predict

    def _scores_of_clients(
        self, predict: Callable[[Tensor], Tensor], samples: Samples, parts: Sequence[Indices]
    ) -> ByClient:
        """As evaluate_clients, what the loss measures clients by, and itself."""
        outputs, y = gathered(predict, samples, np.concatenate(parts), self._passes, self._ranks)()
        sizes = [len(part) for part in parts]
        both = zip(torch.split(outputs, sizes), torch.split(y, sizes), strict=True)
        found = [self._score(*own) for own in both]
        return ByClient(np.array([score for score, _ in found]), np.array([loss for _, loss in found]))

    def _own_scores(
        self,
        predict: Predict,
        theta: Tensor,
        samples: Samples,
        parts: Sequence[Indices],
        dtype: torch.dtype,
        spread: ForEach | None,
    ) -> OfLanes:
        """As own_scores, what the loss measures clients by, and itself."""
        each = of_lanes(predict, theta, samples, parts, dtype, spread)
        found = [self._score(*own) if len(own[0]) else (0.0, 0.0) for own in each]
        return OfLanes(*upload(torch.tensor(found, dtype=torch.float64), theta.device).T)

    def _score(self, outputs: Tensor, y: Tensor) -> tuple[float, float]:
        """Score and mean loss of a client's own test samples; nan for one without any."""
        assert self._by_output
        if not len(y):
            return nan, nan
        return self._by_output.own_score(outputs, y), float(self._by_output.of_samples(outputs, y).mean())


def _mean(accuracy: npt.NDArray[np.float64]) -> float | None:
    """Over clients that have test samples."""
    known = accuracy[~np.isnan(accuracy)]
    return float(np.mean(known)) if len(known) else None
