"""The command: python -m launch.reproduce importance/table3 runs a paper's table and prints our numbers beside its."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.host.stdout import say
from launch.executor import Executor, ExecutorOptions, array_folder, read_executor
from launch.exit_code import exit_code
from launch.input.help_text import help_text
from launch.input.words import split
from launch.run.planned import PlannedRun
from launch.run.stored import Run
from launch.slurm.options import SlurmOptions
from launch.tables.comparison import Comparison, RunsBySeed, compare
from launch.tables.options import ReproduceOptions
from launch.tables.recipe_list import recipe_list
from launch.tables.report import as_json, markdown, terminal
from launch.tables.row_run import RowRun, plan
from launch.tables.yaml_file import load_table, table_names

HELP = """usage: python -m launch.reproduce PAPER/TABLE [--option value ...]
       python -m launch.reproduce --list

Runs the rows of a paper's table one after another, skips those that are finished, goes on with those that are not, and
prints our numbers beside the paper's, with the verdict on every ordering that must show.

{options}

Other options go on to every run, over those of its row: --data.root DIR, --data.download true, --device cuda;
python -m fl_ddp.main --help lists them. Runs on data that come with the package are not told where data lie.
Ctrl-C stops after the current round; the same command goes on.
Exit codes: 0 done, 1 a run failed or was stopped, 2 the input cannot be run."""

_REFUSED = {"seed": "--seeds", "name": "--out", "resume": "nothing: what is unfinished goes on", "config": "a table"}


def main(line: Sequence[str]) -> int:
    """Do what the command line asks for.

    Returns:
        exit code: 0, 1 (a run failed or was stopped) or 2 (the input cannot be run).
    """
    return exit_code("reproduce", lambda: _answer(line))


def _answer(line: Sequence[str]) -> int:
    owners = (ReproduceOptions, ExecutorOptions, SlurmOptions)
    words = split(line, *owners, refused=_REFUSED)
    if words.asks_for("help"):
        say(help_text(HELP, *owners))
    elif words.asks_for("list"):
        say(recipe_list([load_table(name) for name in table_names()]).removesuffix("\n"))
    else:
        command = shlex.join(["python", "-m", "launch.reproduce", *line])
        return _reproduce(words.read(ReproduceOptions), words.rest, read_executor(words, parallel=1), command)
    return 0


def _reproduce(options: ReproduceOptions, over: Sequence[str], executor: Executor, command: str) -> int:
    """Make the runs of a table, and compare.

    Args:
        options: which runs.
        over: options of fl_ddp.main, over those of the rows.
        executor: makes the runs.
        command: of the user, for the report.
    """
    table = load_table(options.table)
    folder = Path(options.out) / f"{table.name}{'-small' if options.small else ''}"
    chosen = {row.full_name for row in table.choose(options.row)}
    planned = plan(table.rows, options.seeds_of_runs, small=options.small, out=Path(options.out), extra=over)
    runs = list({run.folder: run for run in planned if run.row.full_name in chosen}.values())
    failed: dict[str, str] = {}
    if not options.report:
        wanted = [run.planned for run in runs]  # nothing is started before all rows are known to be understood
        if options.dry_run:
            _show_plan(wanted, executor, folder)
            return 0
        outcomes = executor.make_all(wanted, array_folder(folder))
        failed = {each.run.label: each.words for each in outcomes if each.state in ("not started", "stopped", "failed")}
        say("")
    comparison = compare(table, _read_all(planned, failed), small=options.small)
    _write(comparison, folder, command)
    for label, why in failed.items():
        print(f"failed: {label}: {why}", file=sys.stderr)
    return 1 if failed else 0


def _show_plan(runs: Sequence[PlannedRun], executor: Executor, folder: Path) -> None:
    finished = [run for run in runs if (found := run.found()) and found.ended]
    for run in finished:
        say(f"# {run.folder} is finished")
    say(executor.plan([run for run in runs if run not in finished], array_folder(folder)))


def _read_all(runs: Sequence[RowRun], failed: dict[str, str]) -> dict[str, RunsBySeed]:
    """What lies in the folders of all rows, by full name of the row and seed; what is no run of the row has failed."""
    found: dict[str, dict[int, Run]] = {}
    for run in runs:
        try:
            there = run.planned.found() if run.folder.is_dir() else None
        except ConfigError as error:
            failed.setdefault(run.label, str(error))
            continue
        if there:
            found.setdefault(run.row.full_name, {})[run.seed] = there
    return dict(found)


def _write(comparison: Comparison, folder: Path, command: str) -> None:
    """Print the comparison, and leave it beside the runs."""
    say(terminal(comparison))
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "results.md", markdown(comparison, command))
    write_text(folder / "results.json", as_json(comparison, command))
    say(f"\n{folder / 'results.md'} and results.json hold this")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
