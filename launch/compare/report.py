"""Replicates as a table: for the terminal, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fl_ddp.host.text_table import TextTable
from launch.compare.across import Across, best_of
from launch.compare.chosen import Chosen
from launch.compare.found_runs import Finds
from launch.compare.other_decoders import by_other_decoders
from launch.compare.other_samples import on_other_samples
from launch.compare.paired import Against, Paired
from launch.compare.replicates import VERSION, Design, Replicates
from launch.numbers.metric import Metric
from launch.numbers.reading import reached, values_of
from launch.numbers.spread import mean, spread, spread_of, with_spread
from launch.run.edited import differing_versions

_UNLIKE = {
    "eval_every": "and means over rounds, bests, forgetting, rounds to a target and @ are of those looked at",
    "stop_at": "so that some runs may have ended sooner",
    "patience": "so that some runs may have ended sooner",
}
"""What it does to numbers if runs differ in an option that may change as a run goes on."""


@dataclass(frozen=True)
class Results:
    """What is to be shown.

    Attributes:
        title: the folders that were read.
        design: of all runs in them.
        metrics: a column each; the first says which replicates are best.
        finds: what else lies in the folders.
        against: what settings are compared with, if with anything.
        compared: how many of the metrics were asked for, from the first on; they are compared by these.
        across: the option whose values are columns of a second table, if there is to be one.
        chosen: what a second table has the best settings by, likewise.
    """

    title: str
    design: Design
    metrics: tuple[Metric, ...]
    finds: Finds
    against: Against | None
    compared: int
    across: Across | None
    chosen: Chosen | None = None

    @cached_property
    def differences(self) -> Mapping[Metric, Mapping[Replicates, Paired | str]]:
        """Of each setting from what it is compared with, by metric; nothing where none was asked for."""
        there, metrics = self.against, self.metrics[: self.compared]
        return {m: {each: there.paired(each, m) for each in self.design.sets} for m in metrics} if there else {}

    @cached_property
    def best(self) -> tuple[Replicates, ...]:
        """The finished replicates with the best mean of the first metric, if there are others which have another."""
        return best_of(self.design.sets, self.metrics[0])


def terminal(results: Results) -> str:
    """Aligned columns, and a line for each combination of values."""
    if not results.design.sets:
        return "\n".join([results.title, *_notes(results)])
    lines = [results.title, "", *_table(results).aligned()]
    if results.across:
        title, table, best = _second(results, results.across)
        lines += ["", title, "", *_marked(table, best).aligned()]
    if results.chosen:
        lines += ["", results.chosen.title, "", *_choices(results, results.chosen).aligned()]
    return "\n".join([*lines, *_notes(results)])


def markdown(results: Results, command: str, figures: Sequence[str]) -> str:
    """The same as a page.

    Args:
        results: to show.
        command: that made the page.
        figures: names of image files beside it.
    """
    table = [*_table(results).markdown(), ""] if results.design.sets else []
    if results.across:
        title, second, best = _second(results, results.across)
        table += [f"{title}:", "", *_marked(second, best).markdown(), ""]
    if results.chosen:
        table += [f"{results.chosen.title}:", "", *_choices(results, results.chosen).markdown(), ""]
    images = [line for name in figures for line in (f"![{Path(name).stem}]({name})", "")]
    notes = [f"- {note}" for note in _notes(results) if note]
    page = [f"# {results.title}", "", f"`{command}`", "", *table, *notes, "", *images]
    return "\n".join(page).rstrip() + "\n"


def latex(results: Results, command: str) -> str:
    """Settings and metrics, without costs, or the second table, if there is one; comments say what is to be known."""
    across, choice, sets, mark = results.across, results.chosen, results.design.sets, "bold"
    if across:
        results = replace(results, metrics=results.metrics[:1], against=None)
        title, table, best = _second(results, across, mark)
        notes = [*_notes(results, best=None, costs=""), title]
    elif choice:
        results = replace(results, metrics=results.metrics[: results.compared], against=None)
        table, best = _choices(results, choice), []
        notes = [*_notes(results, best=None, costs=""), choice.title]
    else:
        notes = _notes(results, best=mark, costs="")
        rows = [[*results.design.shown(each), *_cells(results, each)] for each in sets]
        table = TextTable([*results.design.names, *_columns(results)], rows, flush_left=len(results.design.keys))
        best = [(row, table.flush_left) for row, each in enumerate(sets) if each in results.best]
    lines = [f"% {' '.join(note.splitlines())}" for note in (command, *notes, r"\usepackage{booktabs}") if note]
    return "\n".join([*lines, *(table.latex(best) if sets else [])]) + "\n"


def as_csv(results: Results) -> str:
    """The same lines with all digits.

    Beside a metric's mean and spread stands how many runs they are of, and how many of these did not miss a target; of
    one that did the mean has one round more than the run. A difference's round is the one after which both settings
    were read, where one of them went on.
    """
    counts = ("seeds", "finished", "running", "stopped", "failed", "rounds_least", "rounds_most")
    totals = ("traffic_up_bytes", "traffic_down_bytes")
    metrics = dict.fromkeys([*results.metrics, *([results.chosen.by] if results.chosen else [])])
    names = [metric.text.replace(" ", "_") for metric in metrics]
    columns = [f"{name}_{part}" for name in names for part in ("mean", "spread", "runs", "reached")]
    columns += [f"{name}_{part}" for name in (*totals, "seconds") for part in ("mean", "spread")]
    for place, _ in enumerate(results.differences):
        whose = f"{names[place]}_" if place else ""
        columns += [f"{whose}difference_{part}" for part in ("mean", "low", "high", "seeds", "better", "round")]
    columns += ["chosen_among"] if results.chosen else []
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*results.design.keys, *counts, *columns))
    for replicates in results.design.sets:
        rounds = [each.run.rounds for each in replicates.runs]
        states = [replicates.states.get(state, 0) for state in ("finished", "running", "stopped", "failed")]
        numbers = [replicates.numbers(metric) for metric in metrics]
        parts: list[object] = []
        for found in numbers:
            parts += [mean(values_of(found)), spread_of(found), len(found), reached(found)]
        costs = [*map(replicates.totals, totals), replicates.seconds]
        parts += [part for values in costs for part in (mean(values), spread(values))]
        for of_each in results.differences.values():
            beside = of_each[replicates]
            parts += _in_columns(beside) if isinstance(beside, Paired) else [None] * 6
        parts += [results.chosen.among(replicates)] if results.chosen else []
        table.writerow((*replicates.values, len(replicates.runs), *states, min(rounds), max(rounds), *parts))
    return text.getvalue()


def _table(results: Results) -> TextTable:
    """A row for each combination of values; the best are marked."""
    rows = []
    for replicates in results.design.sets:
        first, *others = _cells(results, replicates)
        numbers = [first + (" *" if replicates in results.best else ""), *others]
        traffic = [_megabytes(replicates.totals(column)) for column in ("traffic_up_bytes", "traffic_down_bytes")]
        counts = [str(len(replicates.runs)), _state(replicates), _rounds(replicates)]
        rows.append([*results.design.shown(replicates), *counts, *numbers, *traffic, _time(replicates.seconds)])
    head = [*results.design.names, "seeds", "state", "rounds", *_columns(results), "MB up", "MB down", "time"]
    return TextTable(head, rows, flush_left=len(results.design.keys))


def _second(results: Results, across: Across, mark: str = "*") -> tuple[str, TextTable, list[tuple[int, int]]]:
    """The table whose columns are values of an option: what it has, itself, and which cells are the best of theirs."""
    metric = results.metrics[0]
    table, best = across.table(metric, lambda each: _number(each, metric))
    return f"{_column(metric)} by {across.name}" + (f"; {mark}: best of its column" if best else ""), table, best


def _choices(results: Results, chosen: Chosen) -> TextTable:
    """The table of the settings that were chosen."""
    return chosen.table(results.metrics[: results.compared], _column, _number)


def _marked(table: TextTable, best: Sequence[tuple[int, int]]) -> TextTable:
    """The table with a mark behind some cells."""
    rows = [
        [cell + (" *" if (row, column) in best else "") for column, cell in enumerate(cells)]
        for row, cells in enumerate(table.rows)
    ]
    return replace(table, rows=rows)


def _column(metric: Metric) -> str:
    """A metric with its unit."""
    return metric.text + {"percent": " %", "dB": " dB", "MB": " MB", "s": " s"}.get(metric.unit, "")


def _columns(results: Results) -> list[str]:
    """Names of the metrics, and of what is told of differences."""
    names = list[str]()
    for metric in results.metrics:
        names.append(_column(metric))
        if results.against and metric in results.differences:
            names += [f"vs {results.against.text}" if len(names) == 1 else "vs that", "better in"]
    return names


def _cells(results: Results, replicates: Replicates) -> list[str]:
    """What stands in these columns."""
    cells = list[str]()
    for metric in results.metrics:
        cells.append(_number(replicates, metric))
        if of_each := results.differences.get(metric):
            cells += _difference(of_each[replicates], metric)
    return cells


def _in_columns(found: Paired) -> list[object]:
    return [found.mean, *(found.interval or (None, None)), len(found.by_seed), found.better, found.after]


def _difference(found: Paired | str, metric: Metric) -> tuple[str, str]:
    """How far a setting is from what it is compared with, and in how many seeds it is better."""
    if isinstance(found, str):
        return "-", "-"
    alike = f", {found.alike} alike" if found.alike else ""
    return found.shown(metric.unit), f"{found.better} of {len(found.by_seed)}{alike}"


def _notes_on(there: Against, results: Results) -> list[str]:
    """What the differences are, where there is none, and after which rounds they are where one setting went on."""
    by = f", by {results.metrics[0].text}" if len(results.differences) == 1 < len(results.metrics) else ""
    notes = [
        f"vs {there.text}: the mean over seeds of the difference in each{by}, and its 95 % confidence interval "
        "(Student's t)"
    ]
    told: dict[str, list[str]] = {}
    for metric, of_each in results.differences.items():
        for each, found in of_each.items():
            if isinstance(found, str) and found:
                why = f"nothing to compare it with, {found}"
            elif isinstance(found, Paired) and found.after is not None:
                why = f"both as after round {found.after} in the comparison"
            else:
                continue
            told.setdefault(f"{_whose(each, results.design)}: {why}", []).append(metric.text)
    for note, metrics in told.items():
        notes.append(note if len(metrics) == len(results.differences) else f"{note} (by {', '.join(metrics)})")
    return notes


def _number(replicates: Replicates, metric: Metric) -> str:
    """Mean and spread; in brackets where no run is finished."""
    found = replicates.numbers(metric)
    text = with_spread(found, metric.unit)
    if 0 < len(found) < len(replicates.counted):
        text += f" ({len(found)} of {len(replicates.counted)})"
    if metric.target is not None and text == "-" and (few := replicates.reached(metric)):
        text = f"reached by {few} of {len(replicates.counted)}"
    return text if replicates.ended or text == "-" else f"({text})"


def _at(metric: Metric, number: int) -> str:
    """The metric as it is asked for of a round."""
    statistic, of, quantity = metric.text.partition(" of ")
    if statistic.startswith(metric.statistic):
        return f"{statistic}@{number}{of}{quantity}"
    return f"{metric.statistic}@{number} of {metric.text}"


def _notes(
    results: Results,
    *,
    best: str | None = "*",
    costs: str = "; traffic and time are means of one run, time without compiling",
) -> list[str]:
    """What the columns mean, and what is not in the table."""
    notes = ["", f"mean ± standard deviation over seeds{costs}"]
    if not results.design.sets:
        notes = ["", "no run counts" if results.design.differing else "no run has begun"]
    if best and results.best:
        notes.append(f"{best}: best by {results.metrics[0].text}")
    first = results.metrics[0]
    lengths = sorted({max((run.wanted for run in each.counted), default=0) for each in results.design.sets} - {0})
    if len(lengths) > 1 and first.round is None and first.target is None and not first.relative_to:
        rounds = f"{', '.join(map(str, lengths[:-1]))} and {lengths[-1]}"
        notes.append(f"settings are of {rounds} rounds; --metric '{_at(first, lengths[0])}' shows all after as many")
    if any(0 < len(each.numbers(m)) < len(each.counted) for each in results.design.sets for m in results.metrics):
        notes.append("(1 of 3): the number of one seed, which the runs of the others do not have")
    if results.against:
        notes += _notes_on(results.against, results)
    if any(not each.ended and each.numbers(m) for each in results.design.sets for m in results.metrics):
        notes.append("in brackets: the run of no seed is finished; as after the last round that all of them have")
    if any(each.ended and each.states.get("finished") != len(each.runs) for each in results.design.sets):
        notes.append("where the runs of some seeds are finished, numbers are of these alone")
    for each in results.design.sets:
        if each.shortened:
            asked = ", ".join(map(str, sorted({run.wanted for run in each.counted})))
            ends = {each.last_of(metric) for metric in results.metrics if metric.target is None} or {each.last}
            rounds = " or ".join(map(str, sorted(ends)))
            notes.append(
                f"{_whose(each, results.design)}: as after round {rounds}, though seeds were asked for {asked} rounds"
            )
    seeds = {tuple(sorted({run.seed for run in each.counted})) for each in results.design.sets} - {()}
    if len(seeds) > 1:
        few = min(map(len, seeds))
        notes.append(f"settings are of different seeds, the fewest of {few}; --against compares those in common")
    notes += results.chosen.notes(results.metrics[: results.compared]) if results.chosen else []
    notes += _unlike(results.design)
    if again := [run for each in results.design.sets for run in each.once.again]:
        notes.append(f"counted once, as their results are the same: {', '.join(str(run.run.folder) for run in again)}")
    notes += [f"left out: {each}" for each in results.design.differing]
    notes += on_other_samples([run for each in results.design.sets for run in each.runs])
    if VERSION not in results.design.keys:
        notes += differing_versions([run.run for each in results.design.sets for run in each.runs])
    if any(metric.of_images for metric in results.metrics):
        notes += by_other_decoders([run for each in results.design.sets for run in each.counted])
    if results.finds.waiting:
        notes.append(f"not begun: {len(results.finds.waiting)} runs")
    return [*notes, *(f"failed: {folder.name}: {why}" for folder, why in results.finds.failed.items())]


def _unlike(design: Design) -> list[str]:
    """In which options runs of a line differ that no column shows, or else lines among each other."""
    notes = list[str]()
    for key, what in (each for each in _UNLIKE.items() if each[0] not in design.keys):
        values = {each: sorted({run.settings.get(key, "null") for run in each.runs}) for each in design.sets}
        told = {_whose(each, design): found for each, found in values.items() if len(found) > 1}
        told = told or {"settings": sorted({one for found in values.values() for one in found})}
        notes += [f"{who}: {key} is {' and '.join(found)}, {what}" for who, found in told.items() if len(found) > 1]
    return notes


def _whose(replicates: Replicates, design: Design) -> str:
    """A setting's name for a note."""
    return ", ".join(filter(None, design.shown(replicates))) or "finished runs"


def _state(replicates: Replicates) -> str:
    if len(replicates.states) == 1:
        return next(iter(replicates.states))
    return ", ".join(f"{number} {state}" for state, number in replicates.states.items())


def _rounds(replicates: Replicates) -> str:
    rounds, wanted = [each.run.rounds for each in replicates.runs], max(each.run.wanted for each in replicates.runs)
    done = str(min(rounds)) if min(rounds) == max(rounds) else f"{min(rounds)}..{max(rounds)}"
    return done if min(rounds) >= wanted else f"{done} of {wanted}"


def _megabytes(values: Sequence[float]) -> str:
    middle = mean(values)
    return "-" if middle is None else f"{middle / 1e6:,.1f}"


def _time(values: Sequence[float]) -> str:
    middle = mean(values)
    if middle is None:
        return "-"
    minutes, seconds = divmod(round(middle), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"
