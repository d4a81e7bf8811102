"""Runs server strategies of Flower on the small federation and writes what they compute.

    PYTHONPATH=tests/public:CLONE/framework/py python tests/public/drivers/libraries/flower.py CLONE

CLONE is a checkout of https://github.com/flwrlabs/flower, which needs what its framework/pyproject.toml names. Its
strategies, with the message-based loop over rounds that they inherit, run unchanged. Given is the network of nodes:
whoever is there in a round trains by torch's SGD on all its samples at once. Two things are done to the adaptive
strategies: their second moment begins at tau squared, as Algorithm 2 of Reddi et al. has it, and not at zero; and their
rounds have numbers at which the correction of Adam's rate for the start, which the algorithm has not, is over.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from federation import COHORTS, EPOCHS, LR, Network, samples
from public_numbers import Found, Round, write
from torch import Tensor
from torch.nn.functional import cross_entropy

LATE = 100_000
"""Rounds that adaptive strategies believe to have had."""


class Case(NamedTuple):
    """A strategy.

    Attributes:
        strategy: its class.
        settings: of the strategy.
        state: what it knows after a round, beside the model; its vectors as Flower names them.
        begin: what is done to it before its first round.
    """

    strategy: str
    settings: Mapping[str, float]
    state: Mapping[str, Callable[[Any], Iterable[Any]]]
    begin: Callable[[Any], None] = lambda strategy: None


def adaptive(strategy: Any) -> None:
    """Begin with the second moment of the paper, in a late round."""
    aggregate = strategy.aggregate_train
    strategy.v_t = {name: torch.full_like(own, strategy.tau**2).numpy() for name, own in Network().state_dict().items()}
    strategy.aggregate_train = lambda server_round, replies: aggregate(LATE + server_round, replies)


MOMENTUM: Mapping[str, Callable[[Any], Iterable[Any]]] = {"v": lambda strategy: strategy.momentum_vector}
MOMENTS: Mapping[str, Callable[[Any], Iterable[Any]]] = {
    "m": lambda strategy: strategy.m_t.values(),
    "v": lambda strategy: strategy.v_t.values(),
}
ADAPTIVE = {"eta": 0.03, "beta_1": 0.8, "beta_2": 0.7, "tau": 0.02}
CASES = {
    "fedavgm": Case("FedAvgM", {"server_learning_rate": 0.6, "server_momentum": 0.8}, MOMENTUM),
    "fedadam": Case("FedAdam", ADAPTIVE, MOMENTS, adaptive),
    "fedyogi": Case("FedYogi", ADAPTIVE, MOMENTS, adaptive),
    "fedadagrad": Case("FedAdagrad", {"eta": 0.03, "tau": 0.02}, MOMENTS, adaptive),
}


class Nodes:
    """The network of nodes; the ids of clients are theirs and one.

    Attributes:
        there: ids of those that are there in the round.
    """

    def __init__(self) -> None:
        self.there: list[int] = []

    def get_node_ids(self) -> list[int]:
        return self.there

    def send_and_receive(self, messages: Iterable[Any], timeout: float) -> list[Any]:
        """What the nodes answer, in their order."""
        return [self.answer(message) for message in sorted(messages, key=lambda each: int(each.metadata.dst_node_id))]

    def answer(self, message: Any) -> Any:
        """The model after local training, and the number of samples."""
        common = importlib.import_module("flwr.common")
        network, (x, labels) = Network(), samples(message.metadata.dst_node_id - 1)
        network.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimizer = torch.optim.SGD(network.parameters(), LR)
        for _ in range(EPOCHS):
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(network(x)[1], labels))
            optimizer.step()
        count = common.MetricRecord({"num-examples": len(labels)})
        content = {"arrays": common.ArrayRecord(network.state_dict()), "metrics": count}
        return common.Message(common.RecordDict(content), reply_to=message)


def joined(arrays: Iterable[Any]) -> Tensor:
    """NumPy's arrays as one vector."""
    return torch.cat([torch.as_tensor(each).reshape(-1) for each in arrays])


def rounds_of(case: Case) -> list[Round]:
    """What the strategy computes."""
    strategies = importlib.import_module("flwr.serverapp.strategy")
    strategy = getattr(strategies, case.strategy)(fraction_evaluate=0.0, **case.settings)
    nodes, found = Nodes(), list[Round]()

    def between(server_round: int, arrays: Any) -> None:
        """The evaluation before the first round and after each."""
        if server_round:
            state = {name: joined(own(strategy)) for name, own in case.state.items()}
            found.append({"theta": joined(arrays.to_numpy_ndarrays()), **state})
        if server_round < len(COHORTS):
            nodes.there = [k + 1 for k in COHORTS[server_round]]

    case.begin(strategy)
    start = importlib.import_module("flwr.common").ArrayRecord(Network().state_dict())
    strategy.start(nodes, start, len(COHORTS), evaluate_fn=between)
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    found = {name: Found({"strategy": case.strategy, **case.settings}, rounds_of(case)) for name, case in CASES.items()}
    write("flower", "https://github.com/flwrlabs/flower", sys.argv[1], found)
