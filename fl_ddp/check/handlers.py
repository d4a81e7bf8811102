"""What the helpers of the checks do: one rank's share of a run, or everything that one process can do alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch

from fl_ddp.check.candidate import Candidate, Case
from fl_ddp.check.rules import RULES, Rule
from fl_ddp.errors import Told
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.meeting import join

Verdict = Literal["holds", "does not hold", "not applicable"]

BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in RULES}
RUNS = "runs"
"""The first answer to a question: the method can be run at all."""


class Finding(NamedTuple):
    """What a check has found.

    Attributes:
        rule: its name.
        verdict: whether it holds.
        reason: why it does not, or is not applicable.
        seconds: that it took.
        way: the traceback of an error that is no mistake of the user's; else empty.
    """

    rule: str
    verdict: Verdict
    reason: str
    seconds: float
    way: str = ""


class CaseChecks(NamedTuple):
    """A case, and the names of the checks that are to be made of it."""

    case: Case
    rules: Sequence[str]


@dataclass
class Solo:
    """Checks one case after another: RUNS, then a Finding for each check."""

    _candidate: Candidate | None = None

    def __call__(self, question: object) -> Iterator[str | Finding]:
        """Make the checks of a CaseChecks."""
        assert isinstance(question, CaseChecks)
        torch.set_num_threads(1)
        if self._candidate is None or self._candidate.case != question.case:
            self._candidate = Candidate(question.case)
        _ = self._candidate.reference
        yield RUNS
        for name in question.rules:
            yield _found(BY_NAME[name], self._candidate)


@dataclass
class Rank:
    """Makes one rank's share of a case's run.

    Attributes:
        environment: by which it finds the others.
    """

    environment: Mapping[str, str]
    _ranks: list[Ranks] = field(default_factory=list)

    def __call__(self, case: object) -> tuple[()]:
        """Run a Case; there is nothing to answer."""
        assert isinstance(case, Case)
        if not self._ranks:
            torch.set_num_threads(1)
            os.environ.update(self.environment)
            self._ranks.append(join("cpu"))
        Candidate(case).run_together(self._ranks[0])
        return ()


def _found(rule: Rule, candidate: Candidate) -> Finding:
    """What a check finds; an error is a finding, too, so that the other checks go on."""
    start = time.monotonic()
    way = ""
    try:
        if needless := rule.needless(candidate):
            return Finding(rule.name, "not applicable", needless, time.monotonic() - start)
        reason = rule.gap(candidate)
    except Exception as error:
        reason, way, _ = Told.of(error)
    return Finding(rule.name, "does not hold" if reason else "holds", reason, time.monotonic() - start, way)
