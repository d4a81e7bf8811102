"""What is asked for of a paper's table; all other options go to its runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fl_ddp.errors import ConfigError
from launch.input.declared import Folder, Form, Name

TableName = Annotated[str, Form("PAPER/TABLE", accepted="one that --list shows, or the path of a *.table.yaml file")]


@dataclass(frozen=True)
class ReproduceOptions:
    """The table, and what of it.

    Attributes:
        table: importance/table3, say, or the path of a *.table.yaml file.
        row: only these rows: group/row, a row in all groups, or a whole group.
        small: the scaled-down twins: minutes on two cores, for the orderings only.
        seeds: to run, 0..2 or 0,3,5 [0..2; 0 with --small]; the table has finished ones of others too.
        out: runs go to DIR/<paper>/<table>[-small]/<group>-<row>-seed<k>, results beside them.
        dry_run: print the commands and stop.
        report: run nothing, print what there is.
        list: list all tables, with what they cost.
    """

    table: TableName
    row: tuple[Name, ...] = ()
    small: bool = False
    seeds: str | None = None
    out: Folder = "reproduce"
    dry_run: bool = False
    report: bool = False
    list: bool = False

    def __post_init__(self) -> None:
        _ = self.seeds_of_runs

    @property
    def seeds_of_runs(self) -> tuple[int, ...]:
        """All seeds, given or not.

        Raises:
            ConfigError: they are not written as seeds are.
        """
        return read_seeds(self.seeds or ("0" if self.small else "0..2"))


def read_seeds(text: str) -> tuple[int, ...]:
    """Seeds written as 0..2 or 0,3,5.

    Raises:
        ConfigError: they are written otherwise.
    """
    wrong = ConfigError("--seeds", f"{text} are no seeds", "0..2, or 0,3,5")
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first), int(last) + 1) if dots else [int(each) for each in text.split(",")]
    except ValueError:
        raise wrong from None
    if not seeds or min(seeds) < 0 or len(seeds) > 1000:
        raise wrong
    return tuple(dict.fromkeys(seeds))
