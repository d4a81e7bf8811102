"""The command: python -m launch.submit --nodes 2 --gpus_per_node 8 --config FILE hands a run to Slurm."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from os.path import lexists
from pathlib import Path

from fl_ddp.config.command_line import parse
from fl_ddp.errors import ConfigError
from fl_ddp.host.stdout import say
from fl_ddp.results.run_folder import name_is_taken, new_folders
from launch.exit_code import exit_code
from launch.input.help_text import help_text
from launch.input.words import split
from launch.run.made_folders import made_folders
from launch.run.trial import Trial
from launch.slurm.folders import job_folder
from launch.slurm.following import follow
from launch.slurm.jobs import sbatch_file, submit
from launch.slurm.options import SlurmOptions
from launch.slurm.queue import check_slurm
from launch.slurm.submitted import unfinished

HELP = """usage: python -m launch.submit [--option value ...] [options of fl_ddp.main]

Hands a run to Slurm as one job, each task of which is a rank. The job saves the run before it is preempted or reaches
its limit, and goes on in a new one; so it does after a node is lost, and after scontrol requeue.

{options}

Other options are the run's own: --config FILE, --rounds 100, --resume runs/NAME; python -m fl_ddp.main --help lists
them. All are checked before anything is submitted. What the run prints goes to OUT/NAME.log, what else Slurm and
submitit write to OUT/NAME.slurm.
Exit codes: 0 submitted, or done with --wait; 1 the run failed or was stopped; 2 the input cannot be run."""


@dataclass(frozen=True)
class SubmitOptions:
    """What becomes of the job.

    Attributes:
        dry_run: print the command and the sbatch file and stop; needs no Slurm.
        wait: follow the run to its end, and return its exit code.
    """

    dry_run: bool = False
    wait: bool = False


def main(line: Sequence[str]) -> int:
    """Do what the command line asks for; the exit code is 0, 1 (the run failed) or 2 (the input cannot be run)."""
    return exit_code("submit", lambda: _answer(line))


def _answer(line: Sequence[str]) -> int:
    words = split(line, SlurmOptions, SubmitOptions)
    if words.asks_for("help"):
        say(help_text(HELP, SlurmOptions, SubmitOptions))
        return 0
    slurm, options = words.read(SlurmOptions), words.read(SubmitOptions)
    trial = trial_of(words.rest, datetime.now())
    if options.dry_run:
        say(f"{_description(trial, slurm)}\n\n{sbatch_file([trial], slurm, job_folder(trial.folder), None)}")
        return 0
    if (found := trial.read_run()) and found.ended:
        say(f"{trial.folder} is finished; a larger --rounds goes on with it")
        return 0
    check_slurm(slurm)
    with reserved(words.rest, datetime.now()) as trial:
        say(_description(trial, slurm))
        return _submit(trial, slurm, wait=options.wait)


def trial_of(options: Sequence[str], now: datetime) -> Trial:
    """The run that options of fl_ddp.main ask for, with its folder's full path.

    Args:
        options: as --key=value or --key.
        now: part of a default name.

    Raises:
        ConfigError: an option is unknown or impossible, or the name is taken.
    """
    config = parse(options)
    kept = tuple(each for each in options if not each.startswith(("--resume=", "--name=", "--out=")))
    if config.resume is not None:
        folder = Path(config.resume).absolute()
        return Trial(folder.name, folder, (f"--config={folder / 'config.yaml'}", *kept))
    for folder in new_folders(replace(config, out=str(Path(config.out).absolute())), now):
        if not folder.exists() and (config.name is not None or not lexists(job_folder(folder))):
            return Trial(folder.name, folder, kept)
        if config.name is not None:
            raise name_is_taken(folder)
    raise AssertionError("there is always another name")


@contextmanager
def reserved(options: Sequence[str], now: datetime) -> Iterator[Trial]:
    """As trial_of(), with the folder of the job if it has a default name, so that a command beside this takes another.

    If the block raises, the folder goes again unless there is something in it.

    Raises:
        ConfigError: as trial_of(), or the folder cannot be made.
    """
    config = parse(options)
    if config.resume is not None or config.name is not None:
        yield trial_of(options, now)
        return
    while True:
        trial = trial_of(options, now)
        folder = job_folder(trial.folder)
        with made_folders([folder.parent]):
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                raise ConfigError(folder, f"cannot be written ({error.strerror})") from error
            try:
                yield trial
            except BaseException:
                with suppress(OSError):
                    folder.rmdir()
                raise
        return


def _submit(trial: Trial, options: SlurmOptions, *, wait: bool) -> int:
    for before in unfinished([trial]).values():
        raise ConfigError(trial.folder, before.why_wait("this run"))
    say_new = _tail(trial.log)
    jobs = submit([trial], options, job_folder(trial.folder), None)
    job_id = jobs[0].job_id
    say(f"submitted as job {job_id}; tail -F {trial.log} follows it, scancel {job_id} ends it")
    if not wait:
        return 0
    try:
        failed = follow(jobs, [trial], say, say_new)
    except KeyboardInterrupt:
        print(f"\nthe job goes on; scancel {job_id} ends it", file=sys.stderr)
        return 1
    for label, failure in failed.items():
        print(f"failed: {label}: {failure.why}", file=sys.stderr)
        return failure.code
    return 0


def _description(trial: Trial, options: SlurmOptions) -> str:
    lines = {
        "run": str(trial.folder),
        "ranks": f"{options.ranks_of_node} with {options.gpus_per_node} GPU(s) on each of {options.nodes} node(s)",
        "command": shlex.join(["python", "-m", "fl_ddp.main", *trial.options_now()]),
        "log": str(trial.log),
    }
    return "\n".join(f"{name:<9}{text}" for name, text in lines.items())


def _tail(log: Path) -> Callable[[], None]:
    """What says the lines that were added to a log since its last call."""
    place = log.stat().st_size if log.is_file() else 0

    def say_new() -> None:
        nonlocal place
        if not log.is_file():
            return
        with log.open("rb") as file:
            file.seek(place)
            lines, end, _ = file.read().rpartition(b"\n")
        place += len(lines + end)
        if end:
            say(lines.decode(errors="replace"))

    return say_new


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
