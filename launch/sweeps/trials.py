"""The trials of a sweep, all checked before any of them starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fl_ddp.errors import ConfigError
from launch.input.words import key_of
from launch.run.trial import Trial
from launch.sweeps.folder import Sweep
from launch.sweeps.points import Axis, Point


def trials_of(sweep: Sweep, axes: Sequence[Axis]) -> dict[str, Trial]:
    """A trial for each point of a sweep, by the names of their folders.

    Args:
        sweep: with its options and points.
        axes: that the user gave now, for messages.

    Raises:
        ConfigError: an option is unknown or impossible, given twice, or two points are the same run.
    """
    for axis in axes:
        for key in axis.keys:
            if key in map(key_of, sweep.base):
                raise ConfigError(axis.source, f"--{key} is given to all runs already; leave one of the two out")
    trials: dict[str, Trial] = {}
    settings: dict[str, str] = {}
    for name, entry in sweep.entries.items():
        varied = (f"--{key}={value}" for key, value in entry.point.items())
        trials[name] = Trial(name, sweep.folder / name, (*sweep.base, *varied))
        try:
            settings[name] = repr(replace(trials[name].config, name=None))
        except ConfigError as error:
            raise error.within(_giver(error, axes) or f"point {name}") from error
    seen: dict[str, str] = {}
    for name, of_run in settings.items():
        if other := seen.get(of_run):
            what = f"the points {other} and {name} are the same run; "
            if source := _varies(axes, sweep.entries[name].point, sweep.entries[other].point):
                raise ConfigError(source, f"{what}leave one of them out")
            raise ConfigError(sweep.folder, f"{what}one is of an earlier call of this sweep; choose another --name")
        seen[of_run] = name
    return trials


def _giver(error: ConfigError, axes: Sequence[Axis]) -> str | None:
    """The option of the sweep that gave the value an error is about."""
    return next((axis.source for axis in axes if error.where in {f"--{key}" for key in axis.keys}), None)


def _varies(axes: Sequence[Axis], one: Point, other: Point) -> str | None:
    """The option of the sweep that makes two points differ."""
    return next((a.source for a in axes if any(one.get(key) != other.get(key) for key in a.keys)), None)
