"""What rank 0 prints: progress and the table of results."""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Never

from tqdm import tqdm

from fl_ddp.host.stdout import on_terminal, say
from fl_ddp.results.metrics import OF_FUNCTION, Record
from fl_ddp.results.summary import Summary

_PAUSE = 5.0
"""Seconds between two lines where there is no terminal."""


class Progress:
    """Rounds done and rounds to come: a bar on a terminal, else a line now and then."""

    def __init__(self, done: int, rounds: int, score: str = "accuracy") -> None:
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


def result_table(summary: Summary) -> str:
    """The results as aligned text."""
    score, own, which = summary.score, summary.of_clients, ", present task" if _of_tasks(summary) else ""
    rows = {
        "rounds": f"{summary.rounds}{f' ({summary.stopped})' if summary.stopped else ''}",
        **(_accuracies(summary) if score == "accuracy" else {}),
        **{_in_words(name): _number(value) for name, value in summary.measures.items()},
        "test loss": _number(summary.loss),
        **{
            name: _number(value)
            for name, value in (
                (f"initial {score}{which}", own.get(f"initial_{score}")),
                (f"personalised {score}{which}", own.get(f"personalised_{score}")),
                (f"personalised {score}{which}, all clients", own.get(f"personalised_{score}_all")),
                *((name.replace("_", " "), value) for name, value in summary.of_tasks.items()),
            )
            if value is not None
        },
        **({} if _of_tasks(summary) else _targets(summary)),
        "traffic": f"{summary.traffic_up_bytes / 1e6:,.1f} MB up, {summary.traffic_down_bytes / 1e6:,.1f} MB down",
        "padded lanes": f"{summary.padded_lanes:.1%}",
        "seconds": ", ".join(f"{phase} {seconds:.1f}" for phase, seconds in summary.seconds.items()),
        "parameters": f"sha256 {summary.parameters_sha256[:16]}",
        "folder": summary.folder,
    }
    width = max(map(len, rows))
    lines = [f"{name:<{width}}  {value}" for name, value in rows.items()]
    of_classes = [*_class_table(summary.class_accuracy), ""] if summary.class_accuracy else []
    return "\n".join([*lines, "", *of_classes, tensorboard_line(summary.folder)])


def _in_words(measure: str) -> str:
    """A measure of the package's; one of the user's stays what it is called."""
    return measure if measure.startswith(OF_FUNCTION) else measure.replace("_", " ")


def _of_tasks(summary: Summary) -> bool:
    """Whether it tells of tasks with test sets of their own."""
    return summary.of_tasks.get("average_accuracy") is not None


def _targets(summary: Summary) -> dict[str, str]:
    """Rows of when the global model reached them."""
    means = summary.rounds_to_target.get("running_mean", {})
    reached = summary.rounds_to_target.get("accuracy", {})
    return {f"rounds to {t}": f"{_round(found)} (running mean: {_round(means.get(t))})" for t, found in reached.items()}


def _accuracies(summary: Summary) -> dict[str, str]:
    """Rows of the global model's; with tasks those of before were tested on others, and count in no mean or best.

    What a class has lost is counted from when its test samples last became others.
    """
    of_before = {"running mean": summary.running_mean_accuracy, "best accuracy": summary.best_accuracy}
    return {
        "accuracy": _number(summary.accuracy),
        **({} if _of_tasks(summary) else {name: _number(value) for name, value in of_before.items()}),
        "forgetting, same tests" if _of_tasks(summary) else "forgetting": _forgetting(summary),
    }


def tensorboard_line(folder: str) -> str:
    """How to look at the curves of a run and its neighbours."""
    return f"tensorboard --logdir {Path(folder).parent}"


def _class_table(accuracy: Mapping[str, float]) -> list[str]:
    """Accuracy per class, in as many columns as the terminal has room for."""
    name = max(map(len, accuracy))
    cells = [f"{label:<{name}}  {value:.4f}" for label, value in accuracy.items()]
    columns = max(1, min(5, shutil.get_terminal_size().columns // (name + 12)))
    depth = -(-len(cells) // columns)
    return ["accuracy per class", *("    ".join(cells[row::depth]) for row in range(depth))]


def _forgetting(summary: Summary) -> str:
    """The average and the class that lost most."""
    lost = {name: value for name, value in summary.class_forgetting.items() if not math.isnan(value)}
    if not lost:
        return "-"
    most = max(lost, key=lost.__getitem__)
    most_lost = f" (most: class {most}, {lost[most]:.4f})" if lost[most] else ""
    return f"{_number(summary.forgetting)}{most_lost}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _round(value: int | None) -> str:
    return "not reached" if value is None else f"round {value}"
