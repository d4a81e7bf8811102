"""Runs made on this machine, several at once: each on GPUs of its own, or on its share of the CPU cores."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from queue import SimpleQueue
from threading import Lock

from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import is_held
from launch.local.processes import Stop
from launch.local.progress import RunProgress
from launch.run.log import killed, last_words
from launch.run.outcome import Outcome
from launch.run.planned import PlannedRun

_READING = Lock()
"""Held where options are parsed: all threads share the parsers."""


def make_here(
    runs: Sequence[PlannedRun], *, ranks: int, parallel: int | None, note: Callable[[Outcome], None]
) -> list[Outcome]:
    """Make the runs that are not finished, and show how far they are.

    Args:
        runs: to be made.
        ranks: processes of each.
        parallel: runs at once; None is as many as there are GPUs or cores for.
        note: is called with each outcome as it comes.

    Returns:
        the outcomes in the order of the runs.
    """
    gpus = _gpus(runs)
    most = max((len(gpus) or _cores()) // ranks, 1) if parallel is None else parallel
    places = places_for(min(most, len(runs)), ranks, gpus, _cores())
    free: SimpleQueue[Mapping[str, str]] = SimpleQueue()
    for place in places:
        free.put(place)
    outcomes: dict[PlannedRun, Outcome] = {}
    with Stop() as stop, RunProgress(len(runs)) as progress:

        def make(run: PlannedRun) -> Outcome:
            place = free.get()
            try:
                start = time.monotonic()
                return replace(_make(run, ranks, place, stop, progress), seconds=time.monotonic() - start)
            finally:
                free.put(place)

        with ThreadPoolExecutor(max(len(places), 1)) as threads:
            try:
                for future in as_completed([threads.submit(make, run) for run in runs]):
                    outcome = future.result()
                    outcomes[outcome.run] = outcome
                    if outcome.state != "not started":
                        note(outcome)
                        progress.show(outcome)
            except BaseException:
                stop.ask()
                raise
    return [outcomes[run] for run in runs]


def _make(run: PlannedRun, ranks: int, place: Mapping[str, str], stop: Stop, progress: RunProgress) -> Outcome:
    """Make one run, unless it is finished."""
    try:
        with _READING:
            found = run.found()
            if found and found.ended:
                return Outcome(run, "finished", "was finished")
            if stop.asked:
                return Outcome(run, "not started", "not started")
            if is_held(run.folder):
                return Outcome(run, "stopped", "another run is writing in its folder; wait until it ends")
            run.clear()
            command = run.command(ranks)
        progress.started(run)
        size = run.log.stat().st_size if run.log.is_file() else 0
        code = stop.run(command, run.log, place)
        with _READING:
            found = run.found()
    except (ConfigError, OSError) as error:
        return Outcome(run, "failed", str(error))
    if code == 0 and found and found.ended:
        return Outcome(run, "finished", "finished")
    if not code or (stop.asked and code == 130):  # 130: quit at once, by a second Ctrl-C
        return Outcome(run, "stopped", f"stopped after round {found.rounds if found else 0}; the same command goes on")
    why = killed(code) if code < 0 else last_words(run.log, size)
    return Outcome(run, "failed", f"{why} ({run.log})")


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


def _gpus(runs: Sequence[PlannedRun]) -> list[str]:
    """The GPUs that the runs may use, as CUDA_VISIBLE_DEVICES names them; none if they all run on the CPU."""
    import torch  # takes seconds

    if all(run.config.device == "cpu" for run in runs):
        return []
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [str(index) for index in range(torch.cuda.device_count())]
    return names[: torch.cuda.device_count()]


def _cores() -> int:
    return len(os.sched_getaffinity(0))
