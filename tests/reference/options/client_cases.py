"""The runs that are compared, of clients that are not always there and do not all do the same."""

from __future__ import annotations

from collections.abc import Mapping

from shared_options import ADAM, KEPT, LOCAL, NORMED, SGD, Options, of
from task_cases import GROUPS

FAILING: Options = {"dropout_rate": 0.7, "rounds": 6, "seed": 7}
"""In two rounds everybody fails."""
CLIENTS: Mapping[str, Options] = {
    "failing clients": of("FedAvg", {**FAILING, "personalise": "all", "forgetting_every": 1}),
    "failing clients and control variates": of("Scaffold", FAILING),
    "failing clients and the last round": of("FedCurv", {**FAILING, "seed": 36}, partial="last_round"),
    "failing clients and their models": of("FedFomo", FAILING),
    "failing clients and anchors": of("FedKA", {**FAILING, "cohort": 1, "seed": 2}, gamma=0.3),
    "failing clients and Omega": of("FedCL", FAILING, lam=2.0, every=2, missing="last", proxy=0.2),
    "failing clients and statistics": of("FedAvg", {**LOCAL, **FAILING, "estimate_statistics": True}),
    "failing clients and first statistics": of(
        "FedAvg", {**NORMED, **FAILING, "running_statistics": "first", "seed": 2, "rounds": 4}
    ),
    "failing clients and kept momentum": of("FedAvg", {**KEPT, "dropout_rate": 0.4}),
    "sometimes available": of("FedAvg", {"availability": "away.csv", "rounds": 5, "personalise": "all"}),
    "share of the available": of("FedDyn", {"availability": "away.csv", "cohort": None, "participation": 0.5}),
    "available in the last round": of("FedCurv", {"availability": "away.csv", "rounds": 5}, partial="last_round"),
    "sometimes available in tasks": of(
        "FedKA", {**GROUPS, "availability": "away.csv", "stream.enrolment": "increasing"}, gamma=0.3
    ),
    "sampling by size": of("FedAvg", {"client_sampling": "samples", "cohort": 2, "rounds": 5}, weights="uniform"),
    "sampling by size while classes are reduced": of(
        "FedAvg", {"client_sampling": "samples", "cohort": 1, "rounds": 6, "class_reduction": "0,1,2,1;0,1,3,0;1,2,2,0"}
    ),
    "sampling by size in tasks": of("FedCurv", {**GROUPS, "client_sampling": "samples", "cohort": 2}),
    "own rates": of("FedAvg", {**SGD, "client_lr": "uniform(0.2,1.5)", "lr_decay": 0.5}),
    "rates of a file over steps": of(
        "FedAvg", {**ADAM, "client_lr": "factors.csv", "lr_schedule": "cosine", "lr_schedule_over": "steps"}
    ),
    "own rates of a prior": of(
        "FedCurv", {"client_lr": "loguniform(0.3,2)"}, lam=5.0, penalty_step="proximal"
    ),
    "momentum and a prior": of("FedCL", {**SGD, "optimizer.nesterov": True}, lam=5.0, penalty_step="proximal"),
    "kept momentum and a prior": of(
        "FisherAvg", {**KEPT, "optimizer.dampening": 0.3, "dropout_rate": 0.4}, lam=5.0, weights="data"
    ),
    "momentum of RMSprop and a prior": of(
        "FedCurv", {"optimizer": "RMSprop", "momentum": 0.7, "lr": 0.02}, lam=5.0, penalty_step="proximal"
    ),
    "own rates and control variates": of("Scaffold", {**SGD, "client_lr": "uniform(0.2,1.5)"}),
    "own rates and progress": of("FedNova", {**SGD, "client_lr": "uniform(0.2,1.5)"}),
    "own rates and a proximal term": of("FedNova", {"client_lr": "factors.csv"}, mu=0.5),
    "own rates of heads": of("FedPAC", {"client_lr": "factors.csv"}),
    "own work": of("FedAvg", {**SGD, "client_work": "uniform(0.3,2.5)", "drop_last": True}),
    "own steps": of("Scaffold", {**SGD, "client_work": "factors.csv", "local_steps": 3}),
    "own work and progress": of("FedNova", {"client_work": "loguniform(0.3,3)", "local_epochs": 2}, mu=0.5),
    "own work of heads and bodies": of("FedRep", {"client_work": "factors.csv", "local_epochs": 2}, head_epochs=1.5),
    "stragglers": of("FedProx", {"stragglers": 0.5, "local_epochs": 5.0, "personalise": "all"}, mu=0.5),
    "stragglers and progress": of("FedNova", {**SGD, "stragglers": 0.9, "local_steps": 7, "cohort": 5}),
    "stragglers of different work": of(
        "Scaffold", {"stragglers": 0.75, "local_epochs": 3.0, "client_work": "uniform(0.2,1)"}
    ),
    "dropped stragglers": of(
        "FedAvg", {"stragglers": 0.5, "drop_stragglers": True, "dropout_rate": 0.5, "local_epochs": 2.0}
    ),
}  # fmt: skip
