"""The command: python -m launch.reproduce importance/table3 runs a paper's table and prints our numbers beside its."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.host.stdout import say
from launch.executor import Executor, array_folder
from launch.exit_code import exit_code
from launch.run.planned import PlannedRun
from launch.run.stored import Run
from launch.tables.arguments import HELP, Arguments, read_arguments
from launch.tables.comparison import Comparison, RunsBySeed, compare
from launch.tables.recipe_list import recipe_list
from launch.tables.report import as_json, markdown, terminal
from launch.tables.row_run import RowRun, plan
from launch.tables.yaml_file import load_table, table_names


def main(words: Sequence[str]) -> int:
    """Do what the command line asks for.

    Returns:
        exit code: 0, 1 (a run failed or was stopped) or 2 (the input cannot be run).
    """
    return exit_code("reproduce", lambda: _answer(words))


def _answer(words: Sequence[str]) -> int:
    arguments = read_arguments(words)
    if "help" in arguments.switches:
        say(HELP)
    elif "list" in arguments.switches:
        say(recipe_list([load_table(name) for name in table_names()]).removesuffix("\n"))
    else:
        return _reproduce(arguments, words)
    return 0


def _reproduce(arguments: Arguments, words: Sequence[str]) -> int:
    table = load_table(arguments.table)
    small = "small" in arguments.switches
    folder = arguments.out / f"{table.name}{'-small' if small else ''}"
    chosen = {row.full_name for row in table.choose(arguments.rows)}
    planned = plan(table.rows, arguments.seeds, small=small, out=arguments.out, extra=arguments.extra)
    runs = list({run.folder: run for run in planned if run.row.full_name in chosen}.values())
    failed: dict[str, str] = {}
    if "report" not in arguments.switches:
        wanted = [run.planned for run in runs]  # nothing is started before all rows are known to be understood
        if "dry_run" in arguments.switches:
            _show_plan(wanted, arguments.executor, folder)
            return 0
        outcomes = arguments.executor.make_all(wanted, array_folder(folder))
        failed = {each.run.label: each.words for each in outcomes if each.state in ("not started", "stopped", "failed")}
        say("")
    comparison = compare(table, _read_all(planned, failed), small=small)
    _write(comparison, folder, shlex.join(["python", "-m", "launch.reproduce", *words]))
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
