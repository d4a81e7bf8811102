"""The command line of launch.reproduce; what is not its own goes on to fl_ddp.main."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_ddp.errors import ConfigError
from launch.executor import EXECUTOR_HELP, EXECUTOR_SWITCHES, EXECUTOR_VALUES, Executor, read_executor
from launch.input import words

HELP = f"""usage: python -m launch.reproduce PAPER/TABLE [--option value ...]
       python -m launch.reproduce --list

Runs the rows of a paper's table one after another, skips those that are finished, goes on with those that are not, and
prints our numbers beside the paper's, with the verdict on every ordering that must show.

  PAPER/TABLE           importance/table3, say, or the path of a *.table.yaml file
  --row NAME            only these rows: group/row, a row in all groups, or a whole group; may be given several times
  --small               the scaled-down twins: minutes on two cores, for the orderings only
  --seeds SEEDS         0..2, or 0,3,5 [0..2; 0 with --small]
  --out DIR             runs go to DIR/<paper>/<table>[-small]/<group>-<row>-seed<k>, results beside them [reproduce]
  --dry_run             print the commands and stop
  --report              run nothing, print what there is
  --list                list all tables, with what they cost
  --help                print this and stop
{EXECUTOR_HELP.format(parallel="1; with slurm all")}

Other options go on to every run, over those of its row: --data.root DIR, --data.download true, --device cuda;
python -m fl_ddp.main --help lists them. Runs on data that come with the package are not told where data lie.
Ctrl-C stops after the current round; the same command goes on.
Exit codes: 0 done, 1 a run failed or was stopped, 2 the input cannot be run."""

_SWITCHES = ("small", "dry_run", "report", "list", "help", *EXECUTOR_SWITCHES)
_VALUES = ("row", "seeds", "out", *EXECUTOR_VALUES)
_OURS = {"seed": "--seeds", "name": "--out", "resume": "nothing: what is unfinished goes on", "config": "a table"}


@dataclass(frozen=True)
class Arguments:
    """What the user asked for.

    Attributes:
        table: name or path; empty with --list and --help.
        rows: names of rows and groups; none means all.
        seeds: of the runs.
        executor: where and how the runs are made.
        out: folder of all papers.
        switches: those that are on.
        extra: options of fl_ddp.main: --key=value, or --key alone.
    """

    table: str
    rows: tuple[str, ...]
    seeds: tuple[int, ...]
    executor: Executor
    out: Path
    switches: frozenset[str]
    extra: tuple[str, ...]


def read_arguments(line: Sequence[str]) -> Arguments:
    """Read a command line.

    Raises:
        ConfigError: it cannot be understood.
    """
    split = words.split(line, _VALUES, _SWITCHES, _OURS)
    tables, on = split.free, split.switches
    if not tables and not on & {"list", "help"}:
        raise ConfigError("PAPER/TABLE", "is missing; --list shows all, --help what can be given")
    if len(tables) > 1:
        raise ConfigError(tables[1], f"belongs to no option; one table at a time ({tables[0]} is named already)")
    return Arguments(
        table="".join(tables),
        rows=split.values["row"],
        seeds=read_seeds(split.last("seeds", "0" if "small" in on else "0..2")),
        executor=read_executor(split, parallel=1),
        out=Path(split.last("out", "reproduce")),
        switches=on,
        extra=split.extra,
    )


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
