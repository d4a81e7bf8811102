"""What libraries of federated learning ran, as options of this program."""

from __future__ import annotations

from collections.abc import Mapping

from federation import (
    ARRIVING,
    EVERYBODY,
    alike,
)
from public_case import Case, of


def fedcurv(lam: float, **options: object) -> Mapping[str, object]:
    """With the squares of batches' mean gradients, as public code has them."""
    return of("FedCurv", lam=lam, reduction="batch_mean_sq", **options)


ADAPTIVE: Mapping[str, object] = {"server_lr": 0.03, "tau": 0.02}
LIBRARIES = {
    "pfllib: fedavg": Case(of("FedAvg")),
    "pfllib: fedprox": Case(of("FedProx", mu=0.5)),
    "pfllib: scaffold": Case(of("Scaffold", server_lr=0.7)),
    "pfllib: moon": Case(of("MOON", mu=2.0, tau=0.5), cohorts=EVERYBODY),
    "pfllib: fedntd": Case(of("FedNTD", beta=0.8, tau=2.0, weights="uniform")),
    "pfllib: ditto": Case(of("Ditto", lam=0.6)),
    "pfllib: fedbn": Case(of("FedBN"), network="Normed"),
    "pfllib: fedper": Case(of("FedPer")),
    "pfllib: fedrep": Case(of("FedRep", head_epochs=3)),
    "pfllib: fedrod": Case(of("FedRoD")),
    "pfllib: fedala": Case(of("FedALA", eta=1.0, share=1.0, layers=2), cohorts=EVERYBODY),
    "pfllib: fedfomo": Case(of("FedFomo", models=4, epsilon=0.0), cohorts=EVERYBODY, samples=alike, exact=1e-6),
    "flower: fedavgm": Case(of("FedAvgM", beta=0.8, server_lr=0.6)),
    "flower: fedadam": Case(of("FedOpt", rule="adam", **ADAPTIVE, beta1=0.8, beta2=0.7)),
    "flower: fedyogi": Case(of("FedOpt", rule="yogi", **ADAPTIVE, beta1=0.8, beta2=0.7)),
    "flower: fedadagrad": Case(of("FedOpt", rule="adagrad", **ADAPTIVE, beta1=0.0)),
    "openfl_fedcurv: fedcurv": Case(fedcurv(2.0), cohorts=EVERYBODY),
    "openfl_fedcurv: fedcurv, BatchNorm": Case(fedcurv(0.5), cohorts=EVERYBODY, network="Normed"),
    "openfl_fedcurv: fedcurv, cohorts": Case(fedcurv(2.0, partial="last_round"), cohorts=ARRIVING),
}
