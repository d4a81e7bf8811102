"""Where the runs of a launcher are made: here, or as a job array of Slurm."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fl_ddp.errors import ConfigError
from launch.input.words import Words, whole_number
from launch.local.runs import make_here
from launch.run.outcome import Outcome
from launch.run.planned import PlannedRun
from launch.slurm.options import SLURM_HELP, SLURM_VALUES, SlurmOptions, read_slurm_options

EXECUTOR_HELP = f"""\
  --executor WHERE      local: here, each on GPUs of its own or its share of the cores; slurm: a job array [local]
  --parallel N          most runs at once, of each array with slurm [{{parallel}}]
  --ranks N             processes of each run, through torchrun; not with slurm, where --nodes ... say it [1]
With --executor slurm:
  --wait                follow the jobs to their ends
{SLURM_HELP}"""
"""Lines for a launcher's --help; the default of --parallel is left open."""

EXECUTOR_SWITCHES = ("wait",)
EXECUTOR_VALUES = ("executor", "parallel", "ranks", *SLURM_VALUES)


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
        self, runs: Sequence[PlannedRun], folder: Path, note: Callable[[Outcome], None] = lambda _: None
    ) -> list[Outcome]:
        """Make the runs that are not finished, or submit them.

        Args:
            runs: to be made.
            folder: for the files of Slurm.
            note: is called with each outcome as it comes.

        Returns:
            the outcomes in the order of the runs.

        Raises:
            ConfigError: Slurm is not there or refuses; nothing is submitted.
        """
        if self.slurm is None:
            return make_here(runs, ranks=self.ranks, parallel=self.parallel, note=note)
        from launch.slurm.runs import make_there  # imports submitit, which only this needs

        return make_there(runs, self.slurm, folder, self.parallel, wait=self.wait, note=note)

    def plan(self, runs: Sequence[PlannedRun], folder: Path) -> str:
        """What make_all() would do, as text; needs no Slurm."""
        if self.slurm is None:
            return "\n".join(shlex.join(["python", *run.command(self.ranks)[1:]]) for run in runs)
        from launch.slurm.jobs import sbatch_file

        commands = [shlex.join(["python", "-m", "fl_ddp.main", *run.options_now()]) for run in runs]
        script = [sbatch_file(runs, self.slurm, folder, self.parallel)] if runs else []
        return "\n".join([*commands, *script])


def array_folder(folder: Path) -> Path:
    """Where in the folder of several runs the files of Slurm go; the array has its name."""
    return folder / f"{folder.name}.slurm"


def read_executor(split: Words, parallel: int | None) -> Executor:
    """Read the options named in EXECUTOR_VALUES and EXECUTOR_SWITCHES.

    Args:
        split: a command line, split with those among its values and switches.
        parallel: runs at once here, where that is not given.

    Raises:
        ConfigError: one of them is not accepted, or not with the others.
    """
    where = split.last("executor", "local")
    if where not in ("local", "slurm"):
        raise ConfigError("--executor", f"{where} is unknown", "local or slurm")
    given = [*(key for key in SLURM_VALUES if split.values[key]), *split.switches.intersection(EXECUTOR_SWITCHES)]
    if where == "local" and given:
        raise ConfigError(f"--{given[0]}", "says nothing about runs on this machine; give --executor slurm with it")
    if where == "slurm" and split.values["ranks"]:
        raise ConfigError(
            "--ranks", "is of runs on this machine; with --executor slurm give --nodes and --ranks_per_node"
        )
    at_once = whole_number("parallel", split.last("parallel", "")) if split.values["parallel"] else None
    return Executor(
        parallel=parallel if where == "local" and at_once is None else at_once,
        ranks=whole_number("ranks", split.last("ranks", "1")),
        slurm=read_slurm_options(split) if where == "slurm" else None,
        wait="wait" in split.switches,
    )
