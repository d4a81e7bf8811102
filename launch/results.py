"""The command: python -m launch.results sweeps/<name> puts runs, finished or still going, into a table and plots."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from fl_ddp.bounds import CountOrZero
from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text, writing
from fl_ddp.host.stdout import say
from launch.compare.across import across
from launch.compare.chosen import chosen
from launch.compare.found_runs import Finds, find_runs, named_folders
from launch.compare.long_tables import long_tables, refuse_folder_of_run
from launch.compare.paired import against
from launch.compare.refusals import refuse_what_no_run_has, refuse_what_no_run_tells
from launch.compare.replicates import design_of, rows_of
from launch.compare.report import Results, as_csv, latex, markdown, terminal
from launch.exit_code import exit_code
from launch.input.declared import Folder, Form
from launch.input.help_text import help_text
from launch.input.words import split
from launch.numbers.metric import Cost, Metric, parse_metric

HELP = """usage: python -m launch.results FOLDER [FOLDER ...] [--option value ...]

Reads all runs below the folders, finished or still going. Those that differ in their seeds alone share a line.

{options}

Leaves results.csv, results.md and results.tex (for LaTeX), curves.png and .svg (mean over seeds, band of one standard
deviation; dotted where only some seeds are yet), a plot of the metric over each varied option, and, where asked,
curves_over_traffic, classes, partitions, tasks_by_round and tasks_end, client_3 or client_3_cat, and the long tables.
A seed counts once: of several runs with the same settings and seed one is taken; where their results differ, none.
Exit codes: 0 done, 1 a file cannot be written or such results differ, 2 the input cannot be read."""

RunsFolder = Annotated[str, Form("FOLDER", accepted="that of a sweep, of a run or of several runs", is_path=True)]

Setting = Annotated[str, Form("KEY=VALUE")]

Key = Annotated[str, Form("KEY")]

MetricText = Annotated[str, Form("METRIC")]


@dataclass(frozen=True)
class ResultsOptions:
    """What is shown, and where it is left.

    Attributes:
        folders: of a sweep, of a run, or of several of either.
        metric: final, best, running_mean, ema0.995, last10, each with @50 if wanted, rounds_to 0.85, traffic_to
            0.85 (MB) or time_to 0.85 (s); of initial or of personalised accuracy, of forgetting, loss, perplexity or,
            of regressions, mae: 'last10 of initial'; a column each, of which the first says what is best and is drawn;
            a single one has the usual ones beside it [final; of runs with tasks final of average_accuracy, of
            regressions final of mae].
        over: draw the curves over what all clients sent and received, or over time without compiling, too: traffic or
            time.
        classes: draw each class's accuracy over rounds, too, of the least seed of each setting.
        partitions: draw who holds what, too.
        tasks: draw the accuracy on each task over rounds and at the end, too.
        client: draw the forgetting degrees of this client's classes, too; needs runs with --forgetting_every.
        of_class: with client, draw this class's alone, and the accuracy of the client's own model on it.
        rows: settings are what the runs' folders are called but for -seed<k>, or a sweep's ,seed=<k>, in the order in
            which they are named, not the options that differ.
        against: setting that others are compared with, seed by seed, such as method=FedAvg: each with the one that has
            all else, but for the method's options, in common with it.
        across: have a second table of the first metric with a column for each value of this option, such as
            partition.alpha, and its best in each; in results.tex it is the only one.
        chosen_by: have a second table with, for each method, the setting that is best by this metric, such as 'final of
            initial', and the others of that setting, which nobody has tuned on then; chosen are options of the method,
            the optimizer and local training, for each value of all others; in results.tex it is the only one.
        for_each: with chosen_by, an option that is not chosen either, such as local_epochs.
        long: leave all that the runs recorded, too, finished or not: rounds.csv, a row for each of their rounds,
            clients.csv, one for each client's test on its own samples, and tasks.csv, one for each test of a task
            (own_tasks.csv: on a client's samples), with the run's folder, its seed and the options that differ, which
            are columns --lr and so on.
        out: folder for results.csv, .md and .tex, the plots and long tables [the first FOLDER].
    """

    folders: tuple[RunsFolder, ...]
    metric: tuple[str, ...] = ()
    over: Cost | None = None
    classes: bool = False
    partitions: bool = False
    tasks: bool = False
    client: CountOrZero | None = None
    of_class: str | None = None
    rows: bool = False
    against: Setting | None = None
    across: Key | None = None
    chosen_by: MetricText | None = None
    for_each: tuple[Key, ...] = ()
    long: bool = False
    out: Folder | None = None

    def __post_init__(self) -> None:
        if self.of_class is not None and self.client is None:
            raise ConfigError("--of_class", f"{self.of_class}, but of which client?", "--client 3, say, beside it")
        for each in self.shown:
            _refuse_rows(each, "--metric")
        if self.chooser:
            _refuse_rows(self.chooser, "--chosen_by")
        elif self.for_each:
            what = f"{self.for_each[0]}, but of what choice?"
            raise ConfigError("--for_each", what, "--chosen_by 'final of initial', say, beside it")
        if self.chooser and self.across is not None:
            raise ConfigError("--chosen_by and --across", "are both given; give one of them")

    @property
    def shown(self) -> tuple[Metric, ...]:
        """The metrics; none if that is left to the runs.

        Raises:
            ConfigError: one is none.
        """
        return tuple(parse_metric(text) for text in dict.fromkeys(self.metric))

    @property
    def chooser(self) -> Metric | None:
        """What settings are chosen by.

        Raises:
            ConfigError: it is no metric.
        """
        return None if self.chosen_by is None else parse_metric(self.chosen_by, "--chosen_by")


def _refuse_rows(metric: Metric, where: str) -> None:
    """Refuse a metric that reads another row of a table: there are none."""
    if metric.relative_to:
        possible = metric.text.partition(" / ")[0]
        raise ConfigError(where, f"{metric.text}: there are no rows to divide by", possible)
    if metric.target_row:
        raise ConfigError(where, f"{metric.text}: there is no row {metric.target_row}", "rounds_to 0.85")


def main(line: Sequence[str]) -> int:
    """Do what the command line asks for.

    Returns:
        exit code: 0, 1 (a file cannot be written, or runs of one seed differ) or 2 (the input cannot be read).
    """
    return exit_code("results", lambda: _answer(line))


def _answer(line: Sequence[str]) -> int:
    words = split(line, ResultsOptions)
    if words.asks_for("help"):
        say(help_text(HELP, ResultsOptions))
        return 0
    if words.rest:
        raise ConfigError(words.rest[0], "unknown option; --help shows all")
    options = words.read(ResultsOptions)
    folders = named_folders(options.folders)
    command = shlex.join(["python", "-m", "launch.results", *line])
    return _show(folders, options, Path(options.out or folders[0]), command)


def _show(folders: Sequence[Path], options: ResultsOptions, out: Path, command: str) -> int:
    """Print the table, and leave it with its plots; the exit code."""
    finds = find_runs(folders)
    if options.long:
        refuse_folder_of_run(out, [each.run for each in finds.runs])
    shown = options.shown or (_usual(finds),)
    for metric in shown:
        refuse_what_no_run_has(metric, finds)
    for metric in options.shown:
        refuse_what_no_run_tells(metric, finds)
    if (by := options.chooser) is not None:
        refuse_what_no_run_has(by, finds, "--chosen_by")
        refuse_what_no_run_tells(by, finds, "--chosen_by")
        if replace(by, text="") in [replace(each, text="") for each in shown]:
            what = f"{by.text} is shown, too"
            raise ConfigError("--chosen_by", what, "a metric that is not, such as 'final of initial' of --local_test")
    design = rows_of(finds.runs) if options.rows else design_of(finds.runs)
    beside_it = () if len(shown) > 1 else tuple(each for each in _beside(finds) if each not in shown)
    metrics = (*shown, *beside_it)
    beside = against(options.against, design) if options.against is not None else None
    columns = across(options.across, design) if options.across is not None else None
    columns = columns if design.sets else None
    tables = long_tables(design, folders) if options.long else ()
    results = Results(", ".join(map(str, folders)), design, metrics, finds, beside, len(shown), columns)
    results = replace(results, chosen=chosen(by, options.for_each, design)) if by and design.sets else results
    # matplotlib takes a second to import, which a wrong option need not wait for
    from launch.plots.figures import Beside, figures_beside, write_figures

    drawn = Beside(options.classes, options.partitions, options.tasks, options.client, options.of_class)
    asked_for = figures_beside(design, drawn)
    say(terminal(results))
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    write_text(out / "results.csv", as_csv(results))
    for table in tables:
        table.write(out)
    figures = write_figures(design, metrics[0], options.over, asked_for, out)
    write_text(out / "results.md", markdown(results, command, figures))
    write_text(out / "results.tex", latex(results, command))
    left = ["results.csv", "results.md", "results.tex", *(table.name for table in tables), *figures]
    say(f"\n{out}: {', '.join(left)}")
    for each in design.differing:
        print(f"results: error: {each}", file=sys.stderr, flush=True)
    return 1 if design.differing else 0


def _usual(finds: Finds) -> Metric:
    """What is shown unless another metric is asked for."""
    regressions = [each.run.config.get("loss") == "mse" for each in finds.runs]
    if regressions and all(regressions):
        return parse_metric("final of mae")
    return parse_metric("final of average_accuracy" if _have_tasks(finds) else "final")


def _have_tasks(finds: Finds) -> bool:
    """Whether all runs have tests of each task: those before a task are of other test samples."""
    begun = [each.run for each in finds.runs if each.run.rounds]
    return bool(begun) and all(run.has_tasks for run in begun)


def _beside(finds: Finds) -> list[Metric]:
    """Metrics beside the one that was asked for: best accuracy and forgetting if there are such, rounds to targets.

    Of runs with tasks those of tasks: how well they are known on average, and what is lost of them. Their own best
    accuracy and first round above a target say nothing, as the first tasks are easiest.
    """
    if _have_tasks(finds):
        usual = ["final of average_accuracy", "final of average_forgetting", "final of backward_transfer"]
        return [parse_metric(text) for text in usual]
    curves = [each.run.curves for each in finds.runs]
    forgetting = ["final of forgetting"] if any("forgetting" in each for each in curves) else []
    if any(each.run.has_tasks for each in finds.runs):
        return [parse_metric(text) for text in forgetting]
    best = [] if any("mae" in each for each in curves) else ["best"]
    targets: dict[float, None] = {}
    for each in finds.runs:
        listed = each.run.config.get("targets")
        targets |= dict.fromkeys(listed if isinstance(listed, list) else [])
    return [parse_metric(text) for text in (*best, *forgetting, *(f"rounds_to {each}" for each in sorted(targets)))]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
