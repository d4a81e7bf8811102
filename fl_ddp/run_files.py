"""The files of a run beside its checkpoints: settings, partition, course, model and results."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from matplotlib.figure import Figure
from safetensors.torch import save
from torch import Tensor

from fl_ddp.building.idle_clients import idle_remarks
from fl_ddp.building.initial import KEPT
from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import fixed
from fl_ddp.config.settings import Config, hyperparameters
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.course.cohorts import CohortTable, Numbers, columns_of_each
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
from fl_ddp.results.appended_csv import AppendedCsv
from fl_ddp.results.client_table import ClientScores, ClientTable, Spread, newest_tested, spreads
from fl_ddp.results.figures import confusion_figure, forgetting_figure, partition_figure, png
from fl_ddp.results.forgetting_table import ClassChange, ForgettingTable
from fl_ddp.results.metrics import Record, of_clients, perplexity
from fl_ddp.results.provenance import numerics, provenance
from fl_ddp.results.run_folder import FAILURE, MODEL, TASK_MODEL
from fl_ddp.results.summary import Summary, rounds_to_target, write_summary
from fl_ddp.results.tracking import Tracker
from fl_ddp.retention.figure import task_figure
from fl_ddp.retention.matrix import OF_OWN_TASKS, of_tasks
from fl_ddp.retention.own_table import OwnTask, OwnTaskTable
from fl_ddp.retention.table import TaskTable
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


class OfClients(NamedTuple):
    """What a round leaves of its clients one by one.

    Attributes:
        scores: how their models do on their own test samples, where they were tested.
        changes: what their local training made of each class, where that was asked for.
        tasks: how what they then have does on their own test samples of each task so far, where one ends.
        numbers: of their training, columns in the order of the cohort, where they are logged.
    """

    scores: Sequence[ClientScores] = ()
    changes: Sequence[ClassChange] = ()
    tasks: Sequence[OwnTask] = ()
    numbers: Numbers = MappingProxyType({})


class RunFiles:
    """What rank 0 writes of a run beside its checkpoints: settings, partition, course and results.

    Attributes:
        tracker: of the run's course.
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
            kept.refuse_others(path)
            refuse_others(path, known, self._recorded)
        (path / FAILURE).unlink(missing_ok=True)
        write_text(path / "config.yaml", to_yaml(with_absolute_paths(replace(config, resume=None))))
        write_partition(path / "partition.json", saved)
        if config.init and not (path / KEPT).is_file():
            self._write_model(KEPT, federation.model.init())
        kept.write(path)
        tests, loss = federation.worlds.test_sizes, federation.model.criterion
        # a checkpoint without its metrics is broken, and must not have metrics.csv begin anew; clients.csv is younger
        metrics = known["metrics"] if finished is not None else None
        self.tracker = Tracker(path, federation.columns(config), hyperparameters(config), metrics)
        own_numbers = columns_of_each(federation.method.reports) if config.log_clients else ()
        self._cohorts = CohortTable(path / "cohorts.csv", known.get("cohorts"), own_numbers)
        self._clients = (
            ClientTable(path / "clients.csv", known.get("clients"), loss.score) if config.local_test else None
        )
        self._forgetting = (
            ForgettingTable(path / "forgetting.csv", federation.classes, known.get("forgetting"))
            if config.forgetting_every
            else None
        )
        self._scores: Sequence[ClientScores] = ()
        for each, earlier in self._clients.earlier if self._clients else ():
            self._scores = newest_tested(earlier, self._scores)
            self.tracker.clients(each, earlier)
        self._changes: Sequence[ClassChange] = self._forgetting.newest if self._forgetting else ()
        self._tasks = TaskTable(path / "tasks.csv", known.get("tasks"), tests) if len(tests) > 1 else None
        has = config.local_test and self._tasks and ("own_tasks" in known or self._task((finished or 0) + 1) == 1)
        self._own_tasks = OwnTaskTable(path / "own_tasks.csv", known.get("own_tasks")) if has else None
        for each, accuracies in self._tasks.rounds.items() if self._tasks else ():
            self.tracker.tasks(each, accuracies[: self._task(each)])
        dealt = federation.clients, federation.labels, federation.names
        self._show("partition", partial(partition_figure, *dealt), 0, "partition.png")
        self._progress = Progress(finished or 0, config.rounds, loss.score)
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

    def round(self, record: Record, clients: OfClients) -> None:
        """Add a finished round, how its clients' models do, what they have forgotten, and accuracies on tasks.

        Raises:
            RunError: something of it cannot be written; all else is, and flush() tries it again.
        """
        failures: list[RunError] = []

        def add(write: Callable[..., None], *given: object) -> None:
            try:
                write(*given)
            except RunError as error:
                failures.append(error)

        add(self.tracker.record, record)
        if record.clients:
            add(self._cohorts.add, record.round, record.clients, clients.numbers)
        if self._clients and clients.scores:
            add(self._clients.add, record.round, clients.scores)
            add(self.tracker.clients, record.round, clients.scores)
            self._scores = newest_tested(clients.scores, self._scores)
        if self._forgetting and clients.changes:
            add(self._forgetting.add, record.round, clients.changes)
            self._changes = clients.changes
        if self._tasks and record.task_accuracy:
            add(self._add_tasks, self._tasks, record.round, record.task_accuracy)
        if self._own_tasks and clients.tasks:
            add(self._own_tasks.add, record.round, record.task, clients.tasks)
        self._progress.update(record)
        if failures:
            raise failures[0]

    def again(self, finished: int, scores: Scores | None, own_tasks: Sequence[OwnTask]) -> None:
        """Take in how the last round's models do, for the summary, unless the files have it."""
        if self._own_tasks and own_tasks and self._own_tasks.newest != finished:
            self._own_tasks.add(finished, self._task(finished), own_tasks)
        if scores and ((newest := self.tracker.history.evaluated) is None or newest.round != finished):
            self.tracker.history.evaluate(scores.told(Record(finished)))
            if self._tasks and scores.of_tasks:
                self._add_tasks(self._tasks, finished, scores.of_tasks)

    def _task(self, finished: int) -> int:
        """The task of the last of so many rounds, from 1; 0 before the first."""
        return self._federation.stream.task(finished - 1) + 1 if finished else 0

    def _add_tasks(self, table: TaskTable, finished: int, accuracies: Sequence[float]) -> None:
        task = self._task(finished)
        table.add(finished, task, accuracies)
        self.tracker.tasks(finished, accuracies[:task])

    def flush(self) -> None:
        """Write what could not be written before; to be called before a checkpoint.

        Raises:
            RunError: it still cannot.
        """
        for file in self._appended().values():
            file.flush()

    def commit(self, temporary: Path, finished: int) -> None:
        """Begin to turn a folder that holds all ranks' state into a checkpoint, which `commits` has then under way.

        Raises:
            RunError: the one before could not be written; older checkpoints are untouched.
        """
        evaluated = self.tracker.history.evaluated
        score = self._federation.model.criterion.score
        goodness = evaluated.goodness(score) if evaluated and evaluated.round == finished else None
        state = {"numerics": self._numerics, **self._recorded, "settings": self._fixed, "code": self._code}
        files, since = self._appended(), self.tracker.history.since
        state |= {name: file.state() for name, file in files.items()}

        def write() -> None:
            for file in files.values():
                file.sync()
            checkpoint.commit(self._path, temporary, state, self._config.keep_checkpoints, goodness, since)
            self.newest = finished

        self.commits.begin(write)

    def _appended(self) -> dict[str, AppendedCsv]:
        """The files that grow with the rounds, by the names that a checkpoint has for them."""
        by_client = {"cohorts": self._cohorts, "clients": self._clients, "forgetting": self._forgetting}
        tables = {**by_client, "tasks": self._tasks, "own_tasks": self._own_tasks}
        return {"metrics": self.tracker.file} | {name: table.file for name, table in tables.items() if table}

    def finish(
        self,
        finished: int,
        theta: Tensor,
        scores: Scores | None,
        seconds: Mapping[str, float],
        stopped: str | None = None,
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
        history, classes = self.tracker.history, self._federation.told_apart
        self._write_model(MODEL, theta)
        if scores and scores.confusion:
            self._show("confusion", partial(confusion_figure, scores.confusion, classes), finished)
        if self._changes:
            lost = partial(forgetting_figure, self._changes, classes)
            self._show("forgetting_degree", lost, finished, "forgetting.png")
        if self._tasks and self._tasks.matrix:
            self._show("tasks", partial(task_figure, self._tasks.matrix), finished, "tasks.png")
        means, rounds = history.running_means, history.rounds
        matrix = self._tasks.matrix if self._tasks else {}
        of_own = self._own_tasks.clients if self._own_tasks else {}
        score, tested = self._federation.model.criterion.score, history.clients_tested
        differ = {f"{name}_{score}": found for name, found in spreads(self._scores, score).items()}
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
        self.tracker.finish(finished, summary.rounds_to_target["accuracy"])
        self.tracker.close()
        for file in self._appended().values():
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
            self.tracker.image(tag, image, step)
        elif file and step:  # one of an earlier round would stay
            (self._path / file).unlink(missing_ok=True)

    def close(self) -> None:
        """Leave the disk and the terminal in order; what comes to nothing now, such as a checkpoint, is told."""
        try:
            files = (file.close for file in self._appended().values())
            for close in (self.commits.close, self.tracker.close, *files):
                try:
                    close()
                except RunError as error:
                    self.tell(f"warning: {error}")
        finally:
            logging.getLogger("fl_ddp").removeHandler(self._log)
            self._progress.close()

    def _tell_what_begins(self, finished: int, ranks: Ranks) -> None:
        config, federation, stream = self._config, self._federation, self._federation.stream
        older = config.local_test and self._tasks and not self._own_tasks  # whose first ends would be missing
        lacking = " without own_tasks.csv, as it began" if older else ""
        going_on = f", going on after round {finished}{lacking}" if finished else ""
        self.tell(
            f"{self._path}: {config.method.name}, {config.clients} clients, cohort {config.cohort_size}, "
            f"{federation.lanes} lanes, {ranks.size} rank(s) on {ranks.device.type}{going_on}"
        )
        for remark in federation.remarks:
            self.tell(remark)
        if 0 < config.rounds <= stream.task_rounds * (stream.num_tasks - 1):
            last = self._task(config.rounds)
            self.tell(f"warning: {config.rounds} rounds end in task {last} of {stream.num_tasks}; give more --rounds")
        if deserted := federation.turnout.deserted(config.rounds):
            self.tell(f"warning: nobody is available in {rounds_in_words(deserted)}: nothing is trained then")
        work, held_out = federation.pace.work, federation.method.share_held_out
        for remark in idle_remarks(config, stream, federation.worlds, work, held_out):
            self.tell(remark)
