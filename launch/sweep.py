"""The command: python -m launch.sweep makes a run for each point of a grid, of a list, or of random draws."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Sequence

from fl_ddp.errors import ConfigError
from fl_ddp.host.stdout import say
from fl_ddp.results.run_folder import RunFolder, is_held
from launch.executor import Executor, ExecutorOptions, read_executor
from launch.exit_code import exit_code
from launch.input.help_text import help_text
from launch.input.words import split
from launch.run.edited import tell_of_devices, tell_of_edited
from launch.run.failure import why_failed
from launch.run.made_folders import made_folders
from launch.run.outcome import Outcome
from launch.run.trial import Trial
from launch.slurm.folders import array_folder
from launch.slurm.options import SlurmOptions
from launch.slurm.submitted import unfinished
from launch.sweeps.fitting import fitting
from launch.sweeps.folder import Sweep, kept, over, read_sweep
from launch.sweeps.options import SweepOptions
from launch.sweeps.points import combined
from launch.sweeps.trials import trials_of

HELP = """usage: python -m launch.sweep --config FILE --grid method.lam=0.1,1,10 --grid seed=0..4 [--option value ...]

Makes a run for each point, in a folder of its own, as many at once as there are GPUs or cores for. A second call skips
what is finished, goes on with what is not and lists what failed; python -m launch.results sweeps/<name> shows the
numbers.

{options}

--grid, --points and --random are combined: --random 20 ... --grid seed=0..2 are 60 points. Of --grid
method=FedAvg,FedProx --grid method.mu=0.1,1 FedAvg, which has no mu, is one. Without any of them the sweep's points so
far are meant, and its options: --name NAME goes on, --name NAME --retry tries again.
All other options go to every run; python -m fl_ddp.main --help lists them.
Ctrl-C stops all runs, without their unfinished round; the same command goes on. A second Ctrl-C quits at once,
a third kills what does not hear of it.
Exit codes: 0 done, 1 a run failed or was stopped, 2 the input cannot be run."""

_REFUSED = {"resume": "nothing: what is unfinished goes on"}


def main(line: Sequence[str]) -> int:
    """Do what the command line asks for.

    Returns:
        exit code: 0, 1 (a run failed or was stopped) or 2 (the input cannot be run).
    """
    return exit_code("sweep", lambda: _answer(line))


def _answer(line: Sequence[str]) -> int:
    owners = (SweepOptions, ExecutorOptions, SlurmOptions)
    words = split(line, *owners, refused=_REFUSED)
    if words.asks_for("help"):
        say(help_text(HELP, *owners))
        return 0
    base = tuple(map(kept, words.rest))
    return _sweep(words.read(SweepOptions), base, read_executor(words, parallel=None))


def _sweep(options: SweepOptions, base: tuple[str, ...], executor: Executor) -> int:
    axes = options.axes()
    sweep = read_sweep(options.folder(base))
    before = sweep.base
    if axes:
        chosen = sweep.add(fitting(combined(axes), axes))
        sweep.base = base
    else:
        chosen = list(sweep.entries)
        sweep.base = over(sweep.base, base)
    if not chosen:
        raise ConfigError(sweep.folder, "has no points yet; give --grid, --points or --random")
    trials = trials_of(sweep, axes)
    finished = {name for name, trial in trials.items() if trial.is_finished()}
    for name, trial in trials.items():
        if name in finished:
            sweep.set_failed(name, None)
        elif not (sweep.entries[name].failed or is_held(trial.folder)) and (why := why_failed(trial.folder)):
            sweep.set_failed(name, f"{why} ({trial.log})")  # nobody waited for its end
    tell_of_edited([trials[name] for name in chosen])
    left = [name for name in chosen if name not in finished]
    now = [trials[name] for name in left if bool(sweep.entries[name].failed) == options.retry]
    tell_of_devices(now)
    say(f"{sweep.folder}: {len(chosen)} points, {len(chosen) - len(left)} are finished, {len(now)} to run")
    if options.dry_run:
        say(executor.preview(now, array_folder(sweep.folder)))
        return 0
    if changed := ", ".join(sorted({*before} ^ {*sweep.base})):
        _refuse_change(sweep, list(trials.values()), changed)
    return _report(sweep, chosen, _make(now, sweep, before, executor))


def _refuse_change(sweep: Sweep, trials: Sequence[Trial], changed: str) -> None:
    """Keep the options of the points that wait or run as they were submitted.

    Raises:
        ConfigError: a job of one has not ended.
    """
    for name, submitted in unfinished(trials).items():
        waits = submitted.why_wait(f"the point {name}", f", and has other options ({changed})")
        raise ConfigError(sweep.folder, waits)


def _make(trials: Sequence[Trial], sweep: Sweep, before: tuple[str, ...], executor: Executor) -> list[Outcome]:
    """Make runs, and note in sweep.json which of them fail.

    Args:
        trials: to be made.
        sweep: with all points that this command knows of.
        before: options that all runs had when it was read.
        executor: makes the runs.
    """

    def note(outcome: Outcome) -> None:
        if outcome.state not in ("stopped", "not started"):  # by --retry goes on what was begun by it
            sweep.set_failed(outcome.trial.label, outcome.words if outcome.state == "failed" else None)
        sweep.write()

    made_here = not sweep.folder.exists()
    with made_folders([sweep.folder]), RunFolder(sweep.folder):
        now = read_sweep(sweep.folder)  # another command may have written it before this one had the lock
        if now.base not in (before, sweep.base):
            raise ConfigError(sweep.folder, "another command has just given it other options; call this one again")
        sweep.entries = now.entries | sweep.entries
        sweep.write()
        try:
            return executor.make_all(trials, array_folder(sweep.folder), note)
        except ConfigError:  # nothing is submitted
            if made_here and not now.entries:
                shutil.rmtree(sweep.folder)
            else:
                now.write()
            raise


def _report(sweep: Sweep, chosen: Sequence[str], outcomes: Sequence[Outcome]) -> int:
    """Say what is not finished, and where the numbers are to be had; the exit code."""
    stopped = [outcome.trial.label for outcome in outcomes if outcome.state in ("not started", "stopped")]
    failed = {name: why for name in chosen if (why := sweep.entries[name].failed)}
    say(f"python -m launch.results {shlex.quote(str(sweep.folder))} shows the numbers")
    for name, why in failed.items():
        print(f"failed: {name}: {why}", file=sys.stderr)
    if failed:
        print(f"--retry runs {'it' if len(failed) == 1 else f'these {len(failed)}'} again", file=sys.stderr)
    if stopped:
        print(f"stopped: {len(stopped)} of {len(chosen)} points; the same command goes on", file=sys.stderr)
    return 1 if failed or stopped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
