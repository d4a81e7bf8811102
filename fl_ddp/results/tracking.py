"""What a run leaves for people: metrics.csv and TensorBoard, fed with one record per finished round on rank 0."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from fl_ddp.results.appended_csv import AppendedCsv
from fl_ddp.results.client_table import MODELS, ClientScores, spreads
from fl_ddp.results.forgetting import average, forgetting
from fl_ddp.results.metrics import Columns, Metrics, Record, curve_of, of_method, perplexity
from fl_ddp.results.tensorboard import EventFile


class Standing(NamedTuple):
    """What an evaluated round means in the light of those before it.

    Attributes:
        best: highest accuracy up to it on the same test samples; None before round 1, which everything is counted from.
        running_mean: of the accuracies up to it, likewise.
        forgetting: average over the classes, likewise.
        class_forgetting: of each class, nan for one without test samples; empty before round 1.
    """

    best: float | None = None
    running_mean: float | None = None
    forgetting: float | None = None
    class_forgetting: tuple[float, ...] = ()


class History:
    """The course of a run so far: a function of its records, so resume needs nothing but the rows of metrics.csv.

    Attributes:
        rounds: evaluated rounds, without round 0.
        accuracies: of these rounds.
        running_means: mean of the accuracies up to each of these rounds.
        since: the first of these rounds with the test samples that there are now; those before it compare with none.
        evaluations: records of evaluations, of the global or of the clients' own models.
        standing: of that record.
        anybody: whether a client has trained so far.
        traffic_up_bytes: sent by all clients so far.
        traffic_down_bytes: received by all clients so far.
        seconds: by phase, so far.
    """

    def __init__(self, renewed: Mapping[int, Iterable[int]], *, knows: bool) -> None:
        """Begin; see Columns for both."""
        self._renewed, self._knows = renewed, knows
        self.rounds: list[int] = []
        self.accuracies: list[float] = []
        self.running_means: list[float] = []
        self.evaluations: list[Record] = []
        self.standing = Standing()
        self.traffic_up_bytes = self.traffic_down_bytes = 0
        self.seconds: dict[str, float] = {}
        self._accuracy_sum = self._padded_sum = 0.0
        self.since = 0
        self.anybody = False
        self._best_of_class: tuple[float, ...] = ()
        self._trained_rounds = 0

    @property
    def evaluated(self) -> Record | None:
        """The newest of the evaluations."""
        return self.evaluations[-1] if self.evaluations else None

    @property
    def clients_tested(self) -> Record | None:
        """The newest of the evaluations in which clients were tested on their own samples; in some there was nobody."""
        of_clients = (
            r for r in reversed(self.evaluations) if (r.initial_accuracy, r.personalised_accuracy) != (None, None)
        )
        return next(of_clients, None)

    @property
    def padded_lanes(self) -> float:
        """Mean share of lanes without a client."""
        return self._padded_sum / max(self._trained_rounds, 1)

    def add(self, record: Record) -> Standing:
        """Take in the next record; an empty standing, if it was not evaluated."""
        self.anybody = self.anybody or record.cohort > 0
        self.traffic_up_bytes += record.traffic_up_bytes
        self.traffic_down_bytes += record.traffic_down_bytes
        for phase, seconds in record.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        if record.cohort:
            self._trained_rounds += 1
            self._padded_sum += record.padded_lanes
        return self.evaluate(record)

    def evaluate(self, record: Record) -> Standing:
        """Take in what a record has of the test sets, and nothing else; likewise."""
        if (record.loss, record.initial_accuracy, record.personalised_accuracy) != (None, None, None):
            self.evaluations.append(replace(record, clients=()))  # of 10,000 rounds of 10,000 they are gigabytes
        if record.accuracy is None:
            return Standing()
        if record.round == 0:
            self._best_of_class = record.class_accuracy or () if self._knows else ()
            return self.standing
        before = self.rounds[-1] if self.rounds else 0
        self._accuracy_sum += record.accuracy
        self.rounds.append(record.round)
        self.accuracies.append(record.accuracy)
        self.running_means.append(self._accuracy_sum / len(self.rounds))
        now = record.class_accuracy or ()
        anew = {c for first, classes in self._renewed.items() if before < first <= record.round for c in classes}
        best_before = (math.nan if c in anew else best for c, best in enumerate(self._best_of_class or now))
        self._best_of_class = tuple(map(_larger, best_before, now))
        lost = forgetting(self._best_of_class, now)
        self.since = record.round if anew else self.since
        best = max(0.0 if anew else self.standing.best or 0.0, record.accuracy)
        self.standing = Standing(best, self.running_means[-1], average(lost), lost)
        return self.standing


def _larger(best: float, now: float) -> float:
    """Of two accuracies of a class; the one there is, where it was not tested before or is not now."""
    return now if math.isnan(best) else best if math.isnan(now) else max(best, now)


class Tracker:
    """Writes the course of a run. Rank 0 only.

    Attributes:
        history: what was recorded so far, over all parts of a run that was resumed.
    """

    def __init__(
        self,
        folder: Path,
        columns: Columns,
        settings: Mapping[str, object],
        state: Mapping[str, object] | None = None,
    ) -> None:
        """Start the records of a run, or go on with those a checkpoint knows; later ones are removed.

        Args:
            folder: of the run.
            columns: of metrics.csv.
            settings: of the run, for TensorBoard's table of hyper-parameters.
            state: of metrics.csv, as AppendedCsv.state() gave it to the checkpoint; None starts anew, whatever is in
                the folder.

        Raises:
            ConfigError: metrics.csv does not begin with what the checkpoint knows.
            RunError: the folder cannot be written.
        """
        self._metrics = Metrics(folder / "metrics.csv", columns, state)
        records = self._metrics.earlier
        self._classes, self._score, self._entropy = columns.classes, columns.score, columns.entropy
        self.history = History(columns.renewed, knows=columns.knows)
        self._events = EventFile(folder, columns, settings, records[0].wall if records else time.time())
        for record in records:
            self._draw(record, self.history.add(record))
        self._events.publish()

    def record(self, record: Record) -> None:
        """Add a finished round.

        Raises:
            RunError: it cannot be written.
        """
        standing = self.history.add(record)
        self._metrics.append(record, standing.running_mean, standing.forgetting)
        self._draw(record, standing)

    def tasks(self, finished: int, accuracies: Sequence[float], forgetting: float | None) -> None:
        """Show what is known of the tasks so far after a number of rounds; what is from before a resume is gone.

        Args:
            finished: number of rounds.
            accuracies: on each task, from the first.
            forgetting: average over the tasks before the last; None where there is none.

        Raises:
            RunError: it cannot be written.
        """
        if accuracies:
            by_task: dict[str, float | None] = {f"task_accuracy/{task}": a for task, a in enumerate(accuracies, 1)}
            by_task["task_forgetting/average"] = forgetting
            self._show({"task_accuracy/average": fmean(accuracies), **by_task}, finished, time.time())

    def clients(self, finished: int, scores: Sequence[ClientScores]) -> None:
        """Show how far clients differ after a number of rounds; what is from before a resume is gone.

        Raises:
            RunError: it cannot be written.
        """
        wall = time.time()
        for name, found in spreads(scores, self._score).items():
            if found:
                known = [value for each in scores if (value := getattr(each, MODELS[name])) is not None]
                told = {f"clients/{name}/deviation": found.deviation, f"clients/{name}/worst": found.worst}
                self._show(told, finished, wall)
                self._events.histogram(f"clients/{name}", known, finished, wall)

    def image(self, tag: str, png: bytes, step: int) -> None:
        """Show an image in TensorBoard; one from before a resume is gone, so give it again.

        Raises:
            RunError: it cannot be written.
        """
        self._events.image(tag, png, step, time.time())

    @property
    def file(self) -> AppendedCsv:
        """metrics.csv."""
        return self._metrics.file

    def finish(self, rounds: int, rounds_to_target: Mapping[str, int | None]) -> None:
        """Tell TensorBoard that the run has all its rounds.

        Args:
            rounds: their number.
            rounds_to_target: first round by target accuracy; None where it was not reached.

        Raises:
            RunError: it cannot be written.
        """
        wall = time.time()
        self._show(
            {f"Results/rounds_to/{target}": reached for target, reached in rounds_to_target.items()}, rounds, wall
        )
        self._events.end(wall)

    def close(self) -> None:
        """Close all files.

        Raises:
            RunError: they cannot be written.
        """
        self._metrics.file.close()
        self._events.close()

    def _draw(self, record: Record, standing: Standing) -> None:
        score = self._score
        curves = {
            # The table of hyper-parameters lists all curves by name and shows the first five: a capital comes first.
            "Results/accuracy": record.accuracy,
            "Results/accuracy/best": standing.best,
            "Results/accuracy/running_mean": standing.running_mean,
            "Results/forgetting": standing.forgetting,
            **{curve_of(name): value for name, value in record.measures.items()},
            "accuracy/global": record.accuracy,
            f"{score}/initial": record.initial_accuracy,
            f"{score}/personalised": record.personalised_accuracy,
            f"{score}/initial_cohort": record.initial_accuracy_cohort,
            f"{score}/personalised_all": record.personalised_accuracy_all,
            **self._by_class("accuracy/class", record.class_accuracy or ()),
            "forgetting/average": standing.forgetting,
            "forgetting_degree/average": record.forgetting_degree,
            **self._by_class("forgetting_degree", record.class_degree or ()),
            **self._by_class("forgetting", standing.class_forgetting),
            "loss/test": record.loss,
            "loss/perplexity": perplexity(record.loss) if self._entropy and record.loss is not None else None,
            "loss/train": record.train_loss,
            **{of_method(name): value for name, value in record.reported.items()},
            "traffic/up": self.history.traffic_up_bytes,
            "traffic/down": self.history.traffic_down_bytes,
            **{f"time/{phase}": seconds for phase, seconds in record.seconds.items()},
        }
        self._show(curves, record.round, record.wall)

    def _by_class(self, group: str, values: Sequence[float]) -> dict[str, float]:
        return {f"{group}/{name}": value for name, value in zip(self._classes, values, strict=False)}

    def _show(self, curves: Mapping[str, float | None], step: int, wall: float) -> None:
        self._events.scalars({tag: value for tag, value in curves.items() if value is not None}, step, wall)
