"""What the public implementations ran, as options of this program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pooled
from federation import (
    ARRIVING,
    COHORTS,
    EVERYBODY,
    LATER,
    ONE_BY_ONE,
    TOGETHER,
    WITH_FIRST,
    WORK,
    Samples,
    alike,
    as_many,
    blind,
    pairs,
    samples,
)


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


def tasks(
    options: Mapping[str, object],
    count: int = 3,
    turns: Sequence[Sequence[int]] = pooled.TURNS,
    network: str = "Network",
) -> Case:
    """A method on so many tasks one after the other, each in as many rounds as there are turns."""
    stream = {
        "stream": "ClassGroups", "stream.tasks": pooled.CLASSES // pooled.OF_TASK, "stream.size": pooled.OF_TASK,
        "stream.task_rounds": len(turns), "local_epochs": 1,
    }  # fmt: skip
    return Case({**stream, **options}, tuple(turns) * count, network, pooled.samples)


def lwf(lam: float = 1.5, classes: str = "new", heads: str = "one", **run: object) -> Mapping[str, object]:
    """With options of the run."""
    return {**of("LwF", lam=lam, tau=3.0, classes=classes, heads=heads), **run}


def ewc(lam: float = 4.0, scenario: str = "class", **options: object) -> Mapping[str, object]:
    """With gradients of the penalty, as public code has them."""
    return {**of("OnlineEWC", lam=lam, penalty_step="explicit", **options), "stream.scenario": scenario}


def official(lam: float = 0.0, **options: object) -> Mapping[str, object]:
    """Of "importance from agent" as its code has it: squares of batches' mean gradients, an epsilon, and momentum."""
    as_there = {"gamma": 0.6, "reduction": "batch_mean_sq", "compat_eps": 1e-8, "penalty_step": "explicit"}
    return {**of("FisherAvg", lam=lam, **{**as_there, **options}), "momentum": 0.5}


def walk(lam: float = 0.0) -> Case:
    """A round of one step, then, where there is a penalty, one of three by clients that were not in it."""
    score = {"importance": "rwalk", "scale": "none", "eps": 1e-5, "fisher_update": "sum", "weighted": lam == 0}
    options = {**official(lam, **score), "local_epochs": 1}
    return Case(options, LATER[:2], work=(1, 1, 3, 3)) if lam else Case(options, (EVERYBODY[0],))


def unequal(options: Mapping[str, object]) -> Case:
    """All clients in every round, with unequal numbers of steps, as FedNova's script runs them."""
    return Case({**options, "weight_decay": 1e-4, "lr_decay": 0.1}, cohorts=EVERYBODY, work=WORK)


def fedcl(lam: float, omega: str, *, every: int, batch: int = 1) -> Mapping[str, object]:
    """With all samples for the server, one by one or in one batch, and the official code's momentum and decay."""
    server = {"every": every, "proxy": 1.0, "proxy_batch": batch, "missing": "local"}
    return {**of("FedCL", lam=lam, omega=omega, **server), "momentum": 0.9, "weight_decay": 1e-4}


def fedcurv(lam: float, **options: object) -> Mapping[str, object]:
    """With the squares of batches' mean gradients, as public code has them."""
    return of("FedCurv", lam=lam, reduction="batch_mean_sq", **options)


SI = of("FedCL", lam=0.4, omega="si", xi=0.02, every=0, missing="local")
ADAPTIVE: Mapping[str, object] = {"server_lr": 0.03, "tau": 0.02}
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
    "pfllib: fedfomo": Case(of("FedFomo", models=4, epsilon=0.0), cohorts=EVERYBODY, samples=alike, exact=1e-6),
    # the library leaves out heads of earlier tasks, which the paper trains, too; so its base class's optimizer is taken
    "facil: lwf": tasks(lwf()),
    "facil: lwf, alone": tasks(lwf(local_epochs=2), turns=pooled.ALONE),
    "facil: lwf, BatchNorm": tasks(lwf(local_epochs=2), turns=pooled.ALONE, network="Normed"),
    # no head is trained, so none is left out
    "facil: lwf, fixed heads": tasks(lwf(), network="Fixed"),
    "facil: lwf, exemplars": tasks({**lwf(classes="all"), "stream.keep": True}),
    # old and new Fisher information are averaged there, by alpha and 1 - alpha
    "facil: ewc": tasks(ewc(4 * 0.6, "task"), 2),
    "facil: ewc, alone": tasks({**ewc(4 * 0.6, "task"), "local_epochs": 2}, 2, pooled.ALONE),
    # a later task's is there of all heads so far, though it trains its own alone, and holds none; so heads are fixed
    "facil: ewc, fixed heads": tasks(ewc(4 * 0.6, decay=0.4), network="Fixed"),
    "pycil: lwf": tasks(lwf(local_epochs=5, momentum=0.9), turns=[[0]]),
    "pycil: lwf, BatchNorm": tasks(lwf(local_epochs=5, momentum=0.9), turns=[[0]], network="Normed"),
    "continual_learning: ewc": tasks(ewc(scenario="task", centre="each")),
    "continual_learning: ewc, one head": tasks(ewc(centre="each", kind="exact")),
    # the decay also multiplies the whole penalty there, as in the paper's Eq. 8; here that is a part of lam
    "continual_learning: online ewc": tasks(ewc(4 * 0.6, "task", decay=0.6, kind="exact")),
    "continual_learning: online ewc, one head": tasks(ewc(4 * 0.6, decay=0.6)),
    # each earlier task has a softmax of its own there, as in the paper
    "continual_learning: lwf": tasks(lwf(lam=1.0, heads="each")),
    "flower: fedavgm": Case(of("FedAvgM", beta=0.8, server_lr=0.6)),
    # by itself v begins at zero there, and Adam's rate is corrected for the start, unlike in the paper's Algorithm 2
    "flower: fedadam": Case(of("FedOpt", rule="adam", **ADAPTIVE, beta1=0.8, beta2=0.7)),
    "flower: fedyogi": Case(of("FedOpt", rule="yogi", **ADAPTIVE, beta1=0.8, beta2=0.7)),
    "flower: fedadagrad": Case(of("FedOpt", rule="adagrad", **ADAPTIVE, beta1=0.0)),
    "fednova_official: fednova": unequal(of("FedNova")),
    "fednova_official: fednova with momentum": unequal({**of("FedNova"), "momentum": 0.8}),
    "fednova_official: fednova with a proximal term": unequal(of("FedNova", mu=0.7)),
    # in torch of today its sum of the models would be lost there; see the driver
    "fednova_official: fedprox with momentum": unequal({**of("FedProx", mu=0.7), "momentum": 0.8}),
    "fedntd_repository: fedavg": Case(of("FedAvg") | {"momentum": 0.5, "weight_decay": 0.05}),
    "fedntd_repository: fedprox": Case(of("FedProx", mu=0.5) | {"momentum": 0.5}),
    "fedntd_repository: fedavgm": Case(of("FedAvgM", beta=0.6)),
    # of samples that are alike, batches of ten are as many steps as a client has tens
    "fedntd_repository: fednova": Case(of("FedNova") | {"momentum": 0.5, "batch_size": 10}, samples=alike),
    "fedntd_repository: scaffold": Case(
        of("Scaffold", weights="data") | {"momentum": 0.5, "batch_size": 10}, samples=alike
    ),
    # who comes late has the first model for its previous one there
    "fedntd_repository: moon": Case(of("MOON", mu=2.0, tau=0.5), cohorts=TOGETHER),
    "fedntd_repository: feddyn": Case(of("FedDyn", alpha=0.4, weights="data")),
    "fedntd_repository: fedntd": Case(of("FedNTD", beta=0.8, tau=2.0)),
    # who comes second in a round is there rid of the first one's curvature, too, where the first had any
    "fedntd_repository: fedcurv": Case(of("FedCurv", lam=3.0, reduction="batch_mean_sq"), cohorts=ONE_BY_ONE),
    # it divides alpha by a client's share of the samples
    "feddyn_official: feddyn": Case(of("FedDyn", alpha=0.4), samples=as_many),
    # it weighs control variates by the clients' samples
    "feddyn_official: scaffold": Case(of("Scaffold", server_lr=0.7), samples=as_many),
    # it fails where nobody of a cohort has samples of a class; momentum and decay of weights are its own
    "fedpac_official: one weight is cut": Case(
        of("FedPAC", lam=8.0) | {"momentum": 0.5, "weight_decay": 0.0005}, cohorts=WITH_FIRST
    ),
    "fedpac_official: many weights are zero": Case(
        of("FedPAC", lam=3.0) | {"momentum": 0.5, "weight_decay": 0.0005}, cohorts=EVERYBODY, samples=as_many
    ),
    # its l2 is the square of a distance; it divides affinities by their sum, which changes nobody's choice here
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
    # its momentum is always 0.9, and who comes late has an untrained model for its previous one
    "moon_official: moon": Case(
        of("MOON", mu=2.0, tau=0.5) | {"momentum": 0.9, "weight_decay": 0.0005}, cohorts=TOGETHER
    ),
    "moon_official: fedavg with server momentum": Case(of("FedAvgM", beta=0.6, dampening=0.6) | {"momentum": 0.9}),
    "moon_official: fedprox": Case(of("FedProx", mu=0.5) | {"momentum": 0.9}),
    "importance_ewc: base": Case(official(weighted=False)),
    # its penalty is off in the first round, in which these clients' only step is none from the received model
    "importance_ewc: l2": Case(
        {**of("FedProx", mu=0.7, weights="uniform"), "momentum": 0.5, "local_epochs": 1}, LATER, work=(1, 1, 3, 3)
    ),
    "importance_ewc: ewc": Case(official(8.0, weighted=False)),
    "importance_ewc: ewc, single samples": Case(official(2.0, reduction="per_sample_mean", weighted=False)),
    # which samples are a batch is drawn here, so a client's are the same
    "importance_ewc: ewc, smaller last batches": Case(official(2.0, fisher_batch=4, weighted=False), samples=alike),
    "importance_ewc: weighted average": Case(official()),
    # they become 0 there, and where they are a whole tensor NaN; without compat_eps they are the plain mean here
    "importance_ewc: weighted average, unknown coordinates": Case(official(), samples=blind),
    "importance_ewc: weighted average, no norm": Case(official(layer_norm="none")),
    "importance_ewc: both": Case(official(8.0)),
    "importance_ewc: both, single samples": Case(official(2.0, reduction="per_sample_mean")),
    "importance_ewc: both, no norm": Case(official(8.0, layer_norm="none")),
    "importance_ewc: both, own": Case(official(8.0, gamma=0.0)),
    "importance_ewc: both, summation": Case(official(8.0, fisher_update="sum")),
    # its score is of a round's last step, over the received Fisher information, and not averaged with the received one
    "importance_rwalk: weighted average": walk(),
    "importance_rwalk: weighted average, third update": walk(),
    "importance_rwalk: penalty": walk(0.02),
    "importance_rwalk: penalty, third update": walk(0.02),
    # its own score is another, made at the end, of rows from 0 to 5e-5; all Fisher batches but the first count fourfold
    "importance_rwalk: penalty, first update": walk(0.02),
    "fedcl_official: ewc": Case(fedcl(40.0, "per_tensor", every=0, batch=64)),
    "fedcl_official: ewc in the center": Case(fedcl(0.5, "per_tensor", every=1)),
    "fedcl_official: ewc in the center, every second round": Case(fedcl(150.0, "per_tensor", every=2, batch=64)),
    "fedcl_official: ewc in the center, a number a tensor": Case(fedcl(2.0, "per_param_sq", every=1), network="Single"),
    # the code takes the magnitude of a batch's gradient, its sum over a tensor, and the mean of the outputs' squares
    "fedcl_official: mas in the center, a number a tensor": Case(fedcl(0.8 / 4, "mas", every=1), network="Single"),
    "mas_official: mas": Case(of("FedCL", lam=0.05, omega="mas", proxy=1.0)),
    "continual_learning_si: si": Case(SI),
    # the library has no relu as the paper's code has; nothing is negative here
    "continual_learning_si: si with momentum": Case({**SI, "momentum": 0.4, "weight_decay": 5e-3}),
    # the library keeps the Fisher information of the last batch alone, so there is but one
    "openfl_fedcurv: fedcurv": Case(fedcurv(2.0), cohorts=EVERYBODY),
    "openfl_fedcurv: fedcurv, BatchNorm": Case(fedcurv(0.5), cohorts=EVERYBODY, network="Normed"),
    # who comes back after a rest subtracts there what the sums no longer hold
    "openfl_fedcurv: fedcurv, cohorts": Case(fedcurv(2.0, partial="last_round"), cohorts=ARRIVING),
}
