"""A metric of all settings with a column for each value of one option, as papers have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fl_ddp.errors import ConfigError
from fl_ddp.host.text_table import TextTable
from launch.compare.replicates import Design, Replicates, in_order
from launch.numbers.metric import Metric
from launch.numbers.reading import reached, standing


@dataclass(frozen=True)
class Across:
    """The option whose values are columns.

    Attributes:
        design: of all settings.
        place: of the option among its keys.
    """

    design: Design
    place: int

    @property
    def name(self) -> str:
        """Of the option, as short as it can be told apart."""
        return self.design.names[self.place]

    def table(self, metric: Metric, cell: Callable[[Replicates], str]) -> tuple[TextTable, list[tuple[int, int]]]:
        """A row for each combination of the other options' values, and which cells are the best of their columns."""
        columns = sorted({each.values[self.place] for each in self.design.sets}, key=in_order)
        others = [index for index in range(len(self.design.keys)) if index != self.place]
        rows = dict[tuple[str, ...], dict[str, Replicates]]()
        for each in self.design.sets:
            rows.setdefault(tuple(each.values[index] for index in others), {})[each.values[self.place]] = each
        rows = {values: rows[values] for values in sorted(rows, key=lambda values: list(map(in_order, values)))}
        head = [self.design.names[index] for index in others]
        written = self.design.written[self.place]
        head += [f"{self.name}={written[value]}" if value else f"no {self.name}" for value in columns]
        cells = list[list[str]]()
        for values, of in rows.items():
            named = [self.design.written[index][value] for index, value in zip(others, values, strict=True)]
            cells.append([*named, *(cell(of[value]) if value in of else "-" for value in columns)])
        best = list[tuple[int, int]]()
        for column, value in enumerate(columns, len(others)):
            marked = best_of([of[value] for of in rows.values() if value in of], metric)
            best += [(row, column) for row, of in enumerate(rows.values()) if of.get(value) in marked]
        return TextTable(head, cells, flush_left=len(others)), best


def across(text: str, design: Design) -> Across:
    """Read which option's values are to be columns, such as partition.alpha, or alpha where that is one's alone.

    Raises:
        ConfigError: it is none that varies.
    """
    if (place := design.place_of(text)) is None:
        accepted = ", ".join(design.names) or "runs that differ"
        raise ConfigError("--across", f"{text}: no option that varies among the runs", accepted)
    return Across(design, place)


def best_of(sets: Sequence[Replicates], metric: Metric) -> tuple[Replicates, ...]:
    """The finished ones with the best mean of a metric, if there are others which have another."""
    readings = {each: found for each in sets if each.ended and (found := each.numbers(metric))}
    if not any(map(reached, readings.values())):
        return ()
    places = {each: standing(found, less_is_better=metric.less_is_better) for each, found in readings.items()}
    highest = max(places.values())
    best = tuple(each for each, place in places.items() if place == highest)
    return best if len(best) < len(places) else ()
