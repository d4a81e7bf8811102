"""What libraries of federated learning ran, as options of this program."""

from __future__ import annotations

from collections.abc import Mapping

from federation import ARRIVING, EVERYBODY, WORK, alike
from public_case import Case, of


def fedcurv(lam: float, **options: object) -> Mapping[str, object]:
    """With the squares of batches' mean gradients, as public code has them."""
    return of("FedCurv", lam=lam, reduction="batch_mean_sq", **options)


ADAPTIVE: Mapping[str, object] = {"server_lr": 0.03, "tau": 0.02}
KEPT: Mapping[str, object] = {"momentum": 0.8, "optimizer.keep": True}
MIXING = of("FedALA", eta=20.0, share=1.0, layers=2, threshold=0.001, losses=3, passes=100)
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
    "fl_bench: feddyn": Case(of("FedDyn", alpha=0.3, weights="data")),
    "fl_bench: feddyn with momentum": Case({**of("FedDyn", alpha=0.3, weights="data"), "momentum": 0.6}),
    "fl_bench: fedavgm": Case(of("FedAvgM", beta=0.8, nesterov=True)),
    "fl_bench: fedadam": Case(of("FedOpt", rule="adam", **ADAPTIVE, beta1=0.8, beta2=0.7)),
    "fl_bench: fedyogi": Case(of("FedOpt", rule="yogi", **ADAPTIVE, beta1=0.8, beta2=0.7)),
    "fl_bench: fedadagrad": Case(of("FedOpt", rule="adagrad", **ADAPTIVE, beta1=0.8)),
    "fl_bench: moon": Case({**of("MOON", mu=2.0, tau=0.5), "momentum": 0.8}),
    "fl_bench: moon, optimizer kept": Case({**of("MOON", mu=2.0, tau=0.5), **KEPT}),
    "fl_bench: ditto": Case({**of("Ditto", lam=0.6), "momentum": 0.8}),
    "fl_bench: fedper, optimizer kept": Case({**of("FedPer"), **KEPT}, cohorts=EVERYBODY),
    "fl_bench: fedrod": Case(of("FedRoD", gamma=0.6), network="FixedBase"),
    "fl_bench: fedavg, statistics kept": Case(
        {**of("FedAvg"), "momentum": 0.8, "running_statistics": "local", "estimate_statistics": True}, network="Normed"
    ),
    "fluke_fl: scaffold": Case(of("Scaffold", server_lr=0.7, weights="data")),
    "fluke_fl: scaffold, unequal work": Case(of("Scaffold", server_lr=0.7, weights="data"), work=WORK),
    "fluke_fl: fedavg, BatchNorm": Case({**of("FedAvg"), "momentum": 0.8}, network="Normed", work=WORK),
    "fluke_fl: moon": Case(of("MOON", mu=2.0, tau=0.5)),
    "fluke_fl: fedala": Case(MIXING),
    "fluke_fl: fedala, momentum kept": Case({**MIXING, **KEPT}),
    "fluke_fl: fedrod": Case({**of("FedRoD"), "momentum": 0.8}),
}
