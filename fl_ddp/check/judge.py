"""Holds methods against the checks, in processes of their own."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType

from fl_ddp.check.candidate import Case
from fl_ddp.check.handlers import BY_NAME, CaseChecks, Finding, Rank, Solo
from fl_ddp.check.helper import Failure, Helper
from fl_ddp.check.rules import RANKS
from fl_ddp.errors import Told
from fl_ddp.ranks.meeting import MeetingPlace

PATIENCE = 300.0
"""Seconds after which a check counts as hung."""


class NotRunError(Exception):
    """The method cannot be run at all.

    Attributes:
        told: why.
    """

    def __init__(self, told: Told) -> None:
        super().__init__(told.line)
        self.told = told


class Judge:
    """Makes checks, and keeps processes for them until the with block is over."""

    def __init__(self, patience: float = PATIENCE, begins: Callable[[str], None] = lambda _: None) -> None:
        """Get ready.

        Args:
            patience: seconds after which a check counts as hung.
            begins: is told the name of each check that begins.
        """
        self._patience, self._begins = patience, begins
        self._solo = Helper(Solo())
        self._groups = {size: _Group(size) for size in RANKS}

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._solo.end()
        self._leave_groups()

    def findings(self, case: Case, rules: Sequence[str]) -> Iterator[Finding]:
        """Make checks of a method, those that need several ranks last.

        Args:
            case: the method and its options.
            rules: names of the checks.

        Raises:
            NotRunError: the method cannot be run at all.
        """
        together = [name for name in rules if BY_NAME[name].together]
        for _ in self._answers(case, ()):
            pass
        if together:
            for group in self._groups.values():
                group.ask(case)
        yield from self._made(case, [name for name in rules if name not in together])
        if together:
            self._begins(together[0])
            start = time.monotonic()
            failed = self._failed()
            waited = time.monotonic() - start
            made = (failed._replace(rule=name) for name in together) if failed else self._made(case, together)
            for finding in made:
                yield finding._replace(seconds=finding.seconds + waited)
                waited = 0.0

    def _made(self, case: Case, rules: Sequence[str]) -> Iterator[Finding]:
        """Checks that one process makes; a new one makes those that come after one that hangs or crashes."""
        left = list(rules)
        while left:
            self._begins(left[0])
            for answer in self._answers(case, left):
                name = left.pop(0)
                if isinstance(answer, Failure):
                    yield Finding(name, "does not hold", answer.told.line, self._patience, answer.told.way)
                else:
                    assert isinstance(answer, Finding)
                    yield answer
                if left:
                    self._begins(left[0])

    def _answers(self, case: Case, rules: Sequence[str]) -> Iterator[object]:
        """What comes of checks, once the method is known to run at all."""
        self._solo.ask(CaseChecks(case, tuple(rules)))
        answers = self._solo.answers(self._patience)
        first = next(answers)
        if isinstance(first, Failure):
            deque(answers, maxlen=0)  # up to their end, so that the next question has its own
            raise NotRunError(first.told)
        return answers

    def _failed(self) -> Finding | None:
        """Wait for the runs on several ranks; what to say of the first that failed."""
        end = time.monotonic() + self._patience
        for size, group in self._groups.items():
            if failure := group.failure(end):
                self._leave_groups()
                line, way, _ = failure.told
                return Finding("", "does not hold", f"{size} ranks: {line}", 0.0, way)
        return None

    def _leave_groups(self) -> None:
        for group in self._groups.values():
            group.end()


class _Group:
    """The helpers that are the ranks of runs."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._place: MeetingPlace | None = None
        self._helpers: list[Helper] = []

    def ask(self, case: Case) -> None:
        """Begin to run a case."""
        if self._place is None:
            self._place = MeetingPlace(self._size)
            ranks = (Rank(self._place.environment(index)) for index in range(self._size))
            self._helpers = [Helper(rank) for rank in ranks]
        for helper in self._helpers:
            helper.ask(case)

    def failure(self, end: float) -> Failure | None:
        """Wait for the end of the run, or for this time of the monotonic clock; why the run failed, if it did."""
        failures: list[Failure] = []
        for helper in self._helpers:
            answers = helper.answers(max(end - time.monotonic(), 1.0))
            failures += [each for each in answers if isinstance(each, Failure)]
        if not failures:
            return None
        self.end()
        return next((each for each in failures if each.cause), failures[0])

    def end(self) -> None:
        """Let nothing of them be left."""
        for helper in self._helpers:
            helper.end()
        self._place, self._helpers = None, []
