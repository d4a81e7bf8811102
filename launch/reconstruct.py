"""The command: python -m launch.reconstruct FOLDER asks how private what FIL-VER's clients send is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import writing
from fl_ddp.host.stdout import say
from fl_ddp.host.text_table import TextTable
from launch.compare.found_runs import find_runs, named_folders
from launch.compare.replicates import Design, rows_of
from launch.exit_code import exit_code
from launch.input.declared import Folder, Form
from launch.input.help_text import help_text
from launch.input.words import split
from launch.numbers.metric import parse_metric
from launch.numbers.spread import with_spread
from launch.privacy.runs import DECODER_EPOCHS, attack_all

HELP = """usage: python -m launch.reconstruct FOLDER [FOLDER ...] [--option value ...]

Reconstructs images from what the clients of finished runs of FilVer send of them: the server, which has the first
task's training images, trains a decoder on what would be sent of these and turns it on all tasks' test images. A better
decoder may exist, so what it finds is the least that leaks.

{options}

Leaves reconstruction.csv (PSNR in dB, and that of the mean image, which whoever sees nothing would take) and
reconstruction.safetensors (some images) in each run's folder, reconstructions.png and .svg in --out. Runs that have
them are not attacked again. Rows are what the runs' folders are called but for -seed<k> or ,seed=<k> at the end.
Ctrl-C stops it; the same command goes on.
Exit codes: 0 done, 1 a file cannot be written, runs of one row and seed differ or some cannot be read, 2 the input
cannot be read."""

RunsFolder = Annotated[str, Form("FOLDER", accepted="that of a run or of several runs", is_path=True)]


@dataclass(frozen=True)
class ReconstructOptions:
    """Which runs are attacked, and how hard.

    Attributes:
        folders: of a run, or of several.
        epochs: of the decoder's training.
        out: folder for the figure [the first FOLDER].
    """

    folders: tuple[RunsFolder, ...]
    epochs: Count = DECODER_EPOCHS
    out: Folder | None = None


def main(line: Sequence[str]) -> int:
    """Do what the command line asks for.

    Returns:
        exit code: 0, 1 (a file, or some of the runs, cannot be written or read) or 2 (the input cannot be read).
    """
    return exit_code("reconstruct", lambda: _answer(line))


def _answer(line: Sequence[str]) -> int:
    words = split(line, ReconstructOptions)
    if words.asks_for("help"):
        say(help_text(HELP, ReconstructOptions))
        return 0
    if words.rest:
        raise ConfigError(words.rest[0], "unknown option; --help shows all")
    options = words.read(ReconstructOptions)
    folders = named_folders(options.folders)
    finds = find_runs(folders, reconstructions=False)
    for each in finds.runs:
        if each.state != "finished":
            raise ConfigError(each.run.folder, f"is a run that is {each.state}", "finished runs")
    for place, why in finds.failed.items():
        print(f"failed: {place.name}: {why}", file=sys.stderr, flush=True)
    if not finds.runs:
        raise ConfigError(", ".join(map(str, folders)), "holds no run that has begun", "finished runs")
    attack_all([each.run.folder for each in finds.runs], options.epochs)
    code = _show(rows_of(find_runs(folders).runs), Path(options.out or folders[0]))
    return 1 if finds.failed else code


def _show(design: Design, out: Path) -> int:
    """Print the table, and leave the figure; the exit code."""
    for each in design.differing:
        print(f"reconstruct: error: {each}", file=sys.stderr, flush=True)
    if not design.sets:
        return 1
    say("")
    for line in _table(design).aligned():
        say(line)
    say("\nPSNR of reconstructions, dB, in brackets that of the mean image of task 1; mean ± standard deviation")
    # matplotlib takes a second to import, which a wrong option need not wait for
    from launch.plots.figure_style import paper_style, save
    from launch.plots.picture_figure import picture_figure

    with paper_style():
        figure = picture_figure(design)
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
        say(f"{out / save(figure, out / 'reconstructions')} shows some")
    return 1 if design.differing else 0


def _table(design: Design) -> TextTable:
    tasks = sorted({int(name.partition("/")[2]) for each in design.sets for run in each.counted
                    for name in run.curves if name.startswith("psnr/")})  # fmt: skip
    rows = []
    for each in design.sets:
        cells = [with_spread(each.numbers(parse_metric(f"final of psnr/{task}")), "dB") for task in tasks]
        means = [with_spread(each.numbers(parse_metric(f"final of psnr_of_mean/{task}")), "dB") for task in tasks]
        both = [f"{ours} ({mean.partition(' ')[0]})" for ours, mean in zip(cells, means, strict=True)]
        rows.append([*each.values, str(len(each.counted)), *both])
    return TextTable([*design.names, "seeds", *(f"task {task}" for task in tasks)], rows, flush_left=1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
