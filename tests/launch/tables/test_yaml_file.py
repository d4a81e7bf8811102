"""Tables as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_table import TABLE, write_table

from fl_ddp.errors import ConfigError
from launch.tables.yaml_file import load_table


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of three rows, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return write_table(tmp_path)


def change(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (change("title: a tiny table\n", ""), "title: is missing"),
        (change("orderings:", "ordering:"), "ordering: unknown key; did you mean orderings?"),
        (change("running_mean@2", "runing_mean@2"), "columns.early: 'runing_mean@2' is no metric"),
        (change("{early: 20,", "{erly: 20,"), "rows.fedavg.expect.erly: there is no such column; did you mean early?"),
        (change("{early: 20,", "{early: much,"), "rows.fedavg.expect.early: 'much' is not a number"),
        (change("base: base.yaml", "base: bas.yaml"), "groups.digits.base:"),
        (change("    base: base.yaml\n", ""), "groups.digits.base: is missing"),
        (change("base: base.yaml", "base: base.yaml\n    variant: cod"), "groups.digits.variant: cod is unknown"),
        (change("      slow:", "      fedavg:"), "fedavg stands here a second time"),
        (change("fedavg > slow", "fedavg > slo"), "orderings[0].order: no group has all of the rows fedavg, slo"),
        (change("slow, column: end, small", "slow, column: ed, small"), "orderings[0].column.ed: there is no such"),
        (change("slow > fedavg,", "slow ~ fedavg, tolerance: -1,"), "orderings[1].tolerance: -1.0 is impossible"),
        (change("slow > fedavg,", "slow ~ fedavg,"), "orderings[1].tolerance: is missing; < and > are strict"),
        (change("remark:", "tolerance: 2, remark:"), "orderings[1].tolerance: belongs to ~ alone"),
        (change("{tolerance: 40}", "2"), "orderings[1].before: 2 is not a mapping"),
        (change("{tolerance: 40}", "{}"), "orderings[1].before.tolerance: is missing"),
        (change("{tolerance: 40}", "{tolerance: -1}"), "orderings[1].before.tolerance: -1.0 is impossible"),
        (change("{tolerance: 40}", "{tolerance: x}"), "orderings[1].before.tolerance: 'x' is not a number"),
        (change("{tolerance: 40}", "{tolerance: 1, mean: 1}"), "orderings[1].before.mean: unknown key"),
        (change("small: true", "small: maybe"), "orderings[0].small: 'maybe' is unknown"),
        (change("/ fedavg", "/ fedavgg"), "group digits has no row fedavgg"),
        (change("broken: {lr: 1000000.0,", "broken: {run: table2/a/b,"), "table2/a/b is no run"),
        (change("id: tiny_t1", "id: [1"), "not YAML"),
    ],
)  # fmt: skip
def test_errors_in_a_table_name_file_and_key(table: str, edit: Callable[[str], str], message: str) -> None:
    assert edit(TABLE) != TABLE
    Path(table).write_text(edit(TABLE))
    with pytest.raises(ConfigError) as error:
        load_table(table)
    assert str(error.value).startswith(table) and message in str(error.value) and "\n" not in str(error.value)


def test_rows_may_be_runs_of_another_table(table: str) -> None:
    text = TABLE.replace("slow: {lr: 0.0001, small: {clients: 3}}", "slow: {run: table1/digits/slow, expect: {end: 3}}")
    Path("tiny/table2.table.yaml").write_text(text)
    row = load_table("tiny/table2.table.yaml").choose(["slow"])[0]
    assert (row.table, row.run, row.options["lr"], row.expected) == ("tiny/table1", "digits-slow", 0.0001, {"end": 3})
    Path(table).write_text(TABLE.replace("{lr: 1000000.0,", "{run: table2/digits/slow,"))
    with pytest.raises(ConfigError, match="has no run digits/slow of its own"):
        load_table(table)
