"""One run, from its configuration to its results; what was finished before a stop or an error is saved."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from shlex import quote

import torch

from fl_ddp.arithmetic.products import BY_PLACE, products_by_place
from fl_ddp.arithmetic.repeatable import as_it_begins, repeatable
from fl_ddp.building.same_options import digest, refuse_other_options
from fl_ddp.config.settings import Config
from fl_ddp.course.callbacks import Callback, callbacks_in
from fl_ddp.errors import (
    ConfigError,
    DeviceError,
    DivergedError,
    ElsewhereError,
    InterruptedRunError,
    RankLostError,
    RunError,
    StatesDifferError,
    in_one_line,
    left_early,
)
from fl_ddp.federation import Federation, build_federation
from fl_ddp.host.device_errors import of_device
from fl_ddp.host.environment import prepare
from fl_ddp.host.forked import refuse_forked
from fl_ddp.host.interrupt import StopRequest, listening
from fl_ddp.notebook.asked import asked
from fl_ddp.notebook.result import Result
from fl_ddp.ranks.checksum import checksum
from fl_ddp.ranks.cohort import agreed_lanes
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.meeting import join_to_tell
from fl_ddp.ranks.slurm import rank_variables
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.records import Records
from fl_ddp.simulation import Simulation
from fl_ddp.versions.users_code import refuse_stale


@as_it_begins()
def simulate(config: object, callbacks: Sequence[Callback], options: Mapping[str, object]) -> Result:
    """Run a simulation in this process; see fl_ddp.simulate."""
    prepare()
    os.environ.update(rank_variables(os.environ))
    given, refused = None, None
    try:
        given, callbacks = asked(config, options), callbacks_in(callbacks)
        refuse_stale(given.config)
    except Exception as error:  # which other ranks may not have, and would wait for this one
        refused = error
    with listening(owns_process=False) as stop:
        ranks, refused = join_to_tell(given.config if given else None, refused, stop.check)
        try:
            ranks.agree(refused)
            assert given is not None
            ranks.together(partial(_refuse_others, ranks.share(given.of_rank), given.of_rank))
            refuse_forked()
            result = Result(run(given.config, ranks, stop, callbacks, given.module), given.module)
        except (RankLostError, DeviceError):
            raise  # a broken group cannot be left
        except BaseException:
            ranks.close()
            raise
        ranks.close()
        return result


def _refuse_others(of_first: str, of_rank: str) -> None:
    """Refuse a notebook's arrays or module that are not those of rank 0."""
    if of_rank != of_first:
        raise ConfigError(
            "data, partition, model and the like", "are not the same on all ranks", "draws with the same seed on each"
        )


def run(
    config: Config,
    ranks: Ranks,
    stop: StopRequest,
    callbacks: Sequence[Callback] = (),
    module: torch.nn.Module | None = None,
) -> dict[str, object]:
    """Run, or go on with, what a configuration asks for; on all ranks alike.

    Args:
        config: all settings.
        ranks: of the run.
        stop: asked before every local step.
        callbacks: that rank 0 calls with the record of each round.
        module: the model, where a notebook has given it as an object.

    Returns:
        the content of summary.json, on rank 0.

    Raises:
        ConfigError: the configuration cannot be run.
        RunError: the run failed; what was finished before is saved.
        RankLostError: another rank is gone.
        DeviceError: a GPU failed; the last checkpoint is what there is.
        InterruptedRunError: a stop was asked for; what was finished is saved.
    """
    with repeatable(ranks.device.type, tf32=config.precision == "tf32"):
        refuse_other_options(config, ranks)
        federation = ranks.together(partial(_built, config, ranks, module))
        _refuse_unlike(federation, config, ranks)
        if config.lanes == "auto" and ranks.device.type == "cuda":  # of whose memory they are a function
            federation = replace(federation, lanes=agreed_lanes(federation.lanes, ranks))
        records = Records(config, ranks, federation, callbacks)
        try:
            if records.done:
                records.tell(f"{records.path} is finished; a larger --rounds goes on with it")
                return records.done
            # of each rank, whose process may have had other products before
            if ranks.add(torch.tensor([float(products_by_place(ranks.device.type))])) > 0:
                records.tell(BY_PLACE)
            with one_torch_thread(ranks.device.type):
                simulation = Simulation(config, ranks, stop, federation, records)
                helped = partial(_with_way_out, federation, config.loss, records)
                saved = _saved_whatever_comes(simulation, ranks, records, helped)
                with _drift_told_once(ranks), saved, _exits_told(ranks):
                    for _ in simulation.rounds():
                        pass
                    if records.stopped:
                        records.tell(f"ended after round {simulation.finished}: {records.stopped}")
                    theta = simulation.server["theta"]
                    return records.close(simulation.finished, theta, simulation.seconds_since_record())
        except RankLostError as lost:
            raise RankLostError(f"{lost}; go on with --resume {quote(str(records.path))}") from lost
        except (InterruptedRunError, ElsewhereError):
            raise
        except Exception as error:
            records.note_failure(in_one_line(error))
            raise
        finally:
            records.release()


def _built(config: Config, ranks: Ranks, module: torch.nn.Module | None) -> Federation:
    try:
        return build_federation(config, ranks, module)
    except (ConfigError, RuntimeError, MemoryError) as error:
        cause = error
        if isinstance(error, ConfigError) and isinstance(error.__cause__, RuntimeError):
            cause = error.__cause__  # a GPU's failure is no mistake of the model that was tried on it
        if (told := of_device(cause, None)) is not None:
            raise told from error
        raise


def _refuse_unlike(federation: Federation, config: Config, ranks: Ranks) -> None:
    """Refuse what is read or drawn, by seeds alone, and not the same on all ranks."""
    if ranks.size == 1:
        return
    there, worlds, pace = federation.turnout.availability, federation.worlds, federation.pace
    dealt = "--partition, --stream or --class_reduction" if config.class_reduction else "--partition or --stream"
    by_seeds = "the same on each, by generators with seeds"
    told = {
        "--data": ("gives other samples on another rank", by_seeds),
        dealt: ("deals the samples out otherwise on another rank", by_seeds),
        "--availability": ("has other intervals on another rank", "the same on each"),
        "--client_lr": ("gives other factors on another rank", "the same on each"),
        "--client_work": ("gives other factors on another rank", "the same on each"),
    }

    def digests() -> list[int]:
        """Of the samples, what is made of them, who can be reached and how much each does: below 2^48."""
        texts = ["|".join((worlds.sha256, worlds.reductions, *federation.classes)), there.text if there else ""]
        pieces = checksum(worlds.samples).tolist()
        of_samples = sum(piece << 16 * i for i, piece in enumerate(pieces[:3]))
        return [of_samples, *map(digest, [*texts, pace.texts["client_lr"], pace.texts["client_work"]])]

    alike = [ranks.agree(None, each) for each in ranks.together(digests)]

    def refuse() -> None:
        for (option, (what, accepted)), same in zip(told.items(), alike, strict=True):
            if not same:
                raise ConfigError(option, what, accepted)

    ranks.together(refuse)


@contextmanager
def _drift_told_once(ranks: Ranks) -> Iterator[None]:
    """Of states that differ, which all ranks hear alike, one rank tells; a checkpoint may find it, too."""
    try:
        yield
    except StatesDifferError as error:
        ranks.agree(error)
        raise


@contextmanager
def _exits_told(ranks: Ranks) -> Iterator[None]:
    """A user's file that would end the program is an error; to several ranks, it is a rank that is lost."""
    try:
        yield
    except SystemExit as left:
        if ranks.size > 1:
            raise
        raise left_early(left) from left


@contextmanager
def _saved_whatever_comes(
    simulation: Simulation, ranks: Ranks, records: Records, helped: Callable[[Exception], Exception | None]
) -> Iterator[None]:
    """Save what was finished before a stop or an error of the block, which is told with what may help."""
    try:
        yield
    except (RankLostError, StatesDifferError):
        raise
    except DeviceError as failure:
        raise failure.saying_more(f"; go on with --resume {quote(str(records.path))}") from failure
    except InterruptedRunError:
        simulation.save()
        stopped = f"stopped after round {simulation.finished}; go on with --resume {quote(str(records.path))}"
        records.tell(stopped)
        raise InterruptedRunError(stopped) from None
    except Exception as error:
        told = of_device(error, records.lanes)
        if isinstance(told, DeviceError):
            raise told.saying_more(f"; go on with --resume {quote(str(records.path))}") from error
        try:
            simulation.save()
        except (RankLostError, StatesDifferError, DeviceError):
            raise
        except Exception as another:  # what came first is told as the error, with what is saved
            if in_one_line(another) != in_one_line(error):
                records.tell(f"warning: not saved: {in_one_line(another)}")
        records.settle()
        ranks.agree(helped(told or error))
        raise


def _with_way_out(federation: Federation, loss: str, records: Records, error: Exception) -> Exception | None:
    """An error of this rank with what may help; nothing where the error is another rank's."""
    if isinstance(error, ElsewhereError):
        return None
    if not isinstance(error, RunError):
        return error
    # local steps follow the gradient of a prior that the method can also solve, which never diverges
    method = federation.method
    explicit = getattr(method, "penalty_step", "") == "explicit" and getattr(method, "lam", 1.0) > 0
    if isinstance(error, DivergedError) and explicit:
        error = error.saying_more(", so does --method.penalty_step proximal")
    if isinstance(error, DivergedError) and federation.model.running:
        error = error.saying_more(
            ", so do inputs scaled to about 1, whose variance BatchNorm sends (--data.normalize true)"
        )
    if isinstance(error, DivergedError) and loss == "mse":
        error = error.saying_more(", so do targets scaled to about 1 (--loss mse)")
    if records.saved > 0:
        error = error.saying_more(f"; round {records.saved} is saved in {records.path / 'checkpoints'}")
    return error
