"""The cases of losses of numbers."""

from __future__ import annotations

from collections.abc import Mapping

from shared_options import KEPT, NORMED, SGD, Options, of

MSE: Options = {"loss": "mse", "lr": 0.1}
BCE: Options = {"loss": "bce", "lr": 1.0}

LOSSES: Mapping[str, Options] = {
    "mse": of("FedAvg", {**SGD, **MSE}),
    "mse, single precision": of("FedAvg", {**MSE, "network": "Network32"}),
    "mse, all clients are tested": of("FedAvg", {**NORMED, **MSE, "personalise": "all"}),
    "mse, merged": of("FedAvg", {**MSE, "data.merge": True, "division": "merged"}),
    "mse, own tests of the test set": of("FedAvg", {**MSE, "local_test_from": "test", "local_test": 0.5}),
    "mse, proximal": of("FedProx", MSE, mu=0.5),
    "mse, control variates": of("Scaffold", MSE),
    "mse, kept momentum": of("FedAvg", {**KEPT, **MSE}),
    "mse, empirical Fisher": of("FedCurv", MSE, lam=0.1),
    "mse, batches of the Fisher": of("FisherAvg", MSE, reduction="batch_mean_sq", fisher_batch=5),
    "mse, norms of gradients": of("FedCL", MSE, omega="global", proxy=0.3),
    "mse, features": of("MOON", MSE),
    "mse, mixtures": of("FedALA", MSE),
    "mse, others' models": of("FedFomo", MSE),
    "mse, own head": of("FedRep", MSE),
    "bce": of("FedAvg", {**SGD, **BCE}),
    "bce, single precision": of("FedAvg", {**BCE, "network": "Network32"}),
    "bce, all clients are tested": of("FedAvg", {**NORMED, **BCE, "personalise": "all", "eval_every": 2}),
    "bce, own tests of the test set": of("FedAvg", {**BCE, "local_test_from": "test", "local_test": 0.5}),
    "bce, empirical Fisher": of("FedCurv", BCE, lam=0.1),
    "bce, norms of gradients": of("FedCL", BCE, omega="global", proxy=0.3),
    "bce, corrections": of("FedDyn", BCE),
    "bce, features": of("MOON", BCE),
    "bce, others' models": of("FedFomo", BCE),
}
