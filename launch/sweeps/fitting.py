"""Grids over methods, or other choices, and over options that only some of them have."""

from __future__ import annotations

from collections.abc import Sequence

from fl_ddp.config import registry
from fl_ddp.config.command_line import mapping_layer
from fl_ddp.config.registry import KINDS
from launch.sweeps.points import Axis, Point


def fitting(points: Sequence[Point], axes: Sequence[Axis]) -> list[Point]:
    """The points without options that their choice does not have and another one has; each of what is left once.

    So --grid method=FedAvg,FedProx --grid method.mu=0.1,1 is FedAvg once and FedProx twice. An option that none of the
    choices has stays, for the message that it is unknown; so does one that a list of points gives beside its choice, or
    of a point that leaves the choice to the options that all have.

    Args:
        points: of a sweep.
        axes: that they are of; only what another axis chooses is looked at.

    Raises:
        ConfigError: a choice is unknown.
    """
    axis = {key: each for each in axes for key in each.keys}
    chosen_apart = [key for key in axis if _kind(key) in KINDS and axis.get(_kind(key), axis[key]) is not axis[key]]
    for key in chosen_apart:
        chosen = {point[_kind(key)] for point in points if _kind(key) in point}
        takers = {each for each in chosen if _takes(key, each)}
        if takers:
            others = chosen - takers
            points = [_without(point, key) if point.get(_kind(key)) in others else point for point in points]
    return list({tuple(sorted(point.items())): point for point in points}.values())


def _kind(key: str) -> str:
    return key.partition(".")[0]


def _without(point: Point, key: str) -> Point:
    return {each: value for each, value in point.items() if each != key}


def _takes(key: str, choice: str) -> bool:
    """Whether a choice, as the command line writes it, has an option."""
    kind = _kind(key)
    named = mapping_layer({kind: choice})[kind].value
    owner = registry.load(kind, registry.class_path(kind, str(named), f"--{kind}"))
    return key.partition(".")[2] in registry.options(kind, owner).by_name
