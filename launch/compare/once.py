"""Each seed counts once: of runs with the same settings and seed one is taken, and none where their results differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launch.compare.found_runs import FoundRun
from launch.run.stored import Run

_OF_BITS = ("device", "cpu", "gpus", "torch", "fl_ddp", "lanes", "mkl_cbwr")
"""What a summary says of a run's machine that can change its bits."""


@dataclass(frozen=True)
class Once:
    """Runs, each seed once.

    Attributes:
        runs: in the order of their seeds.
        again: what has been counted already.
        differing: messages on seeds that are left out: their runs should be the same and are not.
    """

    runs: tuple[FoundRun, ...]
    again: tuple[FoundRun, ...]
    differing: tuple[str, ...]


def once(runs: Sequence[FoundRun]) -> Once:
    """Of the runs of each seed, all of the same settings, the one that is furthest."""
    by_seed: dict[int, list[FoundRun]] = {}
    for run in sorted(runs, key=lambda each: (each.state != "finished", -each.run.rounds)):
        by_seed.setdefault(run.seed, []).append(run)
    taken, again, differing = [], [], []
    for seed in sorted(by_seed):
        first, *others = by_seed[seed]
        words = [f"{first.run.folder} and {each.run.folder}: {why}" for each in others if (why := _differ(first, each))]
        if words:
            differing += [f"{each}, though settings and seed are the same; the seed is left out" for each in words]
        else:
            taken.append(first)
            again += others
    return Once(tuple(taken), tuple(again), tuple(differing))


def _differ(a: FoundRun, b: FoundRun) -> str:
    """How two runs' results differ in the rounds that both have; empty if they do not."""
    for name in sorted(a.run.curves.keys() & b.run.curves.keys()):
        ours, theirs = dict(a.run.curves[name]), dict(b.run.curves[name])
        for number in sorted(ours.keys() & theirs.keys()):
            if math.isnan(ours[number]) and math.isnan(theirs[number]):
                continue
            if ours[number] != theirs[number]:
                both = tuple(f"{value:g}" for value in (ours[number], theirs[number]))
                first, second = both if len({*both}) > 1 else (ours[number], theirs[number])
                return f"{name} of round {number} is {first} and {second}{_machines(a.run, b.run)}"
    if a.run.rounds == b.run.rounds and _parameters(a.run) != _parameters(b.run):
        return f"the final parameters differ{_machines(a.run, b.run)}"
    return ""


def _parameters(run: Run) -> object:
    return run.summary.get("parameters_sha256")


def _machines(a: Run, b: Run) -> str:
    """What the runs say of their machines that is not the same."""
    ours, theirs = _environment(a), _environment(b)
    apart = [key for key in _OF_BITS if ours.get(key) != theirs.get(key)]
    words = "; ".join(f"{key} {ours.get(key)} and {theirs.get(key)}" for key in apart)
    return f" ({words})" if apart else ""


def _environment(run: Run) -> Mapping[str, object]:
    parts = [part for key in ("environment", "numerics") if isinstance(part := run.summary.get(key), Mapping)]
    return {key: value for part in parts for key, value in part.items()}
