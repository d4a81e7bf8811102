"""For each method the setting that is best by one metric, so that nobody tunes on others that are shown of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fl_ddp.errors import ConfigError
from fl_ddp.host.text_table import TextTable
from fl_ddp.results.metrics import OF_METHOD, of_clients
from fl_ddp.retention.matrix import OF_OWN_TASKS
from launch.compare.across import best_of
from launch.compare.replicates import ROW, Design, Replicates, in_order
from launch.numbers.metric import SPREADS, Metric
from launch.numbers.reading import reached, values_of
from launch.numbers.spread import mean

_TUNED = (
    *("optimizer", "lr", "momentum", "weight_decay", "clip_norm", "label_smoothing", "augment"),
    *("local_epochs", "local_steps", "batch_size", "drop_last"),
    *("lr_schedule", "lr_schedule_over", "lr_decay", "lr_step", "lr_min", "lr_warmup"),
)
_TUNED_OF = "method.", "optimizer."
"""Options of training, and how others begin, that are chosen; all else makes another problem, with its own choice."""
_OWN = (*of_clients("accuracy"), *of_clients("mae"), *SPREADS, *OF_OWN_TASKS)


@dataclass(frozen=True)
class Candidates:
    """Settings of which one is chosen.

    Attributes:
        values: that they have in common, of the keys that a choice is for.
        sets: all of them.
        by: what they are chosen by.
    """

    values: tuple[str, ...]
    sets: tuple[Replicates, ...]
    by: Metric

    @cached_property
    def known(self) -> tuple[Replicates, ...]:
        """Those with a finished run and a number to choose by."""
        return tuple(each for each in self.sets if each.ended and mean(values_of(each.numbers(self.by))) is not None)

    @cached_property
    def best(self) -> tuple[Replicates, ...]:
        """The chosen one; several where they are best alike, none where no number is known or no target reached."""
        some = any(reached(each.numbers(self.by)) for each in self.known)
        return best_of(self.known, self.by) or (self.known if some else ())

    @property
    def number(self) -> str:
        """How many there were to choose from, of how many."""
        return f"{len(self.known)}" + (f" of {len(self.sets)}" if len(self.known) < len(self.sets) else "")

    def seeds_of(self, chosen: Replicates) -> str:
        """How many it has a number of, of how many that there are among all."""
        found, among = len(chosen.by_seed(self.by)), len({run.seed for each in self.sets for run in each.runs})
        return f"{found}" + (f" of {among}" if found < among else "")


@dataclass(frozen=True)
class Chosen:
    """What settings are chosen by, and for what each.

    Attributes:
        by: metric.
        design: of all settings.
        places: among its keys, of those that a choice is for each value of.
    """

    by: Metric
    design: Design
    places: tuple[int, ...]

    @property
    def title(self) -> str:
        """What the table has."""
        names = [self.design.names[place] for place in self.places]
        of_each = f"for each {' and '.join(names)} the setting" if names else "the setting"
        return f"chosen by {self.by.text}: {of_each} that is best by it"

    @cached_property
    def choices(self) -> tuple[Candidates, ...]:
        """By their values, numbers by size."""
        found = dict[tuple[str, ...], list[Replicates]]()
        for each in self.design.sets:
            found.setdefault(tuple(each.values[place] for place in self.places), []).append(each)
        ordered = sorted(found, key=lambda values: list(map(in_order, values)))
        return tuple(Candidates(values, tuple(found[values]), self.by) for values in ordered)

    def among(self, setting: Replicates) -> int | None:
        """How many a setting was chosen from; None if it was not."""
        return next((len(each.known) for each in self.choices if setting in each.best), None)

    def table(
        self, metrics: Sequence[Metric], name: Callable[[Metric], str], cell: Callable[[Replicates, Metric], str]
    ) -> TextTable:
        """A row for each choice, with what it was made by and other metrics of the chosen setting."""
        shown = [metric for metric in metrics if metric != self.by]
        order = [*self.places, *(place for place in range(len(self.design.keys)) if place not in self.places)]
        rows = list[list[str]]()
        for each in self.choices:
            for one in each.best:
                values = self.design.shown(one)
                numbers = [cell(one, metric) for metric in (self.by, *shown)]
                rows.append([*(values[place] for place in order), each.number, each.seeds_of(one), *numbers])
            if not each.best:
                blank = [""] * (len(order) - len(self.places))
                rows.append([*self._written(each), *blank, each.number, *["-"] * (2 + len(shown))])
        head = [*(self.design.names[place] for place in order), "settings", "seeds", f"chosen by {name(self.by)}"]
        return TextTable([*head, *map(name, shown)], rows, flush_left=len(order))

    def notes(self, metrics: Sequence[Metric]) -> Iterator[str]:
        """What its numbers do not say by themselves: how free the choice was, and what it lacked."""
        yield "settings: how many there were to choose from; the best of many is luckier by what it was chosen by"
        tests = {self._samples(self.by)} - {""}
        for metric in metrics:
            if metric != self.by and self._samples(metric) in tests:
                yield f"{metric.text} is of the same samples as {self.by.text}, by which was chosen: it is flattered"
        for each in self.choices:
            who = ", ".join(filter(None, self._written(each))) or "all runs"
            if not each.best:
                yield f"{who}: no setting has a finished run with a number of {self.by.text}, or reaches it"
            if len(each.best) > 1:
                yield f"{who}: {len(each.best)} settings are best alike by {self.by.text}, all are shown"
            seeds = [frozenset(one.by_seed(self.by)) for one in each.known]
            if len(set(seeds)) > 1:
                few, many = min(map(len, seeds)), max(map(len, seeds))
                yield f"{who}: seeds differ among its settings, of which those with a number have {few} to {many}"

    def _written(self, of: Candidates) -> list[str]:
        return [self.design.written[place][value] for place, value in zip(self.places, of.values, strict=True)]

    def _samples(self, metric: Metric) -> str:
        """What a metric is measured on: the test set, or clients' own; nothing where it is neither."""
        if metric.quantity == "train_loss" or metric.quantity.startswith(OF_METHOD):
            return ""
        settings = [each.settings for one in self.design.sets for each in one.runs]
        apart = not any(each.get("local_test_from") == "test" or each.get("data.merge") == "true" for each in settings)
        return "own" if metric.quantity in _OWN and apart else "test"


def chosen(by: Metric, for_each: Sequence[str], design: Design) -> Chosen:
    """Read what settings are chosen by, and which options of training are not chosen but have a choice for each value.

    Raises:
        ConfigError: an option is none that varies, or there is nothing to choose.
    """
    if design.keys == (ROW,):
        raise ConfigError("--chosen_by", f"{by.text}, but --rows leaves no options to choose by", "one of them")
    named = set[int]()
    for text in for_each:
        if (place := design.place_of(text)) is None:
            accepted = ", ".join(design.names) or "runs that differ"
            raise ConfigError("--for_each", f"{text}: no option that varies among the runs", accepted)
        named.add(place)
    kept = tuple(place for place, key in enumerate(design.keys) if place in named or not _is_tuned(key))
    if design.sets and len(kept) == len(design.keys):
        what = f"{by.text}: nothing varies that it could choose"
        raise ConfigError("--chosen_by", what, "runs that differ in options of the method, the optimizer, lr and so on")
    return Chosen(by, design, kept)


def _is_tuned(key: str) -> bool:
    return key in _TUNED or key.startswith(_TUNED_OF)
