"""The list of all tables that come with the project: configs/README.md."""

from __future__ import annotations

from fl_ddp.host.text_table import TextTable
from launch.tables.rows import Table

_COLUMNS = ("table", "what it is", "settings", "runs", "cost")

_HEAD = """# Recipes

Each folder is a paper: base configurations, which `python -m fl_ddp.main --config` takes, and a file for each table or
figure, `<table>.table.yaml`: its rows as options over a base configuration, the paper's numbers, a scaled-down twin and
the orderings that must show.

```
python -m launch.reproduce importance/table3 --data.root data --data.download true
python -m launch.reproduce importance/table3 --small --data.root data --data.download true
```

The first makes the runs of a table with three seeds each, one after another, and prints our numbers beside the paper's;
the second does so with the scaled-down twins, where only the orderings can be compared. Finished runs are skipped,
unfinished ones go on. `--row fedavg` picks rows, `--dry_run` prints the commands, `--help` tells the rest. Rows of
several tables that are the same run share it. This page is what `python -m launch.reproduce --list` prints.

Groups follow the paper's text, those with `_code` its official code where that differs. Accuracies are percent;
`running_mean@10` is the mean of the accuracies of rounds 1 to 10, `ema0.995` a debiased exponential mean over rounds,
`final` the accuracy itself, `last10` the mean of the last ten rounds, `rounds_to 0.85` the first round that reaches
85 %. Costs are local steps of all clients together, for one seed; those of the twins are times on two cores.
"""


def recipe_list(tables: list[Table]) -> str:
    """The page, Markdown."""
    lines = [_HEAD]
    for paper in dict.fromkeys(table.paper for table in tables):
        rows = [_cells(table) for table in tables if table.paper == paper]
        lines += [f"## {paper}", "", *TextTable(_COLUMNS, rows, flush_left=len(_COLUMNS)).markdown(), ""]
    return "\n".join(lines).rstrip() + "\n"


def _cells(table: Table) -> tuple[str, ...]:
    own = len({row.run for row in table.rows if row.table == table.name})
    homes = sorted({row.table.rpartition("/")[2] for row in table.rows} - {table.name.rpartition("/")[2]})
    shared = f"{len(table.rows) - own} of {', '.join(homes)}" if homes else ""
    runs = " + ".join(part for part in (str(own) if own else "", shared) if part)
    return f"`{table.name}`", f"{table.item}: {table.title}", ", ".join(table.groups), runs, table.cost
