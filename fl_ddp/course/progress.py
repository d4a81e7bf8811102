"""The progress that rank 0 prints."""

from __future__ import annotations

import sys
import time
from typing import Never

from tqdm import tqdm

from fl_ddp.host.stdout import on_terminal, say
from fl_ddp.results.metrics import Record

_PAUSE = 5.0
"""Seconds between two lines where there is no terminal."""


class Progress:
    """Rounds done and rounds to come: a bar on a terminal, else a line now and then."""

    def __init__(self, done: int, rounds: int, score: str) -> None:
        """Start.

        Args:
            done: finished rounds of earlier parts of the run.
            rounds: of the whole run.
            score: what is shown beside the loss, the accuracy or a measure.
        """
        self._rounds, self._first, self._score = rounds, done + 1, score
        self._shown, self._tested = "-", 0
        self._personalised: str | None = None
        self._loss: str | None = None
        self._train_loss: str | None = None
        self._timed_from: tuple[int, float] | None = None
        self._next_line = 0.0
        self._bar: tqdm[Never] | None = None
        if on_terminal():
            form = "round {n_fmt}/{total_fmt} |{bar}| {desc}"
            self._bar = tqdm(
                total=rounds, initial=done, unit="round", bar_format=form, dynamic_ncols=True, file=sys.stdout
            )

    def update(self, record: Record) -> None:
        """Show a finished round."""
        score = record.accuracy if self._score == "accuracy" else record.measures.get(self._score)
        if score is not None:
            self._shown, self._tested = f"{score:.4f}", record.round
        if record.personalised_accuracy is not None:
            self._personalised = f"{record.personalised_accuracy:.4f}"
        # of the model that the score is of; until it is tested again, the clients' is the news
        self._loss = self._loss if record.loss is None else f"{record.loss:.4f}"
        of_clients = record.train_loss if record.loss is None else None
        self._train_loss = None if of_clients is None else f"{of_clients:.4f}"
        now = time.monotonic()
        if self._bar is not None:
            self._bar.set_description_str(", ".join([*self._numbers(record), *self._pace(record, now)]), refresh=False)
            self._bar.update(record.round - self._bar.n)
        elif record.round in (self._first, self._rounds) or now >= self._next_line:
            self._next_line = now + _PAUSE
            say(self._line(record, now))
        # the first round compiles: it says nothing about the others, and what is tested before it is none
        self._timed_from = self._timed_from or ((record.round, now) if record.round else None)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        if self._bar is None:
            say(line)
        else:
            self._bar.write(line, file=sys.stdout)

    def close(self) -> None:
        """Leave the terminal in order."""
        if self._bar is not None:
            self._bar.close()

    def _numbers(self, record: Record) -> list[str]:
        others = {"personalised": self._personalised, "loss": self._loss, "train loss": self._train_loss}
        when = "" if self._shown == "-" or self._tested == record.round else f" (round {self._tested})"
        told = (f"{name} {value}" for name, value in others.items() if value)
        return [f"{self._score} {self._shown}{when}", *told]

    def _line(self, record: Record, now: float) -> str:
        return "  ".join([f"round {record.round}/{self._rounds}", *self._numbers(record), *self._pace(record, now)])

    def _pace(self, record: Record, now: float) -> list[str]:
        """What a round takes, and all that are left; nothing before the second."""
        if self._timed_from is None:
            return []
        start, then = self._timed_from
        pace = (now - then) / (record.round - start)
        return [f"{pace:.3g} s/round", f"{tqdm.format_interval(pace * (self._rounds - record.round))} left"]
