"""Trials as jobs of Slurm, through submitit: submitted all together or not at all, and known from then on."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from contextlib import redirect_stderr, suppress
from pathlib import Path

from submitit import Job
from submitit.slurm.slurm import SlurmExecutor

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError, one_line
from fl_ddp.host.atomic_file import write_text, writing
from fl_ddp.results.run_folder import FolderInUseError, RunFolder
from launch.run.failure import failure_beside, read_failure
from launch.run.made_folders import made_folders
from launch.run.trial import Trial
from launch.slurm.options import SlurmOptions
from launch.slurm.rank import Rank
from launch.slurm.submitted import Submitted, unfinished


def submit(trials: Sequence[Trial], options: SlurmOptions, folder: Path, parallel: int | None) -> list[Job[None]]:
    """Submit one job, or one job array.

    Args:
        trials: an element of the array each.
        options: what every job asks for.
        folder: for the files of submitit and of Slurm; seen by all nodes.
        parallel: most jobs at once; None is all.

    Returns:
        the jobs, in the order of the trials.

    Raises:
        ConfigError: sbatch refuses, a folder cannot be made, or another command is submitting from it; nothing is
            submitted.
        RunError: a file cannot be written when sbatch may have the jobs.
    """
    executor = _executor(trials, options, folder, parallel)
    try:
        with made_folders({folder, *(trial.folder.parent for trial in trials)}), RunFolder(folder) as held:
            _refuse_submitted(trials, folder)
            before = _not_submitted(folder)
            try:
                ranks = [_rank(trial, folder, options) for trial in trials]
                with redirect_stderr(io.StringIO()), writing(folder):  # submitit prints there what its error says, too
                    jobs = executor.submit_array(ranks)
            except BaseException:
                for left in _not_submitted(folder) - before:
                    left.unlink()
                held.leave_empty()
                raise
            for trial, job in zip(trials, jobs, strict=True):
                Submitted(job.job_id, str(folder.absolute())).write(trial.folder)
    except FolderInUseError as error:
        raise ConfigError(folder, "another command submits from it just now; call this one again") from error
    except OSError as error:
        raise ConfigError(folder, f"cannot be written ({error.strerror})") from error
    except RuntimeError as error:
        raise ConfigError("sbatch refuses", f"{one_line(error)}; nothing is submitted") from error
    for trial, job in zip(trials, jobs, strict=True):
        file = failure_beside(trial.folder)
        # a job that fails at once may have left its own by now
        with suppress(ConfigError):  # the jobs are submitted, whatever this file is
            if (old := read_failure(file)) and old.job != job.job_id:
                file.unlink()
    return jobs


def _refuse_submitted(trials: Sequence[Trial], folder: Path) -> None:
    """Refuse what another command has submitted since this one looked into the queue, which it did without the lock.

    Raises:
        ConfigError: there is something.
    """
    if there := unfinished(trials):
        what = f"another command has just submitted {', '.join(there)}; call this one again"
        raise ConfigError(folder, what)


def sbatch_file(trials: Sequence[Trial], options: SlurmOptions, folder: Path, parallel: int | None) -> str:
    """The file that submit() would give to sbatch; needs no Slurm."""
    executor = _executor(trials, options, folder, parallel)
    if len(trials) > 1:
        executor.parameters["map_count"] = len(trials)
    return executor._make_submission_file_text(executor._submitit_command_str, "")


def _rank(trial: Trial, folder: Path, options: SlurmOptions) -> Rank:
    """A trial as its job has it: whatever becomes of the user's files, its options are those of this moment."""
    settings = to_yaml(with_absolute_paths(trial.config))
    digest = hashlib.sha256(settings.encode()).hexdigest()[:12]  # a file's name says what is in it: none is replaced
    file = folder.absolute() / f"{trial.folder.name}-{digest}.yaml"
    write_text(file, settings)
    place, first = str(trial.folder.absolute()), (f"--config={file}",)
    return Rank(place, first, trial.free_options, options.grace, options.requeues > 0)


def _not_submitted(folder: Path) -> set[Path]:
    """Files that are written before Slurm is asked; those of a job begin with its id."""
    return {*folder.glob(f"{'[0-9a-f]' * 32}.pkl"), *folder.glob(".submission_file_*.sh"), *folder.glob("*.yaml")}


class _Executor(SlurmExecutor):
    """Submitit's, which can also be asked for its sbatch file where there is no Slurm."""

    @classmethod
    def affinity(cls) -> int:
        """Available, as far as this is concerned: check_slurm() has looked."""
        return 2


def _executor(trials: Sequence[Trial], options: SlurmOptions, folder: Path, parallel: int | None) -> SlurmExecutor:
    executor = _Executor(folder, max_num_timeout=options.requeues)
    # since Slurm 22.05 srun does not take cpus_per_task from the job; a rank that dies takes the others with it
    cpus = [f"--cpus-per-task={options.cpus_per_task}"] if options.cpus_per_task else []
    executor.update_parameters(
        job_name=trials[0].folder.name if len(trials) == 1 else folder.name.removesuffix(".slurm"),
        time=options.minutes,
        ntasks_per_node=options.ranks_of_node,
        signal_delay_s=options.grace,
        array_parallelism=parallel or len(trials),
        srun_args=["--kill-on-bad-exit=1", *cpus],
        additional_parameters={
            "requeue" if options.requeues else "no-requeue": True,
            **options.given_to_sbatch,
            **{key: value or True for key, value in options.further.items()},
        },
        setup=list(options.setup) or None,
    )
    return executor
