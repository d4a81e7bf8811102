"""What the code of methods' own authors ran, as options of this program."""

from __future__ import annotations

from collections.abc import Mapping

from federation import EVERYBODY, LATER, ONE_BY_ONE, TOGETHER, WITH_FIRST, WORK, alike, as_many, blind, one_class, pairs
from public_case import Case, of


def unequal(options: Mapping[str, object]) -> Case:
    """All clients in every round, with unequal numbers of steps, as FedNova's script runs them."""
    return Case({**options, "weight_decay": 1e-4, "lr_decay": 0.1}, cohorts=EVERYBODY, work=WORK)


def official(lam: float = 0.0, **options: object) -> Mapping[str, object]:
    """Of "importance from agent" as its code has it: squares of batches' mean gradients, an epsilon, and momentum."""
    as_there = {"gamma": 0.6, "reduction": "batch_mean_sq", "compat_eps": 1e-8, "penalty_step": "explicit"}
    return {**of("FisherAvg", lam=lam, **{**as_there, **options}), "momentum": 0.5}


def walk(lam: float = 0.0) -> Case:
    """A round of one step, then, where there is a penalty, one of three by clients that were not in it."""
    score = {"importance": "rwalk", "scale": "none", "eps": 1e-5, "fisher_update": "sum", "weighted": lam == 0}
    options = {**official(lam, **score), "local_epochs": 1}
    return Case(options, LATER[:2], work=(1, 1, 3, 3)) if lam else Case(options, (EVERYBODY[0],))


def fedcl(lam: float, omega: str, *, every: int, batch: int = 1) -> Mapping[str, object]:
    """With all samples for the server, one by one or in one batch, and the official code's momentum and decay."""
    server = {"every": every, "proxy": 1.0, "proxy_batch": batch, "missing": "local"}
    return {**of("FedCL", lam=lam, omega=omega, **server), "momentum": 0.9, "weight_decay": 1e-4}


OFFICIAL = {
    "fednova_official: fednova": unequal(of("FedNova")),
    "fednova_official: fednova with momentum": unequal({**of("FedNova"), "momentum": 0.8}),
    "fednova_official: fednova with a proximal term": unequal(of("FedNova", mu=0.7)),
    "fednova_official: fedprox with momentum": unequal({**of("FedProx", mu=0.7), "momentum": 0.8}),
    "fedntd_repository: fedavg": Case(of("FedAvg") | {"momentum": 0.5, "weight_decay": 0.05}),
    "fedntd_repository: fedprox": Case(of("FedProx", mu=0.5) | {"momentum": 0.5}),
    "fedntd_repository: fedavgm": Case(of("FedAvgM", beta=0.6)),
    # of samples that are alike, batches of ten are as many steps as a client has tens
    "fedntd_repository: fednova": Case(of("FedNova") | {"momentum": 0.5, "batch_size": 10}, samples=alike),
    "fedntd_repository: scaffold": Case(
        of("Scaffold", weights="data") | {"momentum": 0.5, "batch_size": 10}, samples=alike
    ),
    "fedntd_repository: moon": Case(of("MOON", mu=2.0, tau=0.5), cohorts=TOGETHER),
    "fedntd_repository: feddyn": Case(of("FedDyn", alpha=0.4, weights="data")),
    "fedntd_repository: fedntd": Case(of("FedNTD", beta=0.8, tau=2.0)),
    "fedntd_repository: fedcurv": Case(of("FedCurv", lam=3.0, reduction="batch_mean_sq"), cohorts=ONE_BY_ONE),
    "feddyn_official: feddyn": Case(of("FedDyn", alpha=0.4), samples=as_many),
    "feddyn_official: scaffold": Case(of("Scaffold", server_lr=0.7), samples=as_many),
    "fedpac_official: one weight is cut": Case(
        of("FedPAC", lam=8.0) | {"momentum": 0.5, "weight_decay": 0.0005}, cohorts=WITH_FIRST
    ),
    "fedpac_official: many weights are zero": Case(
        of("FedPAC", lam=3.0) | {"momentum": 0.5, "weight_decay": 0.0005}, cohorts=EVERYBODY, samples=as_many
    ),
    "fedfomo_official: all others": Case(
        of("FedFomo", models=4, epsilon=0.0, norm="l1", fallback="before"), cohorts=TOGETHER, samples=pairs
    ),
    "fedfomo_official: two others": Case(
        of("FedFomo", models=3, epsilon=0.0, norm="l1", fallback="before"), cohorts=TOGETHER, samples=pairs
    ),
    "fedfomo_official: nobody does better": Case(
        of("FedFomo", models=4, epsilon=0.0, norm="l1", fallback="before") | {"weight_decay": 2.0},
        cohorts=TOGETHER,
        samples=pairs,
    ),
    "moon_official: moon": Case(
        of("MOON", mu=2.0, tau=0.5) | {"momentum": 0.9, "weight_decay": 0.0005}, cohorts=TOGETHER
    ),
    "moon_official: fedavg with server momentum": Case(of("FedAvgM", beta=0.6, dampening=0.6) | {"momentum": 0.9}),
    "moon_official: fedprox": Case(of("FedProx", mu=0.5) | {"momentum": 0.9}),
    "importance_ewc: base": Case(official(weighted=False)),
    "importance_ewc: l2": Case(
        {**of("FedProx", mu=0.7, weights="uniform"), "momentum": 0.5, "local_epochs": 1}, LATER, work=(1, 1, 3, 3)
    ),
    "importance_ewc: ewc": Case(official(8.0, weighted=False)),
    "importance_ewc: ewc, single samples": Case(official(2.0, reduction="per_sample_mean", weighted=False)),
    # which samples are a batch is drawn here, so a client's are the same
    "importance_ewc: ewc, smaller last batches": Case(official(2.0, fisher_batch=4, weighted=False), samples=alike),
    "importance_ewc: weighted average": Case(official()),
    "importance_ewc: weighted average, unknown coordinates": Case(official(), samples=blind),
    "importance_ewc: weighted average, no norm": Case(official(layer_norm="none")),
    "importance_ewc: both": Case(official(8.0)),
    "importance_ewc: both, single samples": Case(official(2.0, reduction="per_sample_mean")),
    "importance_ewc: both, no norm": Case(official(8.0, layer_norm="none")),
    "importance_ewc: both, own": Case(official(8.0, gamma=0.0)),
    "importance_ewc: both, summation": Case(official(8.0, fisher_update="sum")),
    "importance_rwalk: weighted average": walk(),
    "importance_rwalk: weighted average, third update": walk(),
    "importance_rwalk: penalty": walk(0.02),
    "importance_rwalk: penalty, third update": walk(0.02),
    "importance_rwalk: penalty, first update": walk(0.02),
    "fedcl_official: ewc": Case(fedcl(40.0, "per_tensor", every=0, batch=64)),
    "fedcl_official: ewc in the center": Case(fedcl(0.5, "per_tensor", every=1)),
    "fedcl_official: ewc in the center, every second round": Case(fedcl(150.0, "per_tensor", every=2, batch=64)),
    "fedcl_official: ewc in the center, a number a tensor": Case(fedcl(2.0, "per_param_sq", every=1), network="Single"),
    "fedcl_official: mas in the center, a number a tensor": Case(fedcl(0.8 / 4, "mas", every=1), network="Single"),
    "mas_official: mas": Case(of("FedCL", lam=0.05, omega="mas", proxy=1.0)),
    "tpfl: fedka": Case(of("FedKA", beta=0.4, gamma=0.3), samples=one_class),
}
