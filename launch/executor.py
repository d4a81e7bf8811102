"""Where the runs of a launcher are made: here, or as a job array of Slurm."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from launch.input.words import Words
from launch.run.outcome import Outcome
from launch.run.trial import Trial
from launch.slurm.options import SlurmOptions
from launch.slurm.submitted import in_queue


@dataclass(frozen=True)
class ExecutorOptions:
    """Where the runs are made.

    Attributes:
        executor: local is here, each on GPUs of its own or its share of the cores; slurm is a job array.
        parallel: most runs at once, of each array with slurm [as above; with slurm all].
        ranks: processes of each run, through torchrun; with slurm --nodes and --ranks_per_node say it [1].
        wait: follow the jobs of slurm to their ends.
    """

    executor: Literal["local", "slurm"] = "local"
    parallel: Count | None = None
    ranks: Count | None = None
    wait: bool = False

    def __post_init__(self) -> None:
        if self.executor == "local" and self.wait:
            raise _not_of_this_machine("wait")
        if self.executor == "slurm" and self.ranks is not None:
            raise ConfigError(
                "--ranks", "is of runs on this machine; with --executor slurm give --nodes and --ranks_per_node"
            )


@dataclass(frozen=True)
class Executor:
    """Where and how runs are made.

    Attributes:
        parallel: most runs at once; None is as many as there is room for.
        ranks: processes of each run made here.
        slurm: what the jobs ask for; None makes the runs here.
        wait: follow the jobs.
    """

    parallel: int | None
    ranks: int
    slurm: SlurmOptions | None
    wait: bool

    def make_all(
        self, trials: Sequence[Trial], folder: Path, note: Callable[[Outcome], None] = lambda _: None
    ) -> list[Outcome]:
        """Make the runs of trials that are not finished, or submit them.

        Args:
            trials: to be made.
            folder: for the files of Slurm.
            note: is called with each outcome as it comes.

        Returns:
            the outcomes in the order of the trials.

        Raises:
            ConfigError: Slurm is not there, refuses or does not answer; nothing is submitted.
        """
        order = seed_by_seed(trials)
        if self.slurm is None:
            from launch.local.runs import make_here  # imports torch, which no other command needs

            waits = {label: job.why_wait("it") for label, job in in_queue(trials).items()}
            made = make_here(order, ranks=self.ranks, parallel=self.parallel, note=note, elsewhere=waits)
        else:
            from launch.slurm.runs import make_there  # imports submitit, which only this needs

            made = make_there(order, self.slurm, folder, self.parallel, wait=self.wait, note=note)
        outcomes = {outcome.trial: outcome for outcome in made}
        return [outcomes[trial] for trial in trials]

    def preview(self, trials: Sequence[Trial], folder: Path) -> str:
        """What make_all() would do, as text; needs no Slurm."""
        damaged = {trial: f"# {why}" for trial in trials if (why := trial.damage())}
        trials = [trial for trial in seed_by_seed(trials) if trial not in damaged]
        if self.slurm is None:
            commands = [shlex.join(["python", *trial.command(self.ranks)[1:]]) for trial in trials]
            return "\n".join([*damaged.values(), *commands])
        from launch.slurm.jobs import sbatch_file

        commands = [shlex.join(["python", "-m", "fl_ddp.main", *trial.options_now()]) for trial in trials]
        script = [sbatch_file(trials, self.slurm, folder, self.parallel)] if trials else []
        return "\n".join([*damaged.values(), *commands, *script])


def seed_by_seed(trials: Sequence[Trial]) -> list[Trial]:
    """All trials of the first seed, then of the next: two that differ in it alone would compile the same step at once.

    And a table of all settings is there sooner. One that cannot be read is among the first.
    """
    places: dict[int, int] = {}
    place_of: dict[Trial, int] = {}
    for trial in trials:
        with suppress(ConfigError):  # what is wrong with it is said when it is made
            place_of[trial] = places.setdefault(trial.config.seed, len(places))
    return sorted(trials, key=lambda trial: place_of.get(trial, 0))


def read_executor(words: Words, parallel: int | None) -> Executor:
    """Read ExecutorOptions, and SlurmOptions if they are asked for.

    Args:
        words: a command line.
        parallel: runs at once here, where that is not given.

    Raises:
        ConfigError: one of them is not accepted, or not with the others.
    """
    asked = words.read(ExecutorOptions)
    here = asked.executor == "local"
    if here and (given := words.given_of(SlurmOptions)):
        raise _not_of_this_machine(given[0])
    return Executor(
        parallel=parallel if here and asked.parallel is None else asked.parallel,
        ranks=asked.ranks or 1,
        slurm=None if here else words.read(SlurmOptions),
        wait=asked.wait,
    )


def _not_of_this_machine(option: str) -> ConfigError:
    return ConfigError(f"--{option}", "says nothing about runs on this machine; give --executor slurm with it")
