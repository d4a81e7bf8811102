"""A table of three rows that takes seconds."""

from __future__ import annotations

from pathlib import Path

BASE = """
data: Digits
partition: Shards
model: {name: MLP, hidden: 8}
clients: 6
rounds: 3
batch_size: 20
compile: false
device: cpu
"""
TABLE = """
id: tiny_t1
paper: Nobody 2026
item: Table 1
title: a tiny table
cost: seconds
note: Nothing is left out.
columns:
  early: [running_mean@2, final@2]
  end: final
  rounds: rounds_to 0.05 of best
  ratio: rounds_to 0.05 of best / fedavg
small:
  options: {rounds: 1}
  columns: {early: final}
groups:
  digits:
    base: base.yaml
    rows:
      fedavg: {expect: {early: 20, end: 50}}
      slow: {lr: 0.0001, small: {clients: 3}}
      broken: {lr: 1000000.0, expect: {end: 1}}
orderings:
  - {order: fedavg > slow, column: end, small: true}
  - {order: slow > fedavg, column: end, before: {tolerance: 40}, remark: the wrong way round}
  - {order: fedavg > broken, column: end}
"""
TINY = "tiny/table1.table.yaml"


def write_table(folder: Path) -> str:
    """Write table and base configuration below a folder; the table's path from there."""
    (folder / "tiny").mkdir()
    (folder / "tiny" / "base.yaml").write_text(BASE)
    (folder / TINY).write_text(TABLE)
    return TINY
