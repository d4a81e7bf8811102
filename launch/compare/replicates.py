"""Replicates, runs that differ in their seeds alone: a line of a table, a curve of a plot."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fl_ddp.config.command_line import FREE_ON_RESUME
from fl_ddp.config.settings import OF_FOLDER
from fl_ddp.errors import ConfigError
from fl_ddp.optimizers.schedule import falls_over_rounds
from launch.compare.found_runs import FoundRun, RunState
from launch.compare.once import Once, once
from launch.numbers.metric import Metric
from launch.numbers.reading import Reading, reached
from launch.run.cost import read_off_run
from launch.run.edited import versions
from launch.run.stored import Run, until

ROW = "row"
"""What stands for the keys of a design where settings are called by folders."""
VERSION = "version"
"""What stands for the versions of a user's files among the keys of a design."""
_SEED = re.compile(r"(-seed\d+|(^|,)seed=\d+(~[0-9a-f]{12})?)$")
"""How the folders of launch.reproduce and launch.sweep end."""
_CHANGING = ("rounds", "eval_every", "stop_at", "patience")
"""Those that are free on resume and change numbers all the same."""
_SAME_RUN = (
    *(key for key in FREE_ON_RESUME if key not in _CHANGING),
    *("seed", "device", "log_clients", "measures", *OF_FOLDER),
)
"""Settings that do not set runs apart."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """Runs with the same settings.

    Attributes:
        values: of the keys that vary, in their order; empty where a run has no such option.
        found: in their folders.
    """

    values: tuple[str, ...]
    found: tuple[FoundRun, ...]

    @cached_property
    def once(self) -> Once:
        """The runs, each seed once."""
        return once(self.found)

    @property
    def runs(self) -> tuple[FoundRun, ...]:
        """By seed; of the same seed one, and none where the results of several differ."""
        return self.once.runs

    @cached_property
    def ended(self) -> bool:
        """Whether there is a finished run; if there is none, numbers are those so far."""
        return any(run.state == "finished" for run in self.runs)

    @cached_property
    def counted(self) -> tuple[Run, ...]:
        """Runs whose numbers count: the finished ones, or, if there are none, those that did not fail."""
        return tuple(
            each.run for each in self.runs if each.state == "finished" or not (self.ended or each.state == "failed")
        )

    @property
    def states(self) -> dict[RunState, int]:
        """How many runs are in which state, the finished ones first."""
        number = Counter(run.state for run in self.runs)
        order: tuple[RunState, ...] = ("finished", "running", "stopped", "failed")
        return {state: number[state] for state in order if number[state]}

    @cached_property
    def last(self) -> int:
        """The last round that all runs that count have, but for those that ended before it by their rule."""
        return min((max(run.rounds, run.wanted) if run.stopped else run.rounds for run in self._begun), default=0)

    @property
    def compared(self) -> tuple[Run, ...]:
        """Runs that count and have begun, all as they were after the last round that they share."""
        return self.after(self.last)

    def after(self, last: int) -> tuple[Run, ...]:
        """Runs that count and have begun, as they were after a round."""
        return tuple(run if run.rounds <= last else run.after(last) for run in self._begun)

    @cached_property
    def shortened(self) -> bool:
        """Whether there are finished runs that went on after it."""
        return self.ended and any(run.rounds > self.last for run in self._begun)

    def last_of(self, metric: Metric) -> int:
        """The last round that all runs that count were read in; last, where some went on and there is no such round."""
        return (self.shortened and last_read(self._begun, metric, self.last)) or self.last

    @cached_property
    def _begun(self) -> list[Run]:
        return [run for run in self.counted if run.rounds]

    def numbers(self, metric: Metric) -> list[Reading]:
        """A metric of the compared runs that have it; rounds to a target only once each run that counts has told."""
        return [*self.by_seed(metric).values()]

    def by_seed(self, metric: Metric, last: int | None = None) -> dict[int, Reading]:
        """The same by seed; as after a round, if it is told."""
        if metric.target is None:
            compared = self.after(self.last_of(metric) if last is None else last)
            read = {run.seed: read_off_run(metric, run, ended=True) for run in compared}
        else:
            read = dict(zip((run.seed for run in self.counted), self._rounds_to(metric), strict=True))
        known = {seed: each for seed, each in read.items() if each is not None}
        return known if metric.target is None or len(known) == len(read) else {}

    def reached(self, metric: Metric) -> int:
        """How many of the runs that count have reached the target of a metric."""
        return reached([each for each in self._rounds_to(metric) if each is not None])

    def _rounds_to(self, metric: Metric) -> list[Reading | None]:
        return [read_off_run(metric, run, run.ended) for run in self.counted]

    def totals(self, column: str) -> list[float]:
        """The sum of a column of metrics.csv over all rounds, for each of the compared runs."""
        return [sum(value for _, value in run.curves.get(column, ())) for run in self.compared]

    @property
    def seconds(self) -> list[float]:
        """How long each of the compared runs took."""
        return [run.seconds for run in self.compared]


@dataclass(frozen=True)
class Design:
    """What varies among runs, and the replicates of each combination of values.

    Attributes:
        keys: options that differ among the runs, seed aside.
        sets: sorted by their values, numbers by size; each has a run.
        differing: messages on seeds that are left out, see Once.
    """

    keys: tuple[str, ...]
    sets: tuple[Replicates, ...]
    differing: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Keys as short as they can be told apart: lam for method.lam."""
        last = [key.rpartition(".")[2] for key in self.keys]
        return tuple(short if last.count(short) == 1 else key for key, short in zip(self.keys, last, strict=True))

    def place_of(self, name: str) -> int | None:
        """Of the key that a word means: itself, or as short as names are; None if it is neither."""
        return next((names.index(name) for names in (self.keys, self.names) if name in names), None)

    @cached_property
    def written(self) -> tuple[Mapping[str, str], ...]:
        """The values of each key as people read them: of a file, as much of its path as tells it apart from others."""
        return tuple(_tails({each.values[index] for each in self.sets}) for index in range(len(self.keys)))

    def shown(self, replicates: Replicates) -> tuple[str, ...]:
        """The values of one of the sets, written so."""
        return tuple(of[value] for of, value in zip(self.written, replicates.values, strict=True))


def design_of(runs: Sequence[FoundRun]) -> Design:
    """The design that runs have: replicates are what nothing but the seed sets apart.

    Where a file of the user's was edited, and runs of the same seed were made before and after it that differ, so does
    its version.
    """
    keys = _apart(runs)
    sets = _sets(keys, runs)
    if any(each.once.differing and len({*map(_version, each.found)} - {""}) > 1 for each in sets):
        keys = (*keys, VERSION)
        sets = _sets(keys, runs)
    return _design(keys, sets)


def _sets(keys: tuple[str, ...], runs: Sequence[FoundRun]) -> list[Replicates]:
    by_values: dict[tuple[str, ...], list[FoundRun]] = {}
    for run in runs:
        values = tuple(_version(run) if key == VERSION else run.settings.get(key, "") for key in keys)
        by_values.setdefault(values, []).append(run)
    ordered = sorted(by_values, key=lambda values: [in_order(value) for value in values])
    return [Replicates(values, tuple(by_values[values])) for values in ordered]


def _version(run: FoundRun) -> str:
    """Of the user's files that its code is in, such as mine.py@1a2b3c4d; empty where it has none, or has not ended."""
    return " ".join(f"{Path(place).name}@{sha256[:8]}" for place, sha256 in sorted(versions(run.run).items()))


def rows_of(runs: Sequence[FoundRun]) -> Design:
    """The same where replicates are runs whose folders have the same name but for the seed, in the order of the runs.

    That is -seed<k> behind what launch.reproduce calls a table's rows, behind their group, which is left out where all
    have the same, and ,seed=<k> behind the other options of launch.sweep's points. Rows of several tables that have the
    same name are called by their tables, too.

    Raises:
        ConfigError: more than the seed sets runs of the same row apart.
    """
    by_row: dict[str, list[FoundRun]] = {}
    for run in runs:
        by_row.setdefault(_row_path(run).rpartition("/")[2], []).append(run)
    groups = set(map(_group, by_row))
    alone = len(groups) == 1 and groups != {None}
    if any(map(_apart, by_row.values())):
        names, alone = _tails({_row_path(run) for run in runs}), False
        by_row = {names[path]: [run for run in runs if _row_path(run) == path] for path in map(_row_path, runs)}
    for row, of in by_row.items():
        if keys := _apart(of):
            values = " and ".join(dict.fromkeys(run.settings.get(keys[0], "nothing") for run in of))
            raise ConfigError(row, f"its runs differ in more than their seeds: {keys[0]} is {values}")
    named = {row.partition("-")[2] if alone else row: tuple(of) for row, of in by_row.items()}
    return _design((ROW,), [Replicates((name,), of) for name, of in named.items()])


def _design(keys: tuple[str, ...], sets: Sequence[Replicates]) -> Design:
    differing = tuple(why for each in sets for why in each.once.differing)
    return Design(keys, tuple(each for each in sets if each.runs), differing)


def last_read(runs: Collection[Run], metric: Metric, last: int) -> int:
    """The last round up to one that all runs have a metric in, but for those without it and those ended by their rule.

    Returns:
        0 if there is none.
    """
    curves = (run.curve(metric.quantity) for run in runs if not run.stopped)
    rounds = [{number for number, _ in until(last, curve)} for curve in curves if curve]
    return max(set.intersection(*rounds), default=0) if rounds else last


def _group(row: str) -> str | None:
    """Of a table's row; a point of a sweep has none, whatever numbers it is of."""
    group, hyphen, _ = row.partition("-")
    return group if hyphen and "=" not in group else None


def _row_path(run: FoundRun) -> str:
    folder = run.run.folder.absolute()
    name = _SEED.sub("", folder.name)
    return str(folder.with_name(name) if name else folder.parent)  # of a sweep over seeds alone its own


def _apart(runs: Sequence[FoundRun]) -> tuple[str, ...]:
    """Options that set runs apart; those that are free on resume only where nothing else tells two runs apart."""
    every = dict.fromkeys(key for run in runs for key in run.settings)
    keys = tuple(key for key in every if key not in _SAME_RUN and _differs(key, runs))
    fixed = tuple(key for key in keys if key not in FREE_ON_RESUME or (key == "rounds" and _depend_on_rounds(runs)))
    apart, seen = ({(run.seed, *(run.settings.get(key) for key in some)) for run in runs} for some in (fixed, keys))
    return fixed if len(apart) == len(seen) else keys


def _depend_on_rounds(runs: Sequence[FoundRun]) -> bool:
    """Whether a run of more rounds is another run from the first one on."""
    return any(
        falls_over_rounds(run.settings.get("lr_schedule", ""), run.settings.get("lr_schedule_over", "rounds"))
        for run in runs
    )


def _tails(values: Collection[str]) -> dict[str, str]:
    """Each value, or, of an absolute path, its shortest end that no other value has."""
    tails = {value: value for value in values}
    for path in (value for value in values if value.startswith("/")):
        parts = path.split("/")
        ends = ("/".join(parts[-number:]) for number in range(1, len(parts)))
        alone = (end for end in ends if not any(f"/{other}".endswith(f"/{end}") for other in values if other != path))
        tails[path] = next(alone, path)
    return tails


def _differs(key: str, runs: Sequence[FoundRun]) -> bool:
    """Whether a key has several values; an option of a class, among the runs with the same class."""
    kind = key.partition(".")[0]
    by_class: dict[str, set[str]] = {}
    for run in runs:
        if key in run.settings:
            by_class.setdefault("" if kind == key else run.settings.get(kind, ""), set()).add(run.settings[key])
    return any(len(values) > 1 for values in by_class.values())


def in_order(value: str) -> tuple[bool, float, str]:
    """What sorts numbers by size, before all else."""
    number = as_number(value)
    return number is None, number or 0.0, value


def as_number(value: str) -> float | None:
    """A value as a number, if it is one."""
    try:
        return float(value)
    except ValueError:
        return None
