"""The command: python -m launch.reproduce importance/table3 runs a paper's table and prints our numbers beside its."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text, writing
from fl_ddp.host.stdout import say
from launch.executor import Executor, ExecutorOptions, read_executor
from launch.exit_code import exit_code
from launch.input.help_text import help_text
from launch.input.words import split
from launch.privacy.runs import DECODER_EPOCHS, attack_all
from launch.run.edited import tell_of_devices, tell_of_edited
from launch.run.reconstruction_curves import epochs_of
from launch.run.stored import Run
from launch.run.trial import Trial
from launch.slurm.folders import array_folder
from launch.slurm.options import SlurmOptions
from launch.tables.comparison import Comparison, compare
from launch.tables.options import ReproduceOptions
from launch.tables.origin import ResultsOrigin, origin_now
from launch.tables.recipe_list import recipe_list
from launch.tables.report import markdown, terminal
from launch.tables.results_file import as_json
from launch.tables.seeded_row import SeededRow, seeded_rows, seeds_beside
from launch.tables.yaml_file import load_table, table_names

HELP = """usage: python -m launch.reproduce PAPER/TABLE [--option value ...]
       python -m launch.reproduce --list

Runs the rows of a paper's table one after another, skips those that are finished, goes on with those that are not, and
prints our numbers beside the paper's, with the verdict on every ordering that must show.

{options}

Other options go on to every run, over those of its row: --data.root DIR, --data.download true, --device cuda;
python -m fl_ddp.main --help lists them. Runs on data that come with the package are not told where data lie.
Ctrl-C stops all runs, without their unfinished round; the same command goes on.
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
        command: of the user, for what is written.
    """
    table = load_table(options.table)
    folder = Path(options.out) / f"{table.name}{'-small' if options.small else ''}"
    chosen = {row.full_name for row in table.choose(options.row)}
    rows = seeded_rows(table.rows, options.seeds_of_runs, small=options.small, out=Path(options.out), extra=over)
    wanted = {each.folder: each for each in rows if each.row.full_name in chosen}  # rows may share a run
    of_images = any(metric.of_images for column in table.columns_of(options.small) for metric in column.metrics)
    failed: dict[str, str] = {}
    if not options.report:
        trials = [each.trial for each in wanted.values()]  # all must be understood before one is started
        if options.dry_run:
            _preview(trials, executor, folder)
            return 0
        tell_of_edited(trials)
        tell_of_devices(trials)
        outcomes = executor.make_all(trials, array_folder(folder))
        unfinished = [each for each in outcomes if each.state in ("not started", "stopped", "failed")]
        failed = {each.trial.label: each.words for each in unfinished}
        if of_images and not any(each.state in ("not started", "stopped") for each in outcomes):
            made = [each.trial for each in outcomes if each.state == "finished"]
            attack_all([trial.folder for trial in made if trial.config.method.name == "FilVer"], DECODER_EPOCHS)
        say("")
    for each in wanted.values() if of_images else ():
        if (epochs := epochs_of(each.folder)) not in (None, DECODER_EPOCHS):
            why = f"reconstruction.csv is of {epochs} epochs of a decoder, not {DECODER_EPOCHS}; leave --report away"
            failed[each.label] = why
    runs = _read_all(rows, failed)
    other_seeds = sorted(seeds_beside(rows) - {*options.seeds_of_runs})
    _add_finished(seeded_rows(table.rows, other_seeds, small=options.small, out=Path(options.out), extra=over), runs)
    if options.report and not runs and not failed:
        raise ConfigError(folder, "holds no run of the table yet; leave --report away to make them")
    comparison = compare(table, runs, small=options.small)
    say(terminal(comparison))
    if runs:
        _write(comparison, origin_now(command, comparison, runs), folder)
    for label, why in failed.items():
        print(f"failed: {label}: {why}", file=sys.stderr)
    return 1 if failed else 0


def _preview(trials: Sequence[Trial], executor: Executor, folder: Path) -> None:
    finished = [trial for trial in trials if trial.is_finished()]
    for trial in finished:
        say(f"# {trial.folder} is finished")
    say(executor.preview([trial for trial in trials if trial not in finished], array_folder(folder)))


def _read_all(rows: Sequence[SeededRow], failed: dict[str, str]) -> dict[str, dict[int, Run]]:
    """What lies in the folders of all rows, by full name of the row and seed; what is no run of the row has failed."""
    found: dict[str, dict[int, Run]] = {}
    for each in rows:
        try:
            run = each.trial.read_run() if each.folder.is_dir() else None
        except ConfigError as error:
            failed.setdefault(each.label, str(error))
            continue
        if run:
            found.setdefault(each.row.full_name, {})[each.seed] = run
    return found


def _add_finished(rows: Sequence[SeededRow], runs: dict[str, dict[int, Run]]) -> None:
    """Count finished runs of seeds that are not asked for now, too: what earlier commands have made is not lost."""
    for each in rows:
        with suppress(ConfigError):  # another run lies there, which nobody asked for
            if each.folder.is_dir() and (run := each.trial.read_run()) and run.ended:
                runs.setdefault(each.row.full_name, {})[each.seed] = run


def _write(comparison: Comparison, origin: ResultsOrigin, folder: Path) -> None:
    """Leave the comparison beside the runs."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "table.md", markdown(comparison, origin))
    write_text(folder / "results.json", as_json(comparison, origin))
    say(f"\n{folder / 'table.md'} and results.json hold this")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
