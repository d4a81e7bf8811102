"""Runs made on this machine, several at once: each on GPUs of its own, or on its share of the CPU cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from queue import SimpleQueue
from threading import Lock

from fl_ddp.config import registry
from fl_ddp.datasets.download import Downloadable
from fl_ddp.errors import ConfigError
from fl_ddp.host.environment import usable_cores
from fl_ddp.host.failure_note import NOTE
from fl_ddp.results.run_folder import is_held
from fl_ddp.results.summary import read_summary
from launch.local.processes import Stop
from launch.local.progress import RunProgress
from launch.run.failure import failure_beside, read_failure
from launch.run.log import killed, last_words
from launch.run.outcome import Outcome
from launch.run.trial import Trial, clear

_READING = Lock()
"""Held where options are parsed: all threads share the parsers."""


def make_here(
    trials: Sequence[Trial],
    *,
    ranks: int,
    parallel: int | None,
    note: Callable[[Outcome], None],
    elsewhere: Mapping[str, str],
) -> list[Outcome]:
    """Make the runs that are not finished, and show how far they are.

    Args:
        trials: to be made.
        ranks: processes of each.
        parallel: runs at once; None is as many as there are GPUs or cores for.
        note: is called with each outcome as it comes.
        elsewhere: by label, why a run is not made here.

    Returns:
        the outcomes in the order of the trials.

    Raises:
        ConfigError: data of a run are missing; none is started.
    """
    _require_data(trials)
    gpus = _gpus(trials)
    most = max((len(gpus) or usable_cores()) // ranks, 1) if parallel is None else parallel
    places = places_for(min(most, len(trials)), ranks, gpus, usable_cores())
    free: SimpleQueue[Mapping[str, str]] = SimpleQueue()
    for place in places:
        free.put(place)
    outcomes: dict[Trial, Outcome] = {}
    with Stop() as stop, RunProgress(len(trials)) as progress:

        def make(trial: Trial) -> tuple[Outcome, Mapping[str, str]]:
            place = free.get()
            try:
                start = time.monotonic()
                made = _make(trial, ranks, place, stop, progress, elsewhere.get(trial.label))
                return replace(made, seconds=time.monotonic() - start), place
            except BaseException:
                free.put(place)
                raise

        with ThreadPoolExecutor(max(len(places), 1)) as threads:
            try:
                for future in as_completed([threads.submit(make, trial) for trial in trials]):
                    outcome, place = future.result()
                    outcomes[outcome.trial] = outcome
                    try:
                        if outcome.state != "not started":
                            note(outcome)
                            progress.show(outcome)
                    finally:
                        free.put(place)  # the next run begins once this one's end is told
            except BaseException:
                stop.ask()
                threads.shutdown(wait=False, cancel_futures=True)
                for place in places:  # those of runs that have ended are given back by nobody any more
                    free.put(place)
                raise
    return [outcomes[trial] for trial in trials]


def _require_data(trials: Sequence[Trial]) -> None:
    """See that the files of known data sets are there, which all runs would otherwise say one after another."""
    sources = {}
    for trial in trials:
        with suppress(ConfigError):  # what is wrong with one of them is said when it is made
            if not trial.is_finished():
                sources[repr(trial.config.data)] = trial.config.data
    for source in map(registry.build, sources.values()):
        if isinstance(source, Downloadable):
            source.require_files()


def _make(
    trial: Trial, ranks: int, place: Mapping[str, str], stop: Stop, progress: RunProgress, elsewhere: str | None
) -> Outcome:
    """Make one run, unless it is finished, or something else is to make it."""
    try:
        with _READING:
            found = trial.read_run()
            if found and found.ended:
                return Outcome(trial, "finished", "was finished")
            if stop.asked:
                return Outcome(trial, "not started", "not started")
            if elsewhere:
                return Outcome(trial, "stopped", elsewhere)
            if is_held(trial.folder):
                return Outcome(trial, "stopped", "another run is writing in its folder; wait until it ends")
            clear(trial.folder)
            command = trial.command(ranks)
        progress.started(trial)
        size = trial.log.stat().st_size if trial.log.is_file() else 0
        note = failure_beside(trial.folder)
        note.unlink(missing_ok=True)
        code = stop.run(command, trial.log, {**place, NOTE: str(note.absolute())})
        failure = read_failure(note)
        with _READING:
            found = trial.read_run()
    except (ConfigError, OSError) as error:
        return Outcome(trial, "failed", str(error))
    if code == 0 and found and found.ended:
        return Outcome(trial, "finished", "finished")
    # who starts several ranks fails whatever they do when it is stopped; 130: quit at once, by a second Ctrl-C
    if not code or (stop.asked and (code == 130 or not (failure and failure.would_come_again))):
        done = found.rounds if found else 0
        if not stop.asked and isinstance(told := read_summary(trial.folder).get("rounds"), int) and told > done:
            why = f"its metrics.csv has {done} rounds, and its summary.json {told}; remove its folder to make it anew"
            return Outcome(trial, "failed", f"{why} ({trial.folder})")
        return Outcome(trial, "stopped", f"stopped after round {done}; the same command goes on")
    told = failure.why if failure else None
    if code > 0 and failure and not failure.would_come_again:
        return Outcome(trial, "stopped", f"{told} ({trial.log}); the same command goes on")
    why = killed(code) if code < 0 else told or last_words(trial.log, size)
    return Outcome(trial, "failed", f"{why} ({trial.log})")


def places_for(number: int, ranks: int, gpus: Sequence[str], cores: int) -> list[Mapping[str, str]]:
    """What the environment of each of several runs at once says of its GPUs and threads; one alone has the machine.

    Args:
        number: of runs at once.
        ranks: processes of each.
        gpus: of the machine; runs share them where there are too few.
        cores: of the machine.
    """
    if number <= 1:
        return [{}] * number
    threads = max(cores // (number * ranks), 1)
    kept = os.environ.get("OMP_NUM_THREADS", str(threads))
    places: list[Mapping[str, str]] = []
    for place in range(number):
        own = dict.fromkeys(gpus[(place * ranks + rank) % len(gpus)] for rank in range(ranks)) if gpus else {}
        places.append({"OMP_NUM_THREADS": kept} | ({"CUDA_VISIBLE_DEVICES": ",".join(own)} if own else {}))
    return places


def _gpus(trials: Sequence[Trial]) -> list[str]:
    """The GPUs that the runs may use, as CUDA_VISIBLE_DEVICES names them; none if they all run on the CPU."""
    from fl_ddp.host.device_errors import usable_gpus  # imports torch, which takes seconds

    if all(trial.config.device == "cpu" for trial in trials):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    number = usable_gpus()
    names = visible.split(",") if visible else [str(index) for index in range(number)]
    return names[:number]
