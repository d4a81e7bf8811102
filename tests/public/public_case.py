"""A run that must leave the numbers of a public implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from federation import COHORTS, Samples, samples


class Case(NamedTuple):
    """A run that must leave the numbers of a public implementation.

    Attributes:
        options: of the method and of the run.
        cohorts: who trains in which round.
        network: class of federation.py.
        samples: of a client.
        work: what each client's epochs are multiplied by; 1 where nothing is said.
        exact: largest difference of a number.
    """

    options: Mapping[str, object]
    cohorts: Sequence[Sequence[int]] = COHORTS
    network: str = "Network"
    samples: Callable[[int], Samples] = samples
    work: Sequence[float] = ()
    exact: float = 1e-12


def of(method: str, **options: object) -> dict[str, object]:
    """A method with its options."""
    return {"method": method, **{f"method.{name}": value for name, value in options.items()}}
