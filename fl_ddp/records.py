"""All that a run writes: its folder, records and checkpoints. Rank 0 writes; every rank adds its clients' memory."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.settings import Choice, Config
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.evaluation import Scores
from fl_ddp.federation import Federation, num_idle
from fl_ddp.host.atomic_file import write_bytes, write_text
from fl_ddp.host.stdout import say
from fl_ddp.partitions.partition_file import SavedPartition, read_partition, write_partition
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.cohort import owner
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.results import checkpoint
from fl_ddp.results.figures import confusion_figure, partition_figure
from fl_ddp.results.metrics import Record
from fl_ddp.results.progress import Progress, result_table
from fl_ddp.results.run_folder import RunFolder
from fl_ddp.results.stopwatch import PHASES
from fl_ddp.results.summary import Summary, cpu_model, rounds_to_target, versions_and_hardware, write_summary
from fl_ddp.results.tracking import Tracker


@dataclass(frozen=True)
class Start:
    """Where a resumed run goes on.

    Attributes:
        finished: number of finished rounds.
        server: the server's state after them.
        memory: of the clients this rank owns, by client id.
        lanes: that the run was started with.
    """

    finished: int
    server: Tensors
    memory: Mapping[int, Tensors]
    lanes: int


class Records:
    """The files of one run, seen from one rank.

    Attributes:
        path: the run's folder.
        start: where to go on; None where the run begins.
        done: what summary.json holds, if nothing is left to do.
        scores: of the newest evaluation.
    """

    def __init__(self, config: Config, ranks: Ranks, federation: Federation) -> None:
        """Open the run's folder, new or to go on with, alike on all ranks.

        Raises:
            ConfigError: the folder is taken, locked, or not that of such a run.
            RunError: it cannot be written.
        """
        self._config, self._ranks, self._federation = config, ranks, federation
        self._saved = -1
        self.scores: Scores | None = None
        self._folder: RunFolder | None = None
        self._tracker: Tracker | None = None
        self._progress: Progress | None = None
        self.path = Path(ranks.share(str(ranks.together(self._lock) or "")))
        try:
            self.start = self._find_start()
            if self.start:
                self._federation = replace(federation, lanes=self.start.lanes)
            self.done = self._results()
            if self.done is None:
                if config.resume and not self.start:
                    self.tell(f"{self.path} has no usable checkpoint; starting from round 0")
                ranks.together(self._begin)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let another run, of this process or another, go on in the folder; a second call does nothing."""
        if self._progress:
            self._progress.close()
        if self._folder:
            self._folder.close()

    @property
    def lanes(self) -> int:
        """Clients side by side; a resumed run's are those it was started with."""
        return self._federation.lanes

    def tell(self, line: str) -> None:
        """Print a line, once for all ranks."""
        if self._ranks.is_main:
            (self._progress.say if self._progress else say)(f"fl_ddp: {line}")

    def round(self, record: Record, scores: Scores | None) -> None:
        """Add a finished round; rank 0 alone does something, and may raise.

        Raises:
            RunError: it cannot be written.
        """
        self.scores = scores or self.scores
        if self._tracker and self._progress:
            self._tracker.record(record)
            self._progress.update(record)

    def save(self, finished: int, server: Tensors, memory: ClientMemory) -> None:
        """Write a checkpoint, all ranks together.

        Raises:
            RunError: it cannot be written; older checkpoints are untouched.
        """
        if finished == self._saved:
            return
        ranks = self._ranks

        def begin() -> Path | None:
            if not self._tracker:
                return None
            self._tracker.sync()
            made = checkpoint.begin(self.path, finished)
            checkpoint.write_server(made, server)
            return made

        temporary = Path(ranks.share(str(ranks.together(begin))))

        def remember() -> None:
            if memory.initial:
                checkpoint.write_memory(temporary, ranks.index, memory.stacked())

        def commit() -> None:
            if self._tracker:
                evaluated = self._tracker.history.evaluated
                accuracy = evaluated.accuracy if evaluated and evaluated.round == finished else None
                state = {"metrics": self._tracker.state(), "numerics": self._numerics()}
                checkpoint.commit(self.path, temporary, state, self._config.keep_checkpoints, accuracy)

        ranks.together(remember)
        ranks.together(commit)
        self._saved = finished

    def close(self, finished: int, theta: Tensor, seconds: Mapping[str, float]) -> dict[str, object]:
        """Write model and summary and print the results, all ranks together.

        Args:
            finished: number of finished rounds.
            theta: [P] the final parameters.
            seconds: by phase, spent since the last round's record.

        Returns:
            what summary.json holds, on rank 0; elsewhere nothing.

        Raises:
            RunError: they cannot be written.
        """
        return self._ranks.together(lambda: self._finish(finished, theta, seconds))

    def _finish(self, finished: int, theta: Tensor, seconds: Mapping[str, float]) -> dict[str, object]:
        if not (self._tracker and self._progress and self._folder):
            return {}
        history, classes = self._tracker.history, self._federation.classes
        scores = self.scores
        tensors = {name: t.cpu() for name, t in self._federation.model.state_dict(theta).items()}
        write_bytes(self.path / "model.safetensors", save(tensors))
        if scores:
            self._tracker.figure("confusion", confusion_figure(scores.confusion, classes), finished)
        means, rounds = history.running_means, history.rounds
        summary = Summary(
            folder=str(self.path),
            rounds=finished,
            accuracy=scores.accuracy if scores else None,
            running_mean_accuracy=means[-1] if means else None,
            best_accuracy=history.standing.best,
            forgetting=history.standing.forgetting,
            loss=scores.loss if scores else None,
            initial_accuracy=history.evaluated.initial_accuracy if history.evaluated else None,
            personalised_accuracy=history.evaluated.personalised_accuracy if history.evaluated else None,
            class_accuracy=dict(zip(classes, scores.class_accuracy, strict=True)) if scores else {},
            class_forgetting=dict(zip(classes, history.standing.class_forgetting, strict=False)),
            confusion=scores.confusion if scores else (),
            rounds_to_target={
                "accuracy": rounds_to_target(rounds, history.accuracies, self._config.targets),
                "running_mean": rounds_to_target(rounds, means, self._config.targets),
            },
            traffic_up_bytes=history.traffic_up_bytes,
            traffic_down_bytes=history.traffic_down_bytes,
            padded_lanes=history.padded_lanes,
            seconds={phase: history.seconds.get(phase, 0.0) + seconds[phase] for phase in PHASES},
            parameters_sha256=hashlib.sha256(theta.cpu().contiguous().numpy().tobytes()).hexdigest(),
            numerics=self._numerics(),
            environment=versions_and_hardware(),
        )
        content = write_summary(self.path, summary)
        self._progress.close()
        self._tracker.finish(finished, summary.rounds_to_target["accuracy"])
        self._tracker.close()
        say(result_table(summary))
        return content

    def _lock(self) -> Path | None:
        """Make or reopen the run's folder; rank 0 alone."""
        if not self._ranks.is_main:
            return None
        resume = self._config.resume
        now = datetime.now()
        self._folder = RunFolder.reopen(Path(resume)) if resume else RunFolder.create(self._config, now)
        return self._folder.path

    def _find_start(self) -> Start | None:
        """The newest usable checkpoint; rank 0 verifies it, the others read what it found."""
        if not self._config.resume:
            return None

        def look() -> int:
            if not self._ranks.is_main:
                return -1
            newest, warnings = checkpoint.newest(self.path)
            for warning in warnings:
                self.tell(f"warning: {warning}")
            return newest.round if newest else -1

        found = int(self._ranks.share(str(self._ranks.together(look))))
        if found < 0:
            return None
        return self._ranks.together(lambda: self._read(found))

    def _results(self) -> dict[str, object] | None:
        """What summary.json holds, if the run has all its rounds and its results."""
        file = self.path / "summary.json"
        finished = self.start.finished if self.start else 0
        if not self._config.resume or finished < self._config.rounds or not file.is_file():
            return None
        content: dict[str, object] = json.loads(file.read_text(encoding="utf-8"))
        return content if content["rounds"] == finished else None

    def _read(self, finished: int) -> Start:
        stored = checkpoint.load(self.path, finished)
        method, ranks = self._federation.method, self._ranks
        numerics, ours = stored.state["numerics"], self._numerics()
        assert isinstance(numerics, dict)
        for key, before in numerics.items():
            if key != "lanes" and before != ours.get(key):
                self.tell(f"warning: {key} was {before} and is {ours.get(key)}; the bits may differ from here on")
        server = {name: t.to(ranks.device) for name, t in stored.server(method.init()).items()}
        memory = stored.memory(
            lambda client: bool(owner(np.array(client), ranks.size) == ranks.index), method.init_client()
        )
        self._saved = finished
        return Start(finished, server, memory, int(numerics["lanes"]))

    def _begin(self) -> None:
        """Write what is known before the first round; rank 0 alone."""
        if not self._ranks.is_main:
            return
        config, federation = self._config, self._federation
        saved = SavedPartition(
            federation.clients,
            federation.local_test if config.local_test else None,
            config.partition.name,
            federation.partition_seed,
            len(federation.labels),
        )
        if self.start:
            stored = read_partition(self.path / "partition.json").clients
            if not all(np.array_equal(a, b) for a, b in zip(stored, federation.clients, strict=True)):
                raise ConfigError(
                    self.path / "partition.json",
                    (
                        "the run was started with another division of the data; restore the file or the data set "
                        "it was made from"
                    ),
                )
        write_text(self.path / "config.yaml", to_yaml(with_absolute_paths(replace(config, resume=None))))
        write_partition(self.path / "partition.json", saved)
        state: Mapping[str, object] | None = None
        if self.start:
            state = checkpoint.load(self.path, self.start.finished).state["metrics"]  # type: ignore[assignment]
        self._tracker = Tracker(self.path, federation.classes, PHASES, _settings(config), state)
        figure = partition_figure(federation.clients, federation.labels, federation.classes)
        image = io.BytesIO()
        figure.savefig(image, dpi=200)
        write_bytes(self.path / "partition.png", image.getvalue())
        self._tracker.figure("partition", figure, 0)
        finished = self.start.finished if self.start else 0
        self._progress = Progress(finished, config.rounds)
        going_on = f", going on after round {finished}" if finished else ""
        self.tell(
            f"{self.path}: {config.method.name}, {config.clients} clients, cohort {config.cohort_size}, "
            f"{self.lanes} lanes, {self._ranks.size} rank(s) on {self._ranks.device.type}{going_on}"
        )

        if idle := num_idle(config, federation.clients):
            self.tell(
                f"warning: {idle} of {config.clients} clients have no full batch of {config.batch_size} and never "
                "train; without --drop_last, or with a smaller --batch_size, they do"
            )

    def _numerics(self) -> dict[str, object]:
        """What decides a run's bits beside data, method and seed."""
        return {
            "lanes": self._federation.lanes,
            "device": torch.cuda.get_device_name() if self._ranks.device.type == "cuda" else "cpu",
            "cpu": cpu_model(),
            "torch": torch.__version__,
            "compile": self._config.compile,
            "precision": self._config.precision,
            "reduction": self._config.reduction,
        }


def _settings(config: Config) -> dict[str, object]:
    """A run's settings as flat names, for TensorBoard's table of hyper-parameters; not where it lies."""
    return {
        f.name: value.name if isinstance(value, Choice) else value
        for f in fields(config)
        for value in [getattr(config, f.name)]
        if f.name not in ("out", "name", "resume")
    } | {
        f"{f.name}.{option}": value
        for f in fields(config)
        for choice in [getattr(config, f.name)]
        if isinstance(choice, Choice)
        for option, value in choice.init_args.items()
    }
