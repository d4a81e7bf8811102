"""FedKA's distance in closed form, and which samples are anchors of whom."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from given import round_of_one_task
from quadratic import approx
from table import of_rows, reading, table
from torch import Tensor, nn
from torch.func import grad

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.workplace import Workplace
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedka import FedKA
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Tensors

RECEIVED = [[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, 1.0]]
OWN = [[9.0, 2.5, 3.0, 3.0], [5.0, 1.0, 1.0, 1.0]]
CLASSES = 4
LABELS = [[0] * 6 + [1] * 3 + [2], [3] * 10, [1] * 5 + [2] * 5]
"""Of the clients' samples: shares .6 .3 .1 0; 0 0 0 1; 0 .5 .5 0."""


def anchored(real: tuple[float, float]) -> Tensors:
    """Two anchors that read the table's rows; class 0 is dominant."""
    return {
        "anchors": torch.eye(2, dtype=torch.float64),
        "logits": torch.tensor(RECEIVED, dtype=torch.float64),
        "real": torch.tensor(real, dtype=torch.float64),
        "kept": torch.tensor([0.0, 1, 1, 1], dtype=torch.float64),
    }


def added(
    beta: float, reduction: str = "sum", real: tuple[float, float] = (1.0, 1.0), own: list[list[float]] = OWN
) -> tuple[float, Tensor]:
    """The loss of a batch without samples, which is the anchors' alone, and its gradient in the logits."""
    model = table(own)
    method = FedKA(model, beta=beta, reduction=reduction)  # type: ignore[arg-type]
    server: Tensors = {}
    given = (model.leaves(model.init()), reading([0], 2, [0.0]), server, anchored(real))
    return method.loss(*given).item(), of_rows(grad(method.loss)(*given), model)


def test_value_and_gradient() -> None:
    """1/2 ((.5^2 + 0 + 1) + (0 + 1 + 0)) = 1.125."""
    value, slope = added(1.0)
    assert value == approx(1.125)
    torch.testing.assert_close(slope, torch.tensor([[0, 0.5, 0, -1], [0, 0, 1, 0]], dtype=torch.float64))


def test_at_the_received_model_there_is_nothing_to_descend() -> None:
    value, slope = added(1.0, own=RECEIVED)
    assert value == 0 and not slope.any()


def test_the_mean_is_over_the_kept_logits() -> None:
    assert added(1.0, "mean")[0] == approx(0.375)


def test_beta_scales_it_and_without_anchors_it_is_nothing() -> None:
    assert added(0.4)[0] == approx(0.45)
    assert added(1.0, real=(1.0, 0.0))[0] == approx(1.25), "the mean is over the anchors there are"
    value, slope = added(1.0, real=(0.0, 0.0))
    assert value == 0
    assert slope.abs().max() == 0


class _Places(nn.Module):
    """Logits of a sample whose input is its place in the training set: its loss falls with the place."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(1, CLASSES, dtype=torch.float64)
        nn.init.zeros_(self.linear.bias)
        self.linear.weight.data = torch.arange(CLASSES, dtype=torch.float64)[:, None] / 100

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out


def group_of(method: FedAvg, seed: int = 0, lanes: int = 4) -> Group:
    """The clients of LABELS; S is samples 0, 6, 9 and 10."""
    y = np.concatenate(LABELS)
    x = torch.arange(len(y), dtype=torch.float64)[:, None]
    parts = np.split(np.arange(len(y)), [10, 20])
    samples = Samples(x, torch.from_numpy(y))
    shared = torch.tensor([0, 6, 9, 10])
    work = Workplace(samples, torch.float64, False, False, lambda: None, 10, shared)
    return Group(work, Plan(5, 1.0, None, 0.1), np.arange(3), parts, lanes, seed, round_of_one_task(0))


def method_of(**options: object) -> FedKA:
    return FedKA(FlatModel(_Places(), CLASSES, torch.zeros(1, 1, dtype=torch.float64)), **options)  # type: ignore[arg-type]


def anchors_of(seed: int = 0, **options: object) -> list[list[int]]:
    """Places of the anchors of each client, ascending."""
    method = method_of(**options)
    found = method.anchored(group_of(method, seed), method.model.init())
    places = [x[real > 0, 0].long().tolist() for x, real in zip(found["anchors"], found["real"], strict=True)]
    return [sorted(own) for own in places[:3]]


def test_the_hardest_and_the_most_proficient_sample_of_a_class() -> None:
    """Of a class above 1.5 the loss falls with the place, of one below it rises."""
    hard = anchors_of(strategy="hard", gamma=0.4, classes="non_dominant")
    assert hard == [[8, 9], [], []]
    assert anchors_of(strategy="proficient", gamma=0.4, classes="non_dominant") == [[6, 9], [], []]
    assert anchors_of(strategy="hard", gamma=0.55, classes="non_dominant")[2] == [24, 25]
    assert anchors_of(strategy="proficient", gamma=0.55, classes="non_dominant")[2] == [20, 29]


def test_missing_classes_have_the_shared_sample() -> None:
    assert anchors_of(classes="missing") == [[10], [0, 6, 9], [0, 10]]


def test_classes_of_less_than_half_of_an_equal_share_are_not_dominant() -> None:
    """0.5 / C = 1/8 by default; a share of gamma itself is dominant."""
    assert anchors_of() == [[9, 10], [0, 6, 9], [0, 10]]
    assert anchors_of(gamma=0.3, classes="non_dominant")[0] == [9]
    assert anchors_of(gamma=0.0) == anchors_of(classes="missing")


@pytest.mark.parametrize("options", [{}, {"gamma": 0.4}, {"classes": "missing"}, {"gamma": 0.7, "classes": "missing"}])
def test_the_logits_of_classes_that_are_not_dominant_are_kept(options: dict[str, object]) -> None:
    """Whatever classes the anchors are of."""
    method = method_of(**options)
    kept = method.anchored(group_of(method), method.model.init())["kept"][:3]
    gamma = options.get("gamma", 0.125)
    shares = [[0.6, 0.3, 0.1, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.5, 0.5, 0.0]]
    assert kept.tolist() == [[float(share < gamma) for share in own] for own in shares]  # type: ignore[operator]


def test_random_anchors_are_redrawn_and_each_sample_is_one_at_times() -> None:
    drawn = [anchors_of(seed, gamma=0.4, classes="non_dominant")[0] for seed in range(40)]
    assert {own[0] for own in drawn} == {6, 7, 8}
    assert {own[1] for own in drawn} == {9}


def test_the_most_anchors_are_drawn_among_all() -> None:
    """Client 1 has three missing classes; each is left out at times."""
    drawn = {tuple(anchors_of(seed, anchors=2)[1]) for seed in range(40)}
    assert drawn == {(0, 6), (0, 9), (6, 9)}
    assert all(len(own) <= 1 for own in anchors_of(anchors=1))


def test_the_received_logits_are_those_of_the_anchors() -> None:
    method = method_of(gamma=0.7)
    theta = method.model.init()
    found = method.anchored(group_of(method), theta)
    logits = method.model.logits(theta, found["anchors"].flatten(0, 1))
    torch.testing.assert_close(found["logits"].flatten(0, 1), logits)


def test_a_client_of_dominant_classes_alone_trains_as_in_fedavg() -> None:
    """No class is missing: all have a share of 1/4, at least gamma."""
    even = [np.arange(4) * 6, np.arange(4) * 6]
    y = torch.tensor(np.repeat(np.arange(4), 6))
    x = torch.randn(24, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for method in (method_of(beta=7.0, gamma=0.25), replace(method_of(beta=7.0), gamma=0.125)):
        work = Workplace(Samples(x, y), torch.float64, False, False, lambda: None, 4, torch.arange(4) * 6)
        group = Group(work, Plan(3, 2.0, None, 0.1), np.arange(2), even, 2, 0, round_of_one_task(0))
        server = {"theta": method.model.init()}
        ours, theirs = (m.client_update(group, server, {}).theta for m in (method, FedAvg(method.model)))
        assert torch.equal(ours, theirs)
        assert not torch.equal(ours[0], server["theta"])
