"""The command line of launch.sweep; what is not its own goes on to the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_ddp.errors import ConfigError
from launch.executor import EXECUTOR_HELP, EXECUTOR_SWITCHES, EXECUTOR_VALUES, Executor, read_executor
from launch.input import words
from launch.sweeps.points import Axis, read_grid

HELP = f"""usage: python -m launch.sweep --config FILE --grid method.lam=0.1,1,10 --grid seed=0..4 [--option value ...]

Makes a run for each point, in a folder of its own. A second call skips what is finished, goes on with what is not and
lists what failed; python -m launch.results sweeps/<name> shows the numbers.

  --grid KEY=VALUES     0.1,1,10 or 0..4 or [64,32],[128] or 'a,b',c; several of them are combined
  --points FILE         points from a list: .csv with a head of keys, or .yaml with a list of mappings
  --random N            N points drawn at random, by the law of each --draw
  --draw KEY=LAW        uniform(0.01,0.1), loguniform(1e-3,10) or choice(1,2,3)
  --draw_seed SEED      of the draws: the same ones come again; more of them begin with the same ones [0]
  --name NAME           of the sweep [that of the file of --config]
  --out DIR             folder of all sweeps [sweeps]
  --retry               run the failed points, and these alone
  --dry_run             print the commands and stop
  --help                print this and stop
{EXECUTOR_HELP.format(parallel="as many as there are GPUs or cores for; with slurm all")}

--grid, --points and --random are combined: --random 20 ... --grid seed=0..2 are 60 points. Without any of them the
sweep's points so far are meant, and its options: --name NAME goes on, --name NAME --retry tries again.
All other options go to every run; python -m fl_ddp.main --help lists them.
Ctrl-C stops all runs after their current round; the same command goes on. A second Ctrl-C quits at once.
Exit codes: 0 done, 1 a run failed or was stopped, 2 the input cannot be run."""

_SWITCHES = ("retry", "dry_run", "help")
_VALUES = ("grid", "points", "random", "draw", "draw_seed", "name", "out")
_OURS = {"resume": "nothing: what is unfinished goes on"}


@dataclass(frozen=True)
class Arguments:
    """What the user asked for.

    Attributes:
        axes: whose combinations are the points; none means those of the sweep so far.
        folder: of the sweep.
        base: options of all runs: --key=value, or --key alone.
        executor: where and how the runs are made.
        retry: run what failed, and nothing else.
        dry_run: print commands only.
        help: print HELP only.
    """

    axes: tuple[Axis, ...]
    folder: Path
    base: tuple[str, ...]
    executor: Executor
    retry: bool
    dry_run: bool
    help: bool


def read_arguments(line: Sequence[str]) -> Arguments:
    """Read a command line.

    Raises:
        ConfigError: it cannot be understood.
    """
    split = words.split(line, (*_VALUES, *EXECUTOR_VALUES), (*_SWITCHES, *EXECUTOR_SWITCHES), _OURS)
    if split.free:
        raise ConfigError(split.free[0], "belongs to no option; write --option value")
    return Arguments(
        axes=() if "help" in split.switches else _axes(split),
        folder=Path(split.last("out", "sweeps")) / _name(split),
        base=split.extra,
        executor=read_executor(split, parallel=None),
        **{key: key in split.switches for key in _SWITCHES},
    )


def _axes(split: words.Words) -> tuple[Axis, ...]:
    """What --points, --random and --grid vary; seeds mostly come by --grid, and so change fastest."""
    from launch.sweeps.draws import draw, read_laws  # take seconds to import: --help need not wait for them
    from launch.sweeps.point_file import read_points

    laws = read_laws(split.values["draw"])
    number = split.last("random", "")
    for key in ("draw", "draw_seed"):
        if split.values[key] and not number:
            raise ConfigError(f"--{key}", "says what to draw, but not how often; give --random N")
    drawn = []
    if number:
        seed = words.whole_number("draw_seed", split.last("draw_seed", "0"), least=0)
        drawn = [draw(words.whole_number("random", number), laws, seed)]
    return (
        *(read_points(Path(file)) for file in split.values["points"]),
        *drawn,
        *map(read_grid, split.values["grid"]),
    )


def _name(split: words.Words) -> str:
    configs = [each.removeprefix("--config=") for each in split.extra if each.startswith("--config=")]
    name = split.last("name", Path(configs[-1]).stem if configs else "")
    if not name and "help" not in split.switches:
        raise ConfigError("--name", "is missing; the sweep needs a name, or a --config that lends it one")
    if name and (Path(name).name != name or name == ".."):
        raise ConfigError("--name", f"{name!r} is not the name of a folder; its place is given with --out")
    return name
