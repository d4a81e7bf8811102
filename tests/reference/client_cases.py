"""The runs that are compared, of clients that are not always there."""

from __future__ import annotations

from collections.abc import Mapping

from shared_options import KEPT, LOCAL, Options, of
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
    "failing clients and kept momentum": of("FedAvg", {**KEPT, "dropout_rate": 0.4}),
    "sometimes available": of("FedAvg", {"availability": "away.csv", "rounds": 5, "personalise": "all"}),
    "share of the available": of("FedDyn", {"availability": "away.csv", "cohort": None, "participation": 0.5}),
    "available in the last round": of("FedCurv", {"availability": "away.csv", "rounds": 5}, partial="last_round"),
    "sometimes available in tasks": of(
        "FedKA", {**GROUPS, "availability": "away.csv", "stream.enrolment": "increasing"}, gamma=0.3
    ),
}  # fmt: skip
