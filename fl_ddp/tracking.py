"""What a run leaves for people: metrics.csv and TensorBoard, fed with one record per finished round on rank 0."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from fl_ddp.events import EventFile
from fl_ddp.metrics import Metrics, Record


class History:
    """The course of a run so far: a function of its records, so resume needs nothing but the rows of metrics.csv.

    Attributes:
        rounds: evaluated rounds, without round 0.
        accuracies: of these rounds.
        running_means: mean of the accuracies up to each of these rounds.
        evaluated: the newest record with an accuracy.
        traffic_up_bytes: sent by all clients so far.
        traffic_down_bytes: received by all clients so far.
        seconds: by phase, so far.
    """

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.accuracies: list[float] = []
        self.running_means: list[float] = []
        self.evaluated: Record | None = None
        self.traffic_up_bytes = self.traffic_down_bytes = 0
        self.seconds: dict[str, float] = {}
        self._accuracy_sum = self._padded_sum = 0.0
        self._trained_rounds = 0

    @property
    def padded_lanes(self) -> float:
        """Mean share of lanes without a client."""
        return self._padded_sum / max(self._trained_rounds, 1)

    def add(self, record: Record) -> float | None:
        """Take in the next record; its running mean, if it has one."""
        self.traffic_up_bytes += record.traffic_up_bytes
        self.traffic_down_bytes += record.traffic_down_bytes
        for phase, seconds in record.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        if record.round > 0:
            self._trained_rounds += 1
            self._padded_sum += record.padded_lanes
        if record.accuracy is None:
            return None
        self.evaluated = record
        if record.round == 0:
            return None
        self._accuracy_sum += record.accuracy
        self.rounds.append(record.round)
        self.accuracies.append(record.accuracy)
        self.running_means.append(self._accuracy_sum / len(self.rounds))
        return self.running_means[-1]


class Tracker:
    """Writes the course of a run. Rank 0 only.

    Attributes:
        history: what was recorded so far, over all parts of a run that was resumed.
    """

    def __init__(
        self,
        folder: Path,
        classes: Sequence[str],
        phases: Sequence[str],
        settings: Mapping[str, object],
        state: Mapping[str, object] | None = None,
    ) -> None:
        """Start the records of a run, or go on with those a checkpoint knows; later ones are removed.

        Args:
            folder: of the run.
            classes: names of the labels, in their order.
            phases: parts a round's time is split into.
            settings: of the run, for TensorBoard's table of hyper-parameters.
            state: what state() gave to the checkpoint; None starts anew, whatever is in the folder.

        Raises:
            ConfigError: metrics.csv does not begin with what the checkpoint knows.
            RunError: the folder cannot be written.
        """
        path = folder / "metrics.csv"
        records: list[Record] = []
        if state is None:
            self._metrics = Metrics(path, classes, phases)
        else:
            self._metrics, records = Metrics.resume(path, classes, phases, state)
        self._tags = tuple(f"accuracy/class/{name}" for name in classes)
        self.history = History()
        self._events = EventFile(folder, records[0].wall if records else time.time(), settings)
        for record in records:
            self._draw(record, self.history.add(record))
        self._events.publish()

    def record(self, record: Record) -> None:
        """Add a finished round.

        Raises:
            RunError: it cannot be written.
        """
        running_mean = self.history.add(record)
        self._metrics.append(record, running_mean)
        self._draw(record, running_mean)

    def figure(self, tag: str, figure: Figure, step: int) -> None:
        """Show a figure in TensorBoard; one from before a resume is gone, so draw it again.

        Raises:
            RunError: it cannot be written.
        """
        self._events.figure(tag, figure, step, time.time())

    def state(self) -> dict[str, object]:
        """What a checkpoint has to store."""
        return self._metrics.state()

    def sync(self) -> None:
        """Make the records survive a loss of power; to be called before a checkpoint.

        Raises:
            RunError: they cannot be written.
        """
        self._metrics.sync()

    def close(self) -> None:
        """Close all files.

        Raises:
            RunError: they cannot be written.
        """
        self._metrics.close()
        self._events.close()

    def _draw(self, record: Record, running_mean: float | None) -> None:
        curves = {
            "accuracy/global": record.accuracy,
            "accuracy/running_mean": running_mean,
            "accuracy/initial": record.initial_accuracy,
            "accuracy/personalised": record.personalised_accuracy,
            **dict(zip(self._tags, record.class_accuracy or (), strict=False)),
            "loss/test": record.loss,
            "loss/train": record.train_loss,
            "traffic/up": self.history.traffic_up_bytes,
            "traffic/down": self.history.traffic_down_bytes,
            **{f"time/{phase}": seconds for phase, seconds in record.seconds.items()},
        }
        self._events.scalars(
            {tag: value for tag, value in curves.items() if value is not None}, record.round, record.wall
        )
