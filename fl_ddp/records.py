"""All that a run writes: its folder, files and checkpoints. Rank 0 writes; every rank adds its clients' memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import numpy as np
from torch import Tensor

from fl_ddp.config.settings import Config
from fl_ddp.course.callbacks import Callback, any_asks_to_stop
from fl_ddp.course.stopping import Stopping
from fl_ddp.errors import ConfigError, RunError, in_one_line
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import Federation
from fl_ddp.host.atomic_file import write_text
from fl_ddp.host.stdout import say
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.cohort import owner
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.results import checkpoint
from fl_ddp.results.metrics import Record
from fl_ddp.results.provenance import numerics
from fl_ddp.results.run_folder import FAILURE, RunFolder, last_round
from fl_ddp.results.summary import read_summary
from fl_ddp.retention.own_table import OwnTask
from fl_ddp.run_files import RunFiles
from fl_ddp.run_tables import OfClients


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
    """All that a run writes, seen from one rank: rank 0 has the files, every rank its clients' memory.

    Attributes:
        path: the run's folder.
        start: where to go on; None where the run begins.
        done: what summary.json holds, if nothing is left to do.
        saved: number of finished rounds that the newest checkpoint is after; -1 if there is none.
        scores: of the newest evaluation.
        scored: the round of that; -1 if there was none.
        stopped: why the run ends before its last round, once it does.
        may_end_early: whether that, or what callbacks see, depends on each round.
    """

    def __init__(self, config: Config, ranks: Ranks, federation: Federation, callbacks: Sequence[Callback]) -> None:
        """Open the run's folder, new or to go on with, alike on all ranks.

        Args:
            config: of the run.
            ranks: that it runs on.
            federation: what it is made of.
            callbacks: that rank 0 calls with the record of each round.

        Raises:
            ConfigError: the folder is taken, locked, or not that of such a run.
            RunError: it cannot be written.
        """
        self._config, self._ranks, self._federation = config, ranks, federation
        self.saved = self._begun = -1
        self.scores: Scores | None = None
        self.scored = -1
        self.stopped: str | None = None
        self._callbacks = callbacks
        watched = ranks.share("yes" if callbacks else "")  # rank 0 alone may have been given callbacks
        self.may_end_early = bool(watched or config.stop_at or config.patience)
        self._stopping, self._asked_to_stop = Stopping(config), False
        # a GPU computes the next round meanwhile; but what is written may end the run
        self._late = ranks.device.type != "cpu" and not self.may_end_early
        self._unwritten: Callable[[], None] | None = None
        self._files: RunFiles | None = None
        self._folder = ranks.together(self._lock)
        try:
            self.path = Path(ranks.share(str(self._folder.path) if self._folder else ""))
            self.start = self._find_start()
            if self.start:
                self._federation = replace(federation, lanes=self.start.lanes)
            self.done = ranks.together(self._results)
            if self.done is None:
                if config.resume and not self.start:
                    self.tell(f"{self.path} has no usable checkpoint; starting from round 0")
                self._files = ranks.together(self._open)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let another run, of this process or another, go on in the folder; a second call does nothing."""
        try:
            self.write()
            for error in self._ranks.late:  # a run that fails of something else agrees on nothing any more
                self.tell(f"warning: {in_one_line(error)}")
            self._ranks.late.clear()
            if self._files:
                self._files.close()
        finally:
            if self._folder:
                self._folder.close()

    @property
    def lanes(self) -> int:
        """Clients side by side; a resumed run's are those it was started with."""
        return self._federation.lanes

    def tell(self, line: str) -> None:
        """Print a line, once for all ranks."""
        if self._files:
            self._files.tell(line)
        elif self._ranks.is_main:
            say(f"fl_ddp: {line}")

    def note_failure(self, why: str) -> None:
        """Leave a line in the folder that says why the run failed; any rank may, and a resumed run removes it."""
        with suppress(RunError):  # a full disk may be what it failed of
            write_text(self.path / FAILURE, f"{why}\n")

    def round(self, record: Record, scores: Scores | None, clients: OfClients, theta: Tensor) -> None:
        """Add a finished round; on a GPU it is written by the next write(), which comes before any other is added.

        Args:
            record: of the round.
            scores: of the global model, where it was evaluated.
            clients: what it leaves of its clients.
            theta: [P] of the server after it.
        """
        self.write()
        if scores:
            self.scores, self.scored = scores, record.round
        if self._files:
            index, stream = max(record.round - 1, 0), self._federation.stream
            ends = record.round > 0 and stream.ends_task(index)
            told = replace(record, task=stream.task(index) + 1, ends_task=ends)
            self._unwritten = partial(self._write, self._files, told, clients, theta)
        if not self._late:
            self.write()

    def write(self) -> None:
        """Write the round that is not yet written; rank 0 alone does something, whose error the next round tells."""
        write, self._unwritten = self._unwritten, None
        try:
            if write:
                write()
        except Exception as error:
            self._ranks.tell_later(error)

    def _write(self, files: RunFiles, record: Record, clients: OfClients, theta: Tensor) -> None:
        record = files.round(record, clients)
        if record.ends_task and self._federation.worlds.num_tests > 1:
            files.keep_task(record.task, theta)
        self._asked_to_stop = any_asks_to_stop(
            self._callbacks, record, partial(self._federation.model.state_dict, theta)
        )
        files.commits.hear()

    def again(self, finished: int, scores: Scores | None, own_tasks: Sequence[OwnTask]) -> None:
        """Take in how the last round's models do, where no round is left in whose record it could be; all ranks do.

        Raises:
            RunError: it cannot be written.
        """
        if scores:
            self.scores, self.scored = scores, finished
        files = self._files
        self._ranks.together(lambda: files.tables.again(finished, scores, own_tasks) if files else None)

    def ends_early(self) -> bool:
        """Whether the run ends before its last round; rank 0 decides for all."""
        if not self.may_end_early:
            return False
        why = None
        if self._files:
            asked = "a callback returned True" if self._asked_to_stop else None
            why = asked or self._stopping.reason(self._files.tables.tracker.history.evaluations)
        self.stopped = self._ranks.share(why or "") or None
        return self.stopped is not None

    def save(self, finished: int, server: Tensors, memory: ClientMemory, *, wait: bool) -> None:
        """Write a checkpoint, all ranks together; not without all rows of the rounds before it.

        Args:
            finished: number of rounds.
            server: its state.
            memory: the clients'.
            wait: until it is on the disk; if not, a later round() or save() hears of it.

        Raises:
            RunError: it, or the one before, cannot be written; older checkpoints are untouched.
        """
        self.write()
        if wait:
            self.settle()
        if finished != self._begun:
            self._begin_saving(finished, server, memory)
        if wait:
            self._ranks.together(lambda: self._files.commits.settle() if self._files else None)
            self.saved = finished

    def settle(self) -> None:
        """Wait for the checkpoint that is under way, all ranks together; one that comes to nothing is told."""
        if self._files:
            try:
                self._files.commits.settle()
            except RunError as error:
                self.tell(f"warning: {error}")
        self.saved = self._begun = int(self._ranks.share(str(self._files.newest) if self._files else ""))

    def _begin_saving(self, finished: int, server: Tensors, memory: ClientMemory) -> None:
        ranks, files, remembers = self._ranks, self._files, bool(memory.initial)
        temporary = checkpoint.temporary_folder(self.path, finished)

        def begin() -> None:
            if files:
                files.commits.settle()
                files.tables.flush()
                checkpoint.write_server(checkpoint.begin(self.path, finished), server)
                if not remembers:
                    files.commit(temporary, finished)

        ranks.together(begin)
        if remembers:
            ranks.together(lambda: checkpoint.write_memory(temporary, ranks.index, memory.stacked()))
            ranks.together(lambda: files.commit(temporary, finished) if files else None)
        self._begun = finished

    def close(self, finished: int, theta: Tensor, seconds: Mapping[str, float]) -> dict[str, object]:
        """Write model and summary and print the results, all ranks together; see RunFiles.finish().

        Returns:
            what summary.json holds, on rank 0; elsewhere nothing.

        Raises:
            RunError: they cannot be written.
        """
        self.write()
        files = self._files
        if files and finished and not files.tables.tracker.history.anybody:
            self.tell("warning: nobody has trained in any round")
        # an earlier round's are not the model's that the run ends with, nor known to one that goes on
        stopped, scores = self.stopped, self.scores if self.scored == finished else None
        return self._ranks.together(lambda: files.finish(finished, theta, scores, seconds, stopped) if files else {})

    def _lock(self) -> RunFolder | None:
        """Make or reopen the run's folder; rank 0 alone."""
        if not self._ranks.is_main:
            return None
        resume = self._config.resume
        return RunFolder.reopen(Path(resume)) if resume else RunFolder.create(self._config, datetime.now())

    def _open(self) -> RunFiles | None:
        if not self._ranks.is_main:
            return None
        finished = self.start.finished if self.start else None
        return RunFiles(self.path, self._config, self._federation, self._ranks, finished)

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

    def _read(self, finished: int) -> Start:
        stored = checkpoint.load(self.path, finished)
        method, ranks = self._federation.method, self._ranks
        before, now = stored.state["numerics"], numerics(self._config, self._federation.lanes, ranks)
        assert isinstance(before, dict)
        for key in {**before, **now}:
            if key != "lanes" and before.get(key) != now.get(key):
                told = f"{key} was {before.get(key)} and is {now.get(key)}"
                self.tell(f"warning: {told}; the bits may differ from here on")
        server = {name: t.to(ranks.device) for name, t in stored.server(method.init()).items()}
        first_memory = self._federation.first_memory(method.init_client())
        memory = stored.memory(lambda client: bool(owner(np.array(client), ranks.size) == ranks.index), first_memory)
        self.saved = self._begun = finished
        return Start(finished, server, memory, int(before["lanes"]))

    def _results(self) -> dict[str, object] | None:
        """What summary.json holds, if the run has all its rounds and its results.

        Raises:
            ConfigError: it has more rounds than are asked for; or there are results and no checkpoint to go on from:
                they would be lost.
        """
        asked = self._config.rounds
        if not self._config.resume:
            return None
        content = read_summary(self.path)
        if self.start:
            finished, told = self.start.finished, _has_targets(content, self._config.targets)
            whole = finished >= asked and content.get("rounds") == finished and (finished > asked or told)
            if whole and not told:
                self.tell(f"warning: --targets are as they were; --rounds {finished} tells the first rounds of others")
            if self.start.finished > asked and not whole:
                what = f"{asked}, but {self.path} has finished {self.start.finished}, which count, too"
                raise ConfigError("--rounds", what, "the number of all its rounds, or none to go on as it was started")
        else:
            whole = bool(content) and content.get("rounds") == asked
            if content and not whole and content.get("rounds") != 0:
                what = f"{self.path} has the results of a run, summary.json, and no usable checkpoint to go on from"
                raise ConfigError("--resume", what, "a run with checkpoints; or start another one")
            if not whole and (written := last_round(self.path)) > asked:
                what = f"{asked}, but {self.path} has no usable checkpoint, and {written} rounds, which it would lose"
                raise ConfigError("--rounds", what, f"{written} or more, which are made again")
        return content if whole else None


def _has_targets(summary: Mapping[str, object], targets: Sequence[float]) -> bool:
    """Whether a summary tells the first rounds of these accuracies."""
    told = summary.get("rounds_to_target")
    known = told.get("accuracy") if isinstance(told, Mapping) else None
    with suppress(ValueError):  # the file was edited
        return isinstance(known, Mapping) and {float(each) for each in known} == set(targets)
    return False
