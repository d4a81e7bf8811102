"""Runs FedFomo's official code on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/fedfomo_official.py CLONE

CLONE is a checkout of https://github.com/NVlabs/FedFomo, which needs pandas, scikit-learn and tqdm. Its clients run
unchanged, and of its server what it does before a round and in it. Given are the network, the samples, whose turn it
is, the CPU for every device, that no client is tried at random, and that of clients as good as each other the first is;
after a round there are the models of all clients that ever trained, and no averages of groups of clients, which the
official code has clients try, too.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from federation import CLASSES, EPOCHS, LR, SIZES, TOGETHER, Logits, pairs
from public_numbers import Found, Round, flat, write
from seen import Seen
from torch.utils.data import TensorDataset

CASES: Mapping[str, Mapping[str, float]] = {
    "all others": {"num_update_clients": 3, "weight_decay": 0.0},
    "two others": {"num_update_clients": 2, "weight_decay": 0.0},
    "nobody does better": {"num_update_clients": 3, "weight_decay": 2.0},
}
"""In the last round of the third, two clients forget their training."""
COMMAND = (
    f"--federation_method fomo --baseline_model first_model --train_split 0.8 --federation_epoch {EPOCHS} --lr {LR} "
    "--bs_trn 20 --bs_val 20 --num_workers 0 --client_weight_method e_greedy --num_clients 4"
)


def rounds_of(settings: Mapping[str, float]) -> list[Round]:
    """What the official code computes."""
    args, configs = (importlib.import_module(f"federated.{name}") for name in ("args", "configs"))
    args.args.__dict__.update(settings, model_path="", experiment_name="")
    configs.assert_and_infer_cfg_fl(configs.cfg_fl, args.args, make_immutable=False)
    population = Namespace(clients=[], num_clients=len(SIZES), num_classes=CLASSES, num_distributions=1)
    for k in range(len(SIZES)):
        client = importlib.import_module("client").Client(client_id=k, population=population)
        own = TensorDataset(*pairs(k))
        client.initialize(own, None, test_dataset=own)
        population.clients.append(client)
    server = importlib.import_module("server").GlobalServer(population)
    server.cfg = configs.cfg_fl
    found = []
    for t, cohort in enumerate(TOGETHER):
        server.round = args.args.federation_round = t
        active = [population.clients[k] for k in cohort]
        for client in active:
            client.last_active_round = t
        server.local_train(server.initialize_clients(t, selected_clients=active), t)
        server.uploaded_clients = population.clients
        found.append(known(population.clients))
    return found


def known(clients: Any) -> Round:
    """The clients' models after and before their last training."""
    before = {f"client {c.id}: before": flat(c.first_model.parameters()) for c in clients}
    return {"models": torch.cat([flat(client.model.parameters()) for client in clients])} | before


def first_of_the_best() -> Namespace:
    """Draws by which no client is tried at random, and of those that are as good as each other the first is."""
    return Namespace(
        random=lambda count: np.arange(count, 0.0, -1.0),
        uniform=lambda least, most: most,
        choice=lambda clients, size, replace: clients,
    )


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    clone, sys.argv = sys.argv[1], [sys.argv[0], *COMMAND.split()]
    # the official code has a module of this name, too
    del sys.modules["federation"]
    sys.path.insert(0, clone)
    importlib.import_module("federated.network").__dict__["get_net"] = lambda args, criterion: Logits()
    for name in ("client", "server"):
        importlib.import_module(name).__dict__["torch"] = Seen(torch, device=lambda name: torch.device("cpu"))
    importlib.import_module("client").__dict__["np"] = Seen(np, random=first_of_the_best())
    found = {name: Found(settings, rounds_of(settings)) for name, settings in CASES.items()}
    write("fedfomo_official", "https://github.com/NVlabs/FedFomo", clone, found)
