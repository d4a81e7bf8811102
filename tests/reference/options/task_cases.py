"""The runs that are compared, of tasks one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from shared_options import IDLE, LOCAL, SGD, Options, of

GROUPS: Options = {"stream": "ClassGroups", "stream.tasks": 2, "stream.task_rounds": 2, "rounds": 4, "cohort": None}
"""Of the second task's classes the second has no test samples, and some clients have none of a task."""
STREAMS: Mapping[str, Options] = {
    "stream: classes": of("FedAvg", {**GROUPS, "eval_every": 4, "forgetting_every": 2}),
    "stream: smoothed known tasks": of("FedAvg", {**GROUPS, "stream.scenario": "task", "label_smoothing": 0.2}),
    "stream: known tasks": of("FedAvg", {**GROUPS, "stream.scenario": "task", "forgetting_every": 1}),
    "stream: seen classes": of(
        "FedAvg", {**GROUPS, "stream.scenario": "seen", "stream.keep": 0.5, "forgetting_every": 1, "personalise": "all"}
    ),
    "stream: Fisher of seen classes": of("FisherAvg", {**GROUPS, "stream.scenario": "seen"}, lam=1.0, layer_norm="l2"),
    "stream: fixed budget": of(
        "FedAvg",
        {
            "stream": "Permuted", "stream.tasks": 4, "stream.task_rounds": 1, "rounds": 4, "stream.keep": 0.7,
            "stream.budget": "fixed", "stream.enrolment": "decreasing",
        },
    ),
    "stream: mapped classes": of("FedAvg", {**GROUPS, "stream.scenario": "domain", "stream.keep": True}),
    "stream: permuted": of("FedAvg", {"stream": "Permuted", "stream.tasks": 3, "stream.task_rounds": 1, "rounds": 4}),
    "stream: a share is kept": of(
        "FedAvg", {"stream": "Permuted", "stream.tasks": 3, "stream.task_rounds": 1, "rounds": 4, "stream.keep": 0.4}
    ),
    "stream: decreasing": of("FedAvg", {**GROUPS, "stream.enrolment": "decreasing", "personalise": "all"}),
    "stream: increasing": of("Scaffold", {**GROUPS, "stream.enrolment": "increasing", "cohort": 3}),
    "stream: scattered": of("FedDyn", {**GROUPS, "stream.enrolment": "scattered", "participation": 0.7}),
    "stream: random": of(
        "FedAvg",
        {
            "stream.tasks": 5, "stream.task_rounds": 1, "rounds": 5, "cohort": None, "stream.enrolment": "random",
            "stream.join": 0.1, "stream.leave": 0.9, "stream.empty": "skip",
        },
    ),
    "stream: Fisher of known tasks": of(
        "FisherAvg", {**GROUPS, "stream.scenario": "task"}, lam=1.0, layer_norm="l2", weights="data"
    ),
    "stream: proxy": of("FedCL", {**GROUPS, "stream.enrolment": "increasing"}, proxy=0.3),
    "stream: anchors": of("FedKA", {**GROUPS, "stream.scenario": "class"}),
}  # fmt: skip

EMBEDDED: Options = {"network": "Embedded", **GROUPS, "stream.scenario": "domain", "lr": 0.2, "momentum": 0.5}
SERVERS = {"store": 14, "send": 3, "sst": 11, "pretrain_epochs": 2.0}
CLIENTS = {"remember": 6, "rehearsal": 0.4}
FILVER: Mapping[str, Options] = {
    "smoothed": of("FilVer", {**EMBEDDED, "label_smoothing": 0.2}, **SERVERS, **CLIENTS),
    "sampled": of("FilVer", EMBEDDED, **SERVERS, **CLIENTS),
    "idle": of("FilVer", {**EMBEDDED, **IDLE}, **SERVERS, **CLIENTS),
    "stats": of("FilVer", {**EMBEDDED, "lr_decay": 0.5}, **SERVERS, **CLIENTS, share="stats", beta=0.3),
    "without server-side training": of(
        "FilVer", EMBEDDED, remember=6, rehearsal=0.7, sst=0, pretrain_epochs=2.0, start="fresh"
    ),
    "rates": of("FilVer", {**EMBEDDED, "weight_decay": 0.1}, **SERVERS, **CLIENTS, pretrain_lr=0.5, sst_lr=0.05),
    "points": of("FilVer", {**EMBEDDED, "network": "Pointed"}, **SERVERS, **CLIENTS),
    "enrolment": of(
        "FilVer", {**EMBEDDED, "stream.enrolment": "increasing", "cohort": 2}, **SERVERS, rehearsal=0.4,
        weights="uniform", server_lr=0.7, pretrain_on="all",
    ),
    "one task": of("FilVer", {"network": "Embedded"}, **SERVERS),
}  # fmt: skip

ONLINEEWC: Mapping[str, Options] = {
    "three tasks": of(
        "OnlineEWC", {**GROUPS, "stream.tasks": 3, "stream.size": 1, "stream.task_rounds": 1, "rounds": 4}, lam=20.0,
        decay=0.5,
    ),
    "each task": of(
        "OnlineEWC", {**GROUPS, "stream.tasks": 3, "stream.size": 1, "stream.task_rounds": 1, "rounds": 4}, lam=20.0,
        decay=0.5, centre="each",
    ),
    "each task, explicit": of(
        "OnlineEWC", {**GROUPS, **SGD, "stream.tasks": 3, "stream.size": 1, "stream.task_rounds": 1, "rounds": 4},
        lam=2.0, penalty_step="explicit", centre="each",
    ),
    "own statistics": of("OnlineEWC", {**GROUPS, **LOCAL}, lam=20.0),
    "explicit": of("OnlineEWC", {**GROUPS, **SGD}, lam=2.0, penalty_step="explicit", weights="uniform", server_lr=0.7),
    "exact": of("OnlineEWC", GROUPS, lam=20.0, kind="exact", fisher_samples=5),
    "mc draws": of("OnlineEWC", GROUPS, lam=20.0, kind="mc", fisher_draws=2),
    "mc": of("OnlineEWC", {**GROUPS, "stream.enrolment": "increasing"}, lam=20.0, kind="mc"),
    "one task": of("OnlineEWC"),
}  # fmt: skip

THREE: Options = {**GROUPS, "stream.tasks": 3, "stream.size": 1, "stream.task_rounds": 1, "rounds": 4}
LWF: Mapping[str, Options] = {
    "plain": of("LwF", GROUPS, lam=2.0),
    "three tasks": of("LwF", {**THREE, **SGD}, classes="all", tau=0.7, weights="uniform", server_lr=0.7),
    "a softmax for each task": of("LwF", {**GROUPS, **SGD}, heads="each", lam=2.0, tau=0.7),
    "kept": of("LwF", {**GROUPS, "stream.keep": 0.5, "label_smoothing": 0.2}, lam=3.0),
    "known tasks": of("LwF", {**GROUPS, "stream.scenario": "task"}, tau=3.0),
    "seen classes": of("LwF", {**GROUPS, "stream.scenario": "seen"}, lam=3.0),
    "domains": of("LwF", {**GROUPS, "stream.scenario": "domain", "stream.enrolment": "increasing", "cohort": 2}),
    "own statistics": of("LwF", {**GROUPS, **LOCAL}),
    "idle": of("LwF", {**GROUPS, **IDLE}),
    "one task": of("LwF"),
}
