"""A comparison as text for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from launch.numbers.spread import DIGITS, shown, with_spread
from launch.numbers.text_table import TextTable
from launch.tables.comparison import Cell, Comparison, Judged

_HEAD = ("row", "variant", "column", "paper", "ours", "difference", "seeds", "metric", "also")


def terminal(comparison: Comparison) -> str:
    """Aligned columns, a line for each row and column, and a line for each ordering; rows without a run are named."""
    return "\n".join([_title(comparison), "", *_table(comparison).aligned(), "", *_verdicts(comparison)])


def markdown(comparison: Comparison, command: str) -> str:
    """The same as a page.

    Args:
        comparison: what to show.
        command: that made the runs.
    """
    table = comparison.table
    verdicts = [f"- {line.removeprefix('ordering ')}" for line in _verdicts(comparison)]
    note = [table.note, ""] if table.note else []
    rows = _table(comparison).markdown()
    page = [f"# {_title(comparison)}", "", f"{table.paper}", "", f"`{command}`", "", *note, *rows, "", *verdicts]
    return "\n".join(page).rstrip() + "\n"


def as_json(comparison: Comparison, command: str) -> str:
    """All numbers, those of each seed too, null where the target was missed; a mean is then the least it can be."""
    content = {
        "table": comparison.table.name,
        "id": comparison.table.id,
        "small": comparison.small,
        "command": command,
        "rows": [
            {
                "group": filled.row.group,
                "row": filled.row.name,
                "variant": filled.row.variant,
                "run": f"{filled.row.table}/{filled.row.run}",
                "seeds": list(filled.seeds),
                "columns": {cell.column: _cell_content(cell) for cell in filled.cells},
            }
            for filled in comparison.rows
        ],
        "orderings": [
            {
                "order": judged.ordering.text,
                "column": judged.ordering.column,
                "tolerance": judged.ordering.tolerance,
                "group": judged.group,
                "verdict": judged.decision.verdict,
                "seeds": list(judged.decision.seeds),
                "showing": list(judged.decision.showing),
                "why": judged.decision.why,
                "remark": judged.ordering.remark,
            }
            for judged in comparison.judged
        ],
    }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _title(comparison: Comparison) -> str:
    table = comparison.table
    twin = " (scaled-down twin: only orderings can be compared with the paper)" if comparison.small else ""
    return f"{table.name}: {table.item}, {table.title}{twin}"


def _table(comparison: Comparison) -> TextTable:
    rows = []
    for filled in comparison.rows:
        for cell in filled.cells if filled.started else ():
            compared, *others = cell.numbers
            unit = compared.metric.unit
            rows.append([
                filled.row.full_name,
                filled.row.variant,
                cell.column,
                "" if cell.paper is None else shown(cell.paper, unit),
                with_spread(compared.by_seed.values(), unit),
                "" if cell.difference is None else f"{cell.difference:+.{DIGITS[unit]}f}",
                str(len(compared.by_seed)),
                compared.metric.text,
                ", ".join(
                    f"{each.metric.text} {with_spread(each.by_seed.values(), each.metric.unit)}"
                    for each in others
                    if each.by_seed
                ),
            ])  # fmt: skip
    return TextTable(_HEAD, rows, flush_left=len(_HEAD))


def _verdicts(comparison: Comparison) -> Sequence[str]:
    left_out = [filled.row.full_name for filled in comparison.rows if not filled.started]
    lines = [f"without a run: {', '.join(left_out)}"] if left_out else []
    begun = {filled.row.group for filled in comparison.rows if filled.started}
    lines += [f"ordering {_verdict(each)}" for each in comparison.judged if each.group in begun]
    return lines


def _verdict(judged: Judged) -> str:
    order, decision = judged.ordering, judged.decision
    slack = f", tolerance {order.tolerance:g}" if order.tolerance else ""
    counts = f"{len(decision.showing)} of {len(decision.seeds)} seeds" if decision.seeds else ""
    why = "; ".join(part for part in (counts, decision.why) if part)
    remark = f"; {order.remark}" if order.remark else ""
    return f"{judged.group}: {order.text} [{order.column}{slack}]: {decision.verdict} ({why}){remark}"


def _cell_content(cell: Cell) -> dict[str, object]:
    return {
        "paper": cell.paper,
        "difference": cell.difference,
        "metrics": {
            numbers.metric.text: {
                "mean": numbers.mean,
                "spread": numbers.spread,
                "reached": numbers.reached,
                "by_seed": {str(seed): None if each.missed else each.value for seed, each in numbers.by_seed.items()},
            }
            for numbers in cell.numbers
        },
    }
