"""The files of a run beside its checkpoints: settings, partition, course, model and results."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure
from safetensors.torch import save
from torch import Tensor

from fl_ddp.building.idle_clients import idle_remarks
from fl_ddp.building.initial import KEPT
from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import fixed
from fl_ddp.config.settings import Config
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.course.progress import Progress
from fl_ddp.course.result_table import result_table
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import Federation
from fl_ddp.host.atomic_file import write_bytes, write_text
from fl_ddp.host.background import Background
from fl_ddp.host.stdout import say
from fl_ddp.host.stopwatch import PHASES
from fl_ddp.partitions.saved import refuse_other_division, write_partition
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results import checkpoint
from fl_ddp.results.client_table import Spread, spreads
from fl_ddp.results.figures import confusion_figure, forgetting_figure, partition_figure, png
from fl_ddp.results.metrics import Record, of_clients, perplexity
from fl_ddp.results.provenance import numerics, provenance
from fl_ddp.results.run_folder import FAILURE, MODEL, TASK_MODEL
from fl_ddp.results.summary import Summary, rounds_to_target, write_summary
from fl_ddp.retention.figure import task_figure
from fl_ddp.retention.matrix import OF_OWN_TASKS, of_tasks
from fl_ddp.run_tables import OfClients, RunTables
from fl_ddp.tasks.kept_files import KeptFiles
from fl_ddp.tasks.recorded import recorded, refuse_others
from fl_ddp.tasks.turnout import rounds_in_words
from fl_ddp.versions.users_code import edited, users_code


class _Told(logging.Handler):
    """Tells the user what the engine says of itself."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def emit(self, record: logging.LogRecord) -> None:
        """Print a line."""
        self._tell(record.getMessage())


class RunFiles:
    """What rank 0 writes of a run beside its checkpoints: settings, partition, course and results.

    Attributes:
        tables: that the rounds add to.
        commits: what turns folders into checkpoints.
        newest: number of finished rounds that the newest checkpoint is after; -1 if there is none.
    """

    def __init__(self, path: Path, config: Config, federation: Federation, ranks: Ranks, finished: int | None) -> None:
        """Write what is known before the first round, or open what a resumed run goes on with.

        Args:
            path: the run's folder.
            config: of the run.
            federation: what it is made of.
            ranks: that it runs on.
            finished: number of rounds that the checkpoint knows; None where the run begins.

        Raises:
            ConfigError: a resumed run was started with another division of the data, other clients, tasks or settings,
                or its metrics.csv was edited.
            RunError: a file cannot be written.
        """
        self._path, self._config, self._federation = path, config, federation
        self.commits, self.newest = Background("the checkpoint"), -1 if finished is None else finished
        self._numerics = numerics(config, federation.lanes, ranks)
        self._recorded = recorded(federation.worlds, federation.model.init() if config.init else None)
        self._fixed, self._code = fixed(config), users_code(config)
        kept = KeptFiles(config, federation.worlds, federation.turnout, federation.pace)
        known: Mapping[str, Mapping[str, object]] = {}
        saved = federation.division(config)
        if finished is not None:
            known = checkpoint.load(path, finished).state  # type: ignore[assignment]
            self._refuse_other_settings(known)  # of which all else may come
            refuse_other_division(path / "partition.json", saved)
            kept.refuse_edited(path)
            refuse_others(path, known, self._recorded)
        (path / FAILURE).unlink(missing_ok=True)
        write_text(path / "config.yaml", to_yaml(with_absolute_paths(replace(config, resume=None))))
        write_partition(path / "partition.json", saved)
        if config.init and not (path / KEPT).is_file():
            self._write_model(KEPT, federation.model.init())
        kept.write(path)
        self.tables = RunTables(path, config, federation, known, finished)
        dealt = federation.clients, federation.labels, federation.names
        self._show("partition", partial(partition_figure, *dealt), 0, "partition.png")
        self._progress = Progress(finished or 0, config.rounds, federation.model.criterion.score)
        self._log = _Told(self.tell)
        logging.getLogger("fl_ddp").addHandler(self._log)
        logging.getLogger("fl_ddp").setLevel(logging.INFO)
        self._tell_what_begins(finished or 0, ranks)
        for file in edited(known.get("code", {}), self._code):  # type: ignore[arg-type]
            self.tell(f"warning: {file} is not as it was when the run began; what it says now counts from here on")

    def _refuse_other_settings(self, known: Mapping[str, object]) -> None:
        """Refuse to go on with other settings than the run began with; older runs cannot tell."""
        before = known.get("settings", {})
        assert isinstance(before, dict)
        for key, value in self._fixed.items():
            if key in before and before[key] != value:
                what = f"{value} is not the {before[key]} that the run was started with"
                raise ConfigError(f"{self._path / 'config.yaml'}: {key}", what, "the file as the run has written it")

    def tell(self, line: str) -> None:
        """Print a line above the progress bar."""
        self._progress.say(f"fl_ddp: {line}")

    def round(self, record: Record, clients: OfClients) -> Record:
        """Add a finished round, how its clients' models do, what they have forgotten, and accuracies on tasks.

        Returns:
            the record with its averages over the tasks so far.

        Raises:
            RunError: something of it cannot be written; all else is.
        """
        try:
            return self.tables.add(record, clients)
        finally:
            self._progress.update(record)

    def commit(self, temporary: Path, finished: int) -> None:
        """Begin to turn a folder that holds all ranks' state into a checkpoint, which `commits` has then under way.

        Raises:
            RunError: the one before could not be written; older checkpoints are untouched.
        """
        evaluated = self.tables.tracker.history.evaluated
        score = self._federation.model.criterion.score
        goodness = evaluated.goodness(score) if evaluated and evaluated.round == finished else None
        state = {"numerics": self._numerics, **self._recorded, "settings": self._fixed, "code": self._code}
        files, since = self.tables.appended(), self.tables.tracker.history.since
        state |= {name: file.state() for name, file in files.items()}

        def write() -> None:
            for file in files.values():
                file.sync()
            checkpoint.commit(self._path, temporary, state, self._config.keep_checkpoints, goodness, since)
            self.newest = finished

        self.commits.begin(write)

    def finish(
        self, finished: int, theta: Tensor, scores: Scores | None, seconds: Mapping[str, float], stopped: str | None
    ) -> dict[str, object]:
        """Write model and summary and print the results.

        Args:
            finished: number of finished rounds.
            theta: [P] the final parameters.
            scores: of the newest evaluation.
            seconds: by phase, spent since the last round's record.
            stopped: why this is before the last round; None if it is not.

        Returns:
            what summary.json holds.

        Raises:
            RunError: they cannot be written.
        """
        history, classes = self.tables.tracker.history, self._federation.told_apart
        self._write_model(MODEL, theta)
        if scores and scores.confusion:
            self._show("confusion", partial(confusion_figure, scores.confusion, classes), finished)
        if self.tables.changes:
            lost = partial(forgetting_figure, self.tables.changes, classes)
            self._show("forgetting_degree", lost, finished, "forgetting.png")
        if self.tables.tasks and self.tables.tasks.matrix:
            self._show("tasks", partial(task_figure, self.tables.tasks.matrix), finished, "tasks.png")
        means, rounds = history.running_means, history.rounds
        matrix = self.tables.tasks.matrix if self.tables.tasks else {}
        of_own = self.tables.own_tasks.clients if self.tables.own_tasks else {}
        score, tested = self._federation.model.criterion.score, history.clients_tested
        differ = {f"{name}_{score}": found for name, found in spreads(self.tables.scores, score).items()}
        summary = Summary(
            folder=str(self._path),
            seed=self._config.seed,
            rounds=finished,
            accuracy=scores.accuracy if scores else None,
            running_mean_accuracy=means[-1] if means else None,
            best_accuracy=history.standing.best,
            forgetting=history.standing.forgetting,
            loss=scores.loss if scores else None,
            of_clients={column: getattr(tested, name, None) for column, name in of_clients(score).items()},
            spreads={
                f"{own}_{what}": getattr(found, what, None) for own, found in differ.items() for what in Spread._fields
            },
            class_accuracy=dict(zip(classes, scores.class_accuracy, strict=True)) if scores else {},
            class_forgetting=dict(zip(classes, history.standing.class_forgetting, strict=False)),
            class_order=self._federation.class_order,
            task_names=self._federation.task_names,
            confusion=scores.confusion if scores else (),
            rounds_to_target={
                "accuracy": rounds_to_target(rounds, history.accuracies, self._config.targets),
                "running_mean": rounds_to_target(rounds, means, self._config.targets),
            },
            of_tasks={
                **of_tasks(matrix, self._federation.worlds.test_sizes),
                **{name: measure(of_own) for name, measure in OF_OWN_TASKS.items()},
            },
            task_accuracy=[matrix[task] for task in sorted(matrix)],
            traffic_up_bytes=history.traffic_up_bytes,
            traffic_down_bytes=history.traffic_down_bytes,
            padded_lanes=history.padded_lanes,
            seconds={phase: history.seconds.get(phase, 0.0) + seconds[phase] for phase in PHASES},
            parameters_sha256=hashlib.sha256(theta.cpu().contiguous().numpy().tobytes()).hexdigest(),
            numerics=self._numerics,
            environment=provenance(),
            stopped=stopped,
            perplexity=perplexity(scores.loss) if scores and self._config.loss == "cross_entropy" else None,
            score=score,
            measures=dict(scores.measures) if scores else {},
            code=self._code,
            data_sha256=self._recorded.get("data_sha256", ""),
        )
        content = write_summary(self._path, summary)
        self._progress.close()
        self.tables.tracker.finish(finished, summary.rounds_to_target["accuracy"])
        self.tables.tracker.close()
        for file in self.tables.appended().values():
            file.close()
        say(result_table(summary))
        return content

    def keep_task(self, task: int, theta: Tensor) -> None:
        """Write the model [P] at the end of a task, from 1.

        Raises:
            RunError: it cannot be written.
        """
        self._write_model(TASK_MODEL.format(task), theta)

    def _write_model(self, file: str, theta: Tensor) -> None:
        write_bytes(self._path / file, save({k: t.cpu() for k, t in self._federation.model.state_dict(theta).items()}))

    def _show(self, tag: str, draw: Callable[[], Figure], step: int, file: str | None = None) -> None:
        """Draw a figure if it is wanted, once for TensorBoard and a file: it takes longest of all in a short run."""
        if self._config.figures:
            image = png(draw())
            if file:
                write_bytes(self._path / file, image)
            self.tables.tracker.image(tag, image, step)
        elif file and step:  # one of an earlier round would stay
            (self._path / file).unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the disk and the terminal in order; what comes to nothing now, such as a checkpoint, is told."""
        try:
            files = (file.close for file in self.tables.appended().values())
            for close in (self.commits.close, self.tables.tracker.close, *files):
                try:
                    close()
                except RunError as error:
                    self.tell(f"warning: {error}")
        finally:
            logging.getLogger("fl_ddp").removeHandler(self._log)
            self._progress.close()

    def _tell_what_begins(self, finished: int, ranks: Ranks) -> None:
        config, federation, stream = self._config, self._federation, self._federation.stream
        tables = self.tables
        older = config.local_test and tables.tasks and not tables.own_tasks  # whose first ends would be missing
        lacking = " without own_tasks.csv, as it began" if older else ""
        going_on = f", going on after round {finished}{lacking}" if finished else ""
        self.tell(
            f"{self._path}: {config.method.name}, {config.clients} clients, cohort {config.cohort_size}, "
            f"{federation.lanes} lanes, {ranks.size} rank(s) on {ranks.device.type}{going_on}"
        )
        for remark in federation.remarks:
            self.tell(remark)
        if 0 < config.rounds <= stream.task_rounds * (stream.num_tasks - 1):
            last = stream.task(config.rounds - 1) + 1
            self.tell(f"warning: {config.rounds} rounds end in task {last} of {stream.num_tasks}; give more --rounds")
        if deserted := federation.turnout.deserted(config.rounds):
            self.tell(f"warning: nobody is available in {rounds_in_words(deserted)}: nothing is trained then")
        work, held_out = federation.pace.work, federation.method.share_held_out
        for remark in idle_remarks(config, stream, federation.worlds, work, held_out):
            self.tell(remark)
