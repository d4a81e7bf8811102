"""A comparison as text for the terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from fl_ddp.host.text_table import TextTable
from launch.numbers.spread import DIGITS, shown, with_spread
from launch.tables.comparison import Comparison, Judged, Numbers
from launch.tables.origin import ResultsOrigin, origin_lines

_HEAD = ("row", "variant", "column", "paper", "ours", "difference", "seeds", "metric", "also")


def terminal(comparison: Comparison) -> str:
    """Aligned columns, a line for each row and column, and a line for each ordering; rows without a run are named."""
    return "\n".join([_title(comparison), "", *_table(comparison).aligned(), "", *_verdicts(comparison)])


def markdown(comparison: Comparison, origin: ResultsOrigin) -> str:
    """The same as a page, with where it comes from."""
    table = comparison.table
    verdicts = [f"- {line.removeprefix('ordering ')}" for line in _verdicts(comparison)]
    note = [table.note, ""] if table.note else []
    rows = _table(comparison).markdown()
    made = [f"- {line}" for line in origin_lines(origin)]
    page = [f"# {_title(comparison)}", "", f"{table.paper}", "", *made, "", *note, *rows, "", *verdicts]
    return "\n".join(page).rstrip() + "\n"


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
                ", ".join(_beside(each, len(compared.by_seed)) for each in others if each.by_seed),
            ])  # fmt: skip
    return TextTable(_HEAD, rows, flush_left=len(_HEAD))


def _beside(numbers: Numbers, seeds: int) -> str:
    """One more metric of a column; it says so where another number of seeds has it."""
    own = len(numbers.by_seed)
    of = "" if own == seeds else f" ({own} seed{'s' * (own != 1)})"
    return f"{numbers.metric.text} {with_spread(numbers.by_seed.values(), numbers.metric.unit)}{of}"


def _verdicts(comparison: Comparison) -> Sequence[str]:
    left_out = [filled.row.full_name for filled in comparison.rows if not filled.started]
    lines = [f"without a run: {', '.join(left_out)}"] if left_out else []
    begun = {filled.row.group for filled in comparison.rows if filled.started}
    lines += [f"ordering {verdict_line(each)}" for each in comparison.judged if each.group in begun]
    return lines


def verdict_line(judged: Judged) -> str:
    """An ordering, its verdict, in how many seeds it shows, why not, what may be chance, its former rule's verdict."""
    order, decision = judged.ordering, judged.decision
    slack = f", tolerance {order.tolerance:g}" if order.tolerance else ""
    number = len(decision.seeds)
    counts = f"{len(decision.showing)} of {number} seeds" if number > 1 else ""
    unsure = f"may be chance: {', '.join(decision.by_chance)}" if decision.by_chance else ""
    why = "; ".join(part for part in (counts, decision.why, unsure) if part)
    in_one = " in the one seed" if number == 1 else ""
    now = f"{judged.group}: {order.text} [{order.column}{slack}]: {decision.verdict}{in_one}"
    before = ""
    if judged.formerly:
        before = f"formerly, with a tolerance of {order.tolerance_before:g}: {judged.formerly}{in_one}"
    return "; ".join(part for part in (f"{now} ({why})" if why else now, before, order.remark) if part)
