"""The runs of a sweep, planned and checked before any of them starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fl_ddp.errors import ConfigError
from launch.input.words import key_of
from launch.run.planned import PlannedRun
from launch.sweeps.folder import Sweep
from launch.sweeps.points import Axis, Point


def plan(sweep: Sweep, axes: Sequence[Axis]) -> dict[str, PlannedRun]:
    """The runs of all points of a sweep, by the names of their folders.

    Args:
        sweep: with its options and points.
        axes: that the user gave now, for messages.

    Raises:
        ConfigError: an option is unknown or impossible, given twice, or two points are the same run.
    """
    for axis in axes:
        for key in axis.keys:
            if key in map(key_of, sweep.base):
                raise ConfigError(f"{axis.source}: --{key} is given to all runs already; leave one of the two out")
    runs: dict[str, PlannedRun] = {}
    seen: dict[str, str] = {}
    for name, entry in sweep.entries.items():
        varied = (f"--{key}={value}" for key, value in entry.point.items())
        run = PlannedRun(name, sweep.folder / name, (*sweep.base, *varied))
        try:
            same = repr(replace(run.config, name=None))
        except ConfigError as error:
            raise ConfigError(_place(str(error), name, axes)) from error
        if same in seen:
            other = seen[same]
            source = _varies(axes, entry.point, sweep.entries[other].point)
            raise ConfigError(f"{source}the points {other} and {name} are the same run; leave one of them out")
        seen[same] = name
        runs[name] = run
    return runs


def _place(message: str, name: str, axes: Sequence[Axis]) -> str:
    """A message with the option that gave the value it is about, or with the point."""
    for axis in axes:
        if any(message.startswith(f"--{key}: ") for key in axis.keys):
            return f"{axis.source}: {message}"
    return f"{message} (point {name})"


def _varies(axes: Sequence[Axis], one: Mapping[str, str], other: Point) -> str:
    """The option that makes two points differ."""
    return next((f"{a.source}: " for a in axes if any(one.get(k) != other.get(k) for k in a.keys)), "")
