"""What the public implementations ran, as options of this program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from federation import COHORTS, EVERYBODY, Samples, alike, samples


class Case(NamedTuple):
    """A run that must leave the numbers of a public implementation.

    Attributes:
        options: of the method and of the run.
        cohorts: who trains in which round.
        network: class of federation.py.
        samples: of a client.
        exact: largest difference of a number.
    """

    options: Mapping[str, object]
    cohorts: Sequence[Sequence[int]] = COHORTS
    network: str = "Network"
    samples: Callable[[int], Samples] = samples
    exact: float = 1e-12


def of(method: str, **options: object) -> Mapping[str, object]:
    """A method with its options."""
    return {"method": method, **{f"method.{name}": value for name, value in options.items()}}


CASES = {
    "pfllib: fedavg": Case(of("FedAvg")),
    "pfllib: fedprox": Case(of("FedProx", mu=0.5)),
    "pfllib: scaffold": Case(of("Scaffold", server_lr=0.7)),
    # who comes later has an untrained model for its previous one there
    "pfllib: moon": Case(of("MOON", mu=2.0, tau=0.5), cohorts=EVERYBODY),
    "pfllib: fedntd": Case(of("FedNTD", beta=0.8, tau=2.0, weights="uniform")),
    "pfllib: ditto": Case(of("Ditto", lam=0.6)),
    "pfllib: fedbn": Case(of("FedBN"), network="Normed"),
    "pfllib: fedper": Case(of("FedPer")),
    "pfllib: fedrep": Case(of("FedRep", head_epochs=3)),
    "pfllib: fedrod": Case(of("FedRoD")),
    "pfllib: fedala": Case(of("FedALA", eta=1.0, share=1.0, layers=2), cohorts=EVERYBODY),
    # the library adds 1e-5 to a distance
    "pfllib: fedfomo": Case(of("FedFomo", models=4, epsilon=0.0), cohorts=EVERYBODY, samples=alike, exact=1e-4),
}
