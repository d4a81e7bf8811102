"""How far several runs are: a bar on a terminal, else a line when one begins or ends."""

from __future__ import annotations

import sys
from threading import Lock
from types import TracebackType
from typing import Never

from tqdm import tqdm

from fl_ddp.host.stdout import on_terminal, say
from launch.run.outcome import Outcome
from launch.run.trial import Trial


class RunProgress:
    """What is printed while runs are made; to be used in a with block."""

    def __init__(self, number: int) -> None:
        """Start.

        Args:
            number: of runs.
        """
        self._number, self._ended, self._failed = number, 0, 0
        self._alone = Lock()
        self._bar: tqdm[Never] | None = None
        if on_terminal():
            look = "run {n_fmt}/{total_fmt} |{bar}| {desc}{elapsed}, {remaining} left"
            self._bar = tqdm(total=number, unit="run", bar_format=look, dynamic_ncols=True, file=sys.stdout)

    def __enter__(self) -> RunProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def started(self, trial: Trial) -> None:
        """Say that a run begins; a bar has no room for that."""
        with self._alone:
            if self._bar is None:
                say(f"{trial.label} begins")

    def show(self, outcome: Outcome) -> None:
        """Say how a run came out; above the bar only if it did not finish."""
        said = outcome.words if outcome.state != "failed" else f"failed: {outcome.words}"
        line = f"{outcome.trial.label} {said}, {tqdm.format_interval(outcome.seconds)}"
        with self._alone:
            self._ended += 1
            self._failed += outcome.state == "failed"
            if self._bar is None:
                say(f"[{self._ended}/{self._number}] {line}")
                return
            if outcome.state != "finished":
                with self._bar.external_write_mode(file=sys.stdout):
                    say(line)
            self._bar.set_description_str(f"{self._failed} failed, " if self._failed else "", refresh=False)
            self._bar.update()
