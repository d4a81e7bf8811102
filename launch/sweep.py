"""The command: python -m launch.sweep makes a run for each point of a grid, of a list, or of random draws."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence

from fl_ddp.errors import ConfigError, RunError
from fl_ddp.run_folder import RunFolder
from fl_ddp.stdout import say
from launch.local_runs import make_all
from launch.outcome import Outcome
from launch.planned_run import PlannedRun
from launch.points import combined
from launch.sweep_arguments import HELP, Arguments, read_arguments
from launch.sweep_folder import Sweep, over, read_sweep
from launch.sweep_plan import plan


def main(words: Sequence[str]) -> int:
    """Do what the command line asks for.

    Returns:
        exit code: 0, 1 (a run failed or was stopped) or 2 (the input cannot be run).
    """
    try:
        arguments = read_arguments(words)
        if arguments.help:
            say(HELP)
            return 0
        return _sweep(arguments)
    except (ConfigError, RunError) as error:
        print(f"sweep: error: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1


def _sweep(arguments: Arguments) -> int:
    sweep = read_sweep(arguments.folder)
    if arguments.axes:
        chosen = sweep.add(combined(arguments.axes))
        sweep.base = arguments.base
    else:
        chosen = list(sweep.entries)
        sweep.base = over(sweep.base, arguments.base)
    if not chosen:
        raise ConfigError(f"{sweep.folder}: has no points yet; give --grid, --points or --random")
    runs = plan(sweep, arguments.axes)
    finished = {name for name, run in runs.items() if (found := run.found()) and found.ended}
    for name in finished:
        sweep.set_failed(name, None)
    failed_before = {name for name in chosen if sweep.entries[name].failed}
    now = [name for name in chosen if name not in finished and (name in failed_before) == arguments.retry]
    if arguments.dry_run:
        _show(chosen, now, runs, arguments.ranks)
        return 0
    sweep.folder.mkdir(parents=True, exist_ok=True)
    with RunFolder(sweep.folder):
        sweep.write()
        there = len(finished & set(chosen))
        say(f"{sweep.folder}: {len(chosen)} points, {there} are finished, {len(now)} to run")
        outcomes = _make([runs[name] for name in now], sweep, arguments)
    return _report(sweep, chosen, outcomes)


def _make(runs: Sequence[PlannedRun], sweep: Sweep, arguments: Arguments) -> list[Outcome]:
    """Make runs, and note in sweep.json which of them fail."""

    def note(outcome: Outcome) -> None:
        sweep.set_failed(outcome.run.label, outcome.words if outcome.state == "failed" else None)
        sweep.write()

    return make_all(runs, ranks=arguments.ranks, parallel=arguments.parallel, note=note)


def _report(sweep: Sweep, chosen: Sequence[str], outcomes: Sequence[Outcome]) -> int:
    """Say what is not finished, and where the numbers are to be had; the exit code."""
    stopped = [outcome.run.label for outcome in outcomes if outcome.state == "stopped"]
    failed = {name: why for name in chosen if (why := sweep.entries[name].failed)}
    say(f"python -m launch.results {shlex.quote(str(sweep.folder))} shows the numbers")
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    if failed:
        print(f"--retry runs {'it' if len(failed) == 1 else f'these {len(failed)}'} again", file=sys.stderr)
    if stopped:
        print(f"stopped: {len(stopped)} of {len(chosen)} points; the same command goes on", file=sys.stderr)
    return 1 if failed or stopped else 0


def _show(chosen: Sequence[str], now: Sequence[str], runs: Mapping[str, PlannedRun], ranks: int) -> None:
    """Print the commands that would be run."""
    for name in chosen:
        command = shlex.join(["python", *runs[name].command(ranks)[1:]])
        say(command if name in now else f"# {runs[name].folder} is left as it is")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
