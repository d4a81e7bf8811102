"""Two runs of a case, number by number."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from evaluation import Row
from local_training import Model
from parameters import Parameters
from reference_run import module_of
from round_loop import Round
from shared_options import Options
from torch import Tensor

EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}
"""How far numbers may be apart, as a share of what moved in their tensor, by the model's type."""
ROUNDING = {torch.float64: 1e-15, torch.float32: 1e-7}
"""How far they may be apart for want of digits, as a share of their vector's largest, now or at the start."""
FLOOR = 1e-15
"""How far numbers may be apart that are 0 but for the rounding of numbers of order 1."""


class Difference(NamedTuple):
    """A tensor, or a column of metrics.csv, that two runs do not agree in.

    Attributes:
        round: in which.
        what: its name.
        gap: the largest difference; nan if one of the runs does not have it.
        moved: what it is a large share of.
    """

    round: int
    what: str
    gap: float
    moved: float


def start_of(case: Options) -> Parameters:
    """theta_0."""
    return Model(module_of(case)).initial()


def differences(
    case: Options, found: Sequence[Round], expected: Sequence[Round], exact: float | None = None
) -> list[Difference]:
    """What is not the same in two runs of a case.

    Args:
        case: its options.
        found: its rounds.
        expected: what they should be.
        exact: how far numbers may be apart, as a share of what moved in their tensor; EXACT's if not given.
    """
    dtype = next(module_of(case).parameters()).dtype
    share, rounding, start = exact or EXACT[dtype], ROUNDING[dtype], start_of(case)
    return [
        Difference(t + 1, *line)
        for t, (ours, theirs) in enumerate(zip(found, expected, strict=True))
        for line in [
            *_of_state(ours, theirs, start, share, rounding),
            *_of_last_rounds(ours, theirs),
            *_of_row(ours.row, theirs.row, share),
        ]
    ]


Line = tuple[str, float, float]
"""A difference without its round."""


def _of_state(found: Round, expected: Round, start: Parameters, exact: float, rounding: float) -> Iterator[Line]:
    ours, theirs = _vectors(found), _vectors(expected)
    yield from ((name, math.nan, math.nan) for name in sorted(ours.keys() ^ theirs.keys()))
    for name in sorted(ours.keys() & theirs.keys()):
        before = start if name == "server: theta" else theirs[name].filled(0)
        noise = rounding * max(theirs[name].absolute().largest(), before.absolute().largest()) + FLOOR
        for tensor, own in theirs[name].items():
            same = ours[name][tensor].shape == own.shape
            gap, moved = _largest(ours[name][tensor] - own) if same else math.nan, _largest(own - before[tensor])
            if not gap <= exact * moved + noise:
                yield f"{name}, {tensor}", gap, moved


def _of_last_rounds(found: Round, expected: Round) -> Iterator[Line]:
    """Of the clients of which it is known when they last took part; most methods need not know."""
    for k in found.last.keys() & expected.last.keys():
        if found.last[k] != expected.last[k]:
            yield f"client {k}: its last round", abs(found.last[k] - expected.last[k]), 1


def _of_row(found: Row, expected: Row, exact: float) -> Iterator[Line]:
    ours, theirs = ({name: v for name, v in row.items() if not math.isnan(v)} for row in (found, expected))
    for name in sorted(ours.keys() | theirs.keys()):
        here, there = ours.get(name, math.nan), theirs.get(name, math.nan)
        if not abs(here - there) <= exact * abs(there) + FLOOR:
            yield name, abs(here - there), abs(there)


def _vectors(kept: Round) -> dict[str, Parameters]:
    """All of a round's state."""
    server = {f"server: {name}": vector for name, vector in kept.server.items()}
    return server | {f"client {k}: {n}": vector for k, known in kept.memory.items() for n, vector in known.items()}


def _largest(t: Tensor) -> float:
    return float(t.abs().max())
