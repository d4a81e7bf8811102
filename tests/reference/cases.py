"""The runs that are compared: every method, with every option that changes its numbers."""

from __future__ import annotations

from collections.abc import Mapping

from client_cases import CLIENTS
from loss_cases import LOSSES
from shared_options import ADAM, IDLE, KEPT, KEPT_ADAM, LOCAL, NORMED, PICTURES, SGD, WORDS, Options, of
from task_cases import FILVER, LWF, ONLINEEWC, STREAMS

FEDAVG: Mapping[str, Options] = {
    "plain": of("FedAvg"),
    "sgd": of("FedAvg", {**SGD, "lr_decay": 0.5}),
    "idle": of("FedAvg", IDLE),
    "one and a half epochs": of("FedAvg", {"local_epochs": 1.5}),
    "part of an epoch": of("FedAvg", {"local_epochs": 0.4, "drop_last": True}),
    "steps": of("FedAvg", {"local_steps": 4}),
    "nobody trains": of("FedAvg", {**IDLE, "cohort": 1, "seed": 3}),
    "lanes": of("FedAvg", {"lanes": "auto"}),
    "seldom evaluated": of("FedAvg", {"eval_every": 2}),
    "stops at a loss": of("FedAvg", {"stop_at": "loss=1.9", "rounds": 6, "lr": 0.3, "momentum": 0.5}),
    "stops for want of patience": of("FedAvg", {"patience": 1, "rounds": 6}),
    "forgetting": of("FedAvg", {"forgetting_every": 2, "eval_every": 3, "lr": 1.0}),
    "class reduction": of("FedAvg", {"class_reduction": "0,1,2,1;0,1,3,0;1,2,2,0", "cohort": None}),
    "forgetting with another head": of("FedRoD", {"forgetting_every": 1, "rounds": 4, "lr": 0.1}),
    "share of the clients": of("FedAvg", {"cohort": None, "participation": 0.6}),
    "all clients": of("FedAvg", {"cohort": None}),
    "wide batches": of("FedAvg", {"batch_size": 7, "seed": 8, "network": "Rectified"}),
    "no own test samples": of("FedAvg", {"local_test": 0.0}),
    "given moments": of("FedAvg", {"data.mean": [0.5, -1.0, 0.2, 0.0], "data.deviation": [2.0, 1.5, 0.7, 1.0]}),
    "normalised": of("FedAvg", {"data.normalize": True}),
    "merged": of("FedAvg", {"data.merge": True, "division": "merged"}),
    "merged and normalised": of("FedKA", {"data.merge": True, "data.normalize": True, "division": "merged"}, gamma=0.3),
    "cosine": of("FedAvg", {"lr_schedule": "cosine", "lr_min": 0.1, "momentum": 0.5}),
    "falls": of("FedAvg", {"lr_schedule": "step", "lr_decay": 0.5, "lr_step": 2, "rounds": 4}),
    "warm-up": of("FedAvg", {"lr_schedule": "warmup_cosine", "lr_warmup": 2, "lr_min": 0.1, "rounds": 4}),
    "cosine over steps": of("FedAvg", {"lr_schedule": "cosine", "lr_schedule_over": "steps", "lr_min": 0.1, **SGD}),
    "falls over steps": of(
        "FedAvg",
        {"lr_schedule": "step", "lr_schedule_over": "steps", "lr_decay": 0.5, "lr_step": 2, "local_epochs": 3, **ADAM},
    ),
    "own tests of the test set": of("FedAvg", {"local_test_from": "test", "local_test": 0.5}),
    "all clients are tested": of("FedAvg", {"personalise": "all", "eval_every": 2}),
    "uniform": of("FedAvg", weights="uniform", server_lr=0.7),
    "single precision": of("FedAvg", {"network": "Network32", **SGD}),
    "batch norm": of("FedAvg", {**NORMED, **SGD}),
    "first statistics": of("FedAvg", {**NORMED, "running_statistics": "first"}),
    "own statistics": of("FedAvg", {**LOCAL, **SGD}),
    "estimated statistics": of("FedAvg", {**LOCAL, "estimate_statistics": True, "personalise": "all"}),
    "idle with batch norm": of("FedAvg", {**NORMED, **IDLE}, weights="uniform", server_lr=0.7),
    "kept momentum": of("FedAvg", KEPT),
    "nesterov": of("FedAvg", {**SGD, "optimizer.nesterov": True}),
    "kept dampened momentum": of("FedAvg", {**KEPT, **IDLE, "optimizer.dampening": 0.3}),
    "Adam": of(
        "FedAvg",
        {**ADAM, "weight_decay": 0.1, "optimizer.amsgrad": True, "optimizer.betas": [0.9, 0.5], "optimizer.eps": 0.1},
    ),
    "kept Adam": of("FedAvg", {**ADAM, **NORMED, **KEPT_ADAM, "optimizer.betas": [0.5, 0.9], "optimizer.eps": 0.01}),
    "AdamW": of("FedAvg", {**ADAM, "optimizer": "AdamW", "optimizer.weight_decay": 2.0}),
    "kept Adagrad": of(
        "FedAvg",
        {
            **KEPT_ADAM,
            **IDLE,
            "optimizer": "Adagrad",
            "optimizer.lr_decay": 0.2,
            "optimizer.initial_accumulator_value": 0.1,
        },
    ),
    "RMSprop": of(
        "FedAvg",
        {"optimizer": "RMSprop", "optimizer.centered": True, "optimizer.alpha": 0.5, "optimizer.eps": 0.1, **SGD},
    ),
    "smoothed": of("FedAvg", {**SGD, "label_smoothing": 0.2}),
    "clipped": of("FedAvg", {**SGD, **NORMED, "clip_norm": 0.7}),
    "shifted": of("FedAvg", {**PICTURES, "augment": ("crop",)}),
    "mirrored": of("FedAvg", {**PICTURES, **IDLE, "augment": ("flip",)}),
    "shifted and mirrored": of("FedAvg", {**PICTURES, **ADAM, "augment": ("crop", "flip"), "local_epochs": 2}),
    "clipped with a penalty": of("FedProx", {"clip_norm": 0.2}, mu=1.0),
    "words": of("FedAvg", {**WORDS, **SGD}),
    "words in order": of("FedAvg", {**WORDS, **SGD, "network": "Heard", "lr": 1.0}),
    "kept momentum of idle clients": of("FedAvg", {**KEPT, **IDLE, "personalise": "all"}),
    "kept momentum with batch norm": of("FedAvg", {**NORMED, **KEPT}),
}

FEDPROX: Mapping[str, Options] = {
    "mu": of("FedProx", mu=0.5),
    "sgd": of("FedProx", SGD, mu=0.5, weights="uniform", server_lr=0.7),
    "idle": of("FedProx", IDLE, mu=0.5),
    "single precision": of("FedProx", {"network": "Network32"}, mu=0.5),
    "batch norm": of("FedProx", {**NORMED, **SGD}, mu=0.5),
    "kept momentum": of("FedProx", KEPT, mu=0.5),
}

FEDAVGM: Mapping[str, Options] = {
    "heavy ball": of("FedAvgM", SGD, server_lr=0.5),
    "dampening": of("FedAvgM", beta=0.7, dampening=0.4, weights="uniform"),
    "nesterov": of("FedAvgM", IDLE, beta=0.5, dampening=0.2, nesterov=True),
    "single precision": of("FedAvgM", {"network": "Network32"}, beta=0.5),
    "batch norm": of("FedAvgM", NORMED, beta=0.5, nesterov=True),
    "kept momentum": of("FedAvgM", KEPT, beta=0.5),
}

FEDOPT: Mapping[str, Options] = {
    "adam": of("FedOpt", SGD, server_lr=0.5),
    "yogi": of("FedOpt", rule="yogi", beta1=0.5, beta2=0.7, tau=0.02, weights="uniform"),
    "adagrad": of("FedOpt", {**NORMED, **IDLE}, rule="adagrad", beta1=0.0, tau=0.1),
    "single precision": of("FedOpt", {"network": "Network32"}, tau=0.1),
}
FEDNOVA: Mapping[str, Options] = {
    "plain": of("FedNova", server_lr=0.7),
    "momentum": of("FedNova", SGD),
    "mu": of("FedNova", mu=0.5),
    "uniform": of("FedNova", IDLE, weights="uniform"),
    "idle with mu": of("FedNova", {**IDLE, "weight_decay": 0.1}, mu=0.5, weights="uniform"),
    "nobody trains": of("FedNova", {**IDLE, "cohort": 1, "seed": 3}),
    "single precision": of("FedNova", {"network": "Network32"}, mu=0.5),
    "batch norm": of("FedNova", {**NORMED, **SGD}),
}

SCAFFOLD: Mapping[str, Options] = {
    "plain": of("Scaffold", {"personalise": "all"}),
    "momentum": of("Scaffold", {**SGD, "lr_decay": 0.5}),
    "data weights": of("Scaffold", weights="data", server_lr=0.7),
    "idle": of("Scaffold", {**IDLE, "local_epochs": 1.5}),
    "single precision": of("Scaffold", {"network": "Network32"}),
    "batch norm": of("Scaffold", NORMED),
}

FEDDYN: Mapping[str, Options] = {
    "alpha": of("FedDyn", alpha=0.4),
    "data weights": of("FedDyn", alpha=0.4, weights="data", server_lr=0.7),
    "idle": of("FedDyn", {**IDLE, **SGD}, alpha=0.4),
    "single precision": of("FedDyn", {"network": "Network32"}, alpha=0.4),
    "batch norm": of("FedDyn", {**NORMED, **IDLE}),
    "kept momentum": of("FedDyn", KEPT, alpha=0.4),
}

FEDCURV: Mapping[str, Options] = {
    "plain": of("FedCurv", lam=0.4),
    "last round": of("FedCurv", SGD, partial="last_round"),
    "proximal": of("FedCurv", SGD, lam=5.0, penalty_step="proximal"),
    "proximal last round": of("FedCurv", IDLE, lam=5.0, partial="last_round", penalty_step="proximal"),
    "idle": of("FedCurv", IDLE, weights="uniform", server_lr=0.7),
    "sparse": of("FedCurv", top_q=0.3),
    "sparse change": of("FedCurv", {"weight_decay": 0.1}, top_q=0.3, sparse_delta=True),
    "sparse change with batch norm": of("FedCurv", NORMED, top_q=0.3, sparse_delta=True),
    "sparse last round": of("FedCurv", top_q=0.3, partial="last_round", penalty_step="proximal"),
    "hardly sparse": of("FedCurv", top_q=0.8),
    "two vectors": of("FedCurv", lam=0.4, upload="theta_I"),
    "two sparse vectors": of("FedCurv", top_q=0.3, sparse_delta=True, upload="theta_I"),
    "one sparse vector": of("FedCurv", SGD, top_q=0.3, upload="theta_I"),
    "exact": of("FedCurv", kind="exact", fisher_samples=5),
    "words": of("FedCurv", WORDS, kind="exact", lam=2.0),
    "words in order": of("FedCurv", {**WORDS, "network": "Heard"}, lam=2.0),
    "mc": of("FedCurv", {"division": "one_large", "cohort": 2, "batch_size": 9}, kind="mc"),
    "batches": of("FedCurv", reduction="batch_mean_sq", fisher_batch=4, fisher_samples=7),
    "exact batches": of("FedCurv", kind="exact", reduction="batch_mean_sq", fisher_batch=4),
    "summed": of("FedCurv", lam=0.1, reduction="sum", fisher_samples=7),
    "mc draws": of("FedCurv", {"batch_size": 9}, kind="mc", fisher_draws=3, fisher_samples=7),
    "mc batches": of("FedCurv", kind="mc", reduction="batch_mean_sq", fisher_batch=4),
    "single precision": of("FedCurv", {"network": "Network32"}, lam=0.4),
    "batch norm": of("FedCurv", NORMED),
    "batch norm with one number a batch": of("FedCurv", NORMED, reduction="batch_mean_sq"),
    "kept momentum": of("FedCurv", KEPT, lam=0.4, penalty_step="proximal"),
}

FISHERAVG: Mapping[str, Options] = {
    "ewc": of("FisherAvg", lam=3.0),
    "explicit": of("FisherAvg", SGD, lam=1.0, penalty_step="explicit", gamma=0.6),
    "plain mean": of("FisherAvg", lam=3.0, weighted=False, weights="data", server_lr=0.7),
    "unknown coordinates": of("FisherAvg", {**SGD, "cohort": 2, "seed": 4}, lam=3.0, gamma=0.3, weights="data"),
    "by samples": of("FisherAvg", lam=3.0, weights="data", server_lr=0.7),
    "l1": of("FisherAvg", IDLE, lam=3.0, layer_norm="l1"),
    "max": of("FisherAvg", lam=3.0, layer_norm="max", server_lr=0.7),
    "no norm": of("FisherAvg", lam=3.0, layer_norm="none"),
    "fresh": of("FisherAvg", lam=3.0, agg_fisher="fresh", gamma=0.6),
    "sum": of("FisherAvg", lam=1.0, fisher_update="sum"),
    "eps": of("FisherAvg", lam=3.0, compat_eps=0.02, server_lr=0.7),
    "exact": of("FisherAvg", lam=3.0, kind="exact", fisher_samples=5),
    "mc": of("FisherAvg", lam=3.0, kind="mc"),
    "mc draws": of("FisherAvg", lam=3.0, kind="mc", fisher_draws=2, reduction="batch_mean_sq", fisher_batch=4),
    "batches": of("FisherAvg", lam=3.0, reduction="batch_mean_sq", fisher_batch=4),
    "summed": of("FisherAvg", lam=0.5, reduction="sum", layer_norm="none"),
    "rectified": of("FisherAvg", {"network": "Rectified", "weight_decay": 0.1}, lam=3.0),
    "rwalk": of("FisherAvg", lam=2.0, importance="rwalk", interval=2),
    "rwalk unscaled": of("FisherAvg", lam=0.5, importance="rwalk", interval=2, scale="none"),
    "rwalk explicit": of("FisherAvg", SGD, lam=1.0, importance="rwalk", interval=2, penalty_step="explicit"),
    "rwalk windows": of("FisherAvg", IDLE, lam=2.0, importance="rwalk", interval=3, alpha=0.4),
    "rwalk fresh": of("FisherAvg", lam=2.0, importance="rwalk", agg_fisher="fresh", gamma=0.6, eps=0.1),
    "rwalk plain mean": of("FisherAvg", SGD, lam=2.0, importance="rwalk", weighted=False, fisher_update="sum"),
    "rwalk, nobody trains": of("FisherAvg", {**IDLE, "cohort": 1, "seed": 3}, lam=2.0, importance="rwalk"),
    "single precision": of("FisherAvg", {"network": "Network32"}, lam=3.0),
    "batch norm": of("FisherAvg", NORMED, lam=1.0),
    "rwalk with batch norm": of("FisherAvg", {**NORMED, **SGD}, importance="rwalk", lam=1.0, interval=2),
    "kept momentum": of("FisherAvg", KEPT, importance="rwalk", lam=1.0, interval=2),
}

FEDCL: Mapping[str, Options] = {
    "squares": of("FedCL", lam=2.0, proxy=0.2),
    "proximal": of("FedCL", SGD, lam=5.0, proxy=0.2, penalty_step="proximal"),
    "identity": of("FedCL", lam=0.2, every=2, proxy=0.2, weights="uniform"),
    "skip": of("FedCL", lam=2.0, every=2, missing="skip", proxy=0.2),
    "last": of("FedCL", {"cohort": 3}, lam=2.0, every=3, missing="last", proxy=0.2),
    "never measured": of("FedCL", lam=0.2, every=0),
    "local": of("FedCL", IDLE, lam=2.0, every=2, missing="local", proxy=0.2, server_lr=0.7),
    "magnitudes": of("FedCL", lam=0.5, omega="per_param_abs", every=2, missing="local", proxy=0.2),
    "tensors": of("FedCL", lam=0.5, omega="per_tensor", every=2, missing="local", proxy=0.3, proxy_batch=4),
    "global": of("FedCL", lam=0.2, omega="global", every=2, missing="local", proxy=0.2),
    "mas": of("FedCL", lam=0.2, omega="mas", every=2, missing="local", proxy=0.2),
    "si": of("FedCL", {**SGD, "local_epochs": 2.0}, lam=0.5, omega="si", xi=0.1, proxy=0.3, proxy_batch=3),
    "si local": of("FedCL", IDLE, lam=0.5, omega="si", every=2, missing="local", xi=0.1, proxy=0.3),
    "single precision": of("FedCL", {"network": "Network32"}, lam=2.0, proxy=0.2),
    "batch norm": of("FedCL", NORMED, lam=1.0),
    "own statistics": of("FedCL", LOCAL, lam=2.0, every=2, missing="local", proxy=0.2),
    "tensors, own statistics": of("FedCL", LOCAL, lam=0.5, omega="per_tensor", every=0, missing="local", proxy_batch=4),
    "global, own statistics": of("FedCL", LOCAL, lam=0.2, omega="global", every=0, missing="local"),
    "si, own statistics": of("FedCL", LOCAL, lam=0.5, omega="si", every=0, missing="local", xi=0.1),
    "kept momentum": of("FedCL", KEPT, lam=0.5, every=2, missing="last", proxy=0.2),
}

FEDNTD: Mapping[str, Options] = {
    "smoothed": of("FedNTD", {"label_smoothing": 0.2}),
    "plain": of("FedNTD"),
    "own statistics": of("FedNTD", LOCAL),
    "tau": of("FedNTD", {**SGD, "network": "Rectified"}, beta=0.3, tau=3.0, weights="uniform", server_lr=0.7),
    "idle": of("FedNTD", {**IDLE, "personalise": "all"}, tau=0.5),
    "single precision": of("FedNTD", {"network": "Network32"}),
    "batch norm": of("FedNTD", {**NORMED, **SGD}),
    "kept momentum": of("FedNTD", KEPT),
}

MOON: Mapping[str, Options] = {
    "smoothed": of("MOON", {"label_smoothing": 0.2}),
    "plain": of("MOON"),
    "tau": of("MOON", {**SGD, "cohort": 2, "rounds": 5}, mu=5.0, tau=0.2),
    "weights": of("MOON", {"personalise": "all"}, mu=0.3, tau=2.0, weights="uniform", server_lr=0.7),
    "idle": of("MOON", IDLE),
    "single precision": of("MOON", {"network": "Network32"}),
    "batch norm": of("MOON", {**NORMED, **SGD}),
    "own statistics": of("MOON", LOCAL),
    "kept momentum": of("MOON", KEPT),
}

FEDKA: Mapping[str, Options] = {
    "plain": of("FedKA", beta=0.5, gamma=0.3),
    "hard": of("FedKA", {**SGD, "network": "Rectified"}, beta=0.5, gamma=0.4, strategy="hard", anchors=2),
    "proficient": of("FedKA", IDLE, beta=0.5, gamma=0.6, strategy="proficient", classes="non_dominant"),
    "missing": of("FedKA", {"personalise": "all"}, beta=0.5, gamma=0.3, classes="missing", reduction="mean"),
    "few anchors": of("FedKA", beta=0.5, gamma=0.6, anchors=1, weights="uniform", server_lr=0.7),
    "single precision": of("FedKA", {"network": "Network32"}, beta=0.5, gamma=0.3),
    "batch norm": of("FedKA", NORMED, gamma=0.3),
    "own statistics": of("FedKA", {**LOCAL, **SGD}, gamma=0.3, strategy="hard"),
    "kept momentum": of("FedKA", KEPT, beta=0.5, gamma=0.3),
}

LOCALONLY: Mapping[str, Options] = {
    "plain": of("LocalOnly"),
    "few": of("LocalOnly", {**SGD, "cohort": 2, "rounds": 5}, weights="uniform", server_lr=0.7),
    "idle": of("LocalOnly", {**IDLE, "personalise": "all"}),
    "single precision": of("LocalOnly", {"network": "Network32"}),
    "batch norm": of("LocalOnly", NORMED),
    "kept momentum": of("LocalOnly", KEPT),
}

DITTO: Mapping[str, Options] = {
    "plain": of("Ditto"),
    "lam": of("Ditto", {**SGD, "cohort": 2, "rounds": 5}, lam=0.3, weights="uniform", server_lr=0.7),
    "all": of("Ditto", {"personalise": "all", "network": "Rectified"}, lam=2.0),
    "idle": of("Ditto", {**IDLE, "local_epochs": 1.5}),
    "single precision": of("Ditto", {"network": "Network32", **SGD}),
    "batch norm": of("Ditto", {**NORMED, **SGD}),
}

FEDBN: Mapping[str, Options] = {
    "plain": of("FedBN", NORMED),
    "few": of("FedBN", {**NORMED, **SGD, "cohort": 2, "rounds": 5}, weights="uniform", server_lr=0.7),
    "all": of("FedBN", {**NORMED, "personalise": "all"}),
    "idle": of("FedBN", {**NORMED, **IDLE}),
    "kept momentum": of("FedBN", {**NORMED, **KEPT}),
}

FEDPER: Mapping[str, Options] = {
    "plain": of("FedPer"),
    "few": of("FedPer", {**SGD, "cohort": 2, "rounds": 5}, weights="uniform", server_lr=0.7),
    "all": of("FedPer", {"personalise": "all", "network": "Rectified"}),
    "idle": of("FedPer", IDLE),
    "single precision": of("FedPer", {"network": "Network32"}),
    "batch norm": of("FedPer", NORMED),
    "own statistics": of("FedPer", LOCAL),
    "kept momentum": of("FedPer", KEPT),
}

FEDREP: Mapping[str, Options] = {
    "plain": of("FedRep"),
    "few": of("FedRep", {**SGD, "cohort": 2, "rounds": 5}, head_epochs=2.0, weights="uniform", server_lr=0.7),
    "part of an epoch": of("FedRep", {"local_steps": 3, "lr_decay": 0.5}, head_epochs=0.6),
    "all": of("FedRep", {"personalise": "all", "network": "Rectified"}, head_epochs=1.5),
    "idle": of("FedRep", IDLE, head_epochs=3.0),
    "clipped": of("FedRep", {"clip_norm": 0.3}, head_epochs=2.0),
    "single precision": of("FedRep", {"network": "Network32"}, head_epochs=2.0),
    "batch norm": of("FedRep", NORMED, head_epochs=2.0),
    "own statistics": of("FedRep", LOCAL, head_epochs=2.0),
}

FEDROD: Mapping[str, Options] = {
    "smoothed": of("FedRoD", {"label_smoothing": 0.2}),
    "plain": of("FedRoD"),
    "gamma": of("FedRoD", {**SGD, "cohort": 2, "rounds": 5}, gamma=0.4, weights="uniform", server_lr=0.7),
    "all": of("FedRoD", {"personalise": "all", "network": "Rectified"}, gamma=0.0),
    "idle": of("FedRoD", {**IDLE, "lr_decay": 0.5}),
    "clipped": of("FedRoD", {"clip_norm": 0.3}),
    "single precision": of("FedRoD", {"network": "Network32", **SGD}),
    "batch norm": of("FedRoD", {**NORMED, **SGD}),
}

FEDALA: Mapping[str, Options] = {
    "plain": of("FedALA", {"rounds": 4}),
    "few": of("FedALA", {**SGD, "cohort": 2, "rounds": 5}, eta=3.0, share=0.4, weights="uniform", server_lr=0.7),
    "steady": of("FedALA", {"cohort": 5}, eta=5.0, threshold=0.003, losses=3),
    "few passes": of("FedALA", {"network": "Rectified", "rounds": 4}, layers=3, passes=4),
    "all": of("FedALA", {"personalise": "all"}, losses=2, share=0.5),
    "idle": of("FedALA", {**IDLE, "lr_decay": 0.5}, eta=2.0, threshold=0.02),
    "single precision": of("FedALA", {"network": "Network32", "rounds": 4}),
    "batch norm": of("FedALA", {**NORMED, "rounds": 4}),
    "kept momentum": of("FedALA", KEPT, losses=2),
}

FEDFOMO: Mapping[str, Options] = {
    "plain": of("FedFomo", {"rounds": 4}),
    "l1": of("FedFomo", {"rounds": 4}, norm="l1", models=3, epsilon=0.0),
    "few": of("FedFomo", {**SGD, "cohort": 2, "rounds": 5}, held_out=0.4, weights="uniform", server_lr=0.7),
    "explores": of("FedFomo", {"rounds": 5, "cohort": None}, models=2, epsilon=1.0, decay=0.3),
    "all": of("FedFomo", {"personalise": "all", "network": "Rectified"}, models=6),
    "idle": of("FedFomo", {**IDLE, "rounds": 4, "cohort": 5}, models=4),
    "idle beside what is held out": of("FedFomo", IDLE, held_out=0.6),
    "single precision": of("FedFomo", {"network": "Network32"}),
    "batch norm": of("FedFomo", {**NORMED, "rounds": 4}),
    "own statistics": of("FedFomo", {**LOCAL, "rounds": 4}),
    "own statistics, fallback": of("FedFomo", {**LOCAL, "rounds": 4, "lr": 1.0}, fallback="before"),
    "fallback": of("FedFomo", {"rounds": 5, "lr": 1.0}, fallback="before"),
    "kept momentum": of("FedFomo", KEPT),
}

FEDPAC: Mapping[str, Options] = {
    "smoothed": of("FedPAC", {"label_smoothing": 0.2}),
    "plain": of("FedPAC"),
    "few": of("FedPAC", {**SGD, "cohort": 2, "rounds": 5}, lam=3.0, weights="uniform", server_lr=0.7),
    "head": of("FedPAC", {"cohort": None, "lr_decay": 0.5}, head_lr=0.4, head_epochs=2.5),
    "least": of("FedPAC", {"cohort": None}, least=0.1),
    "all below the least": of("FedPAC", {"cohort": None}, least=0.9),
    "all": of("FedPAC", {"personalise": "all", "network": "Rectified"}, lam=0.3),
    "idle": of("FedPAC", {**IDLE, "local_epochs": 1.5}, head_epochs=0.6),
    "single precision": of("FedPAC", {"network": "Network32"}),
    "batch norm": of("FedPAC", NORMED),
    "own statistics": of("FedPAC", LOCAL),
}

TABLES = (
    FEDAVG, FEDPROX, FEDAVGM, FEDOPT, FEDNOVA, SCAFFOLD, FEDDYN, FEDCURV, FISHERAVG, FEDCL, FEDNTD, MOON, FEDKA,
    LOCALONLY, DITTO, FEDBN, FEDPER, FEDREP, FEDROD, FEDALA, FEDFOMO, FEDPAC, FILVER, ONLINEEWC, LWF, STREAMS, CLIENTS,
    LOSSES,
)  # fmt: skip
CASES: Mapping[str, Options] = {f"{case['method']}: {name}": case for table in TABLES for name, case in table.items()}
