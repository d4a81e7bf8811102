"""The rules for layers, and which parameters they are trusted with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from importance_bench import bench, check_against_loop, gradients, uncovered
from torch import Tensor, nn
from torch.nn import functional as F

from fl_ddp.importance import fisher as importance_pass
from fl_ddp.importance.fisher import fisher
from fl_ddp.models.cnn import FedCLCIFAR, FedCLMNIST, FedCurvCNN, FedKACNN, ImportanceCNN, LeNet5, PflCNN
from fl_ddp.models.filver import FilVerNet
from fl_ddp.models.mlp import MLP
from fl_ddp.models.resnet import ResNet18, ResNet50

SMALL = (1, 8, 8)
Model = Callable[..., nn.Module]
SHIPPED: list[tuple[Model, tuple[int, ...], dict[str, object]]] = [
    (MLP, SMALL, {}),
    (MLP, (5,), {"hidden": ()}),
    (ImportanceCNN, SMALL, {}),
    (LeNet5, (3, 17, 16), {}),
    (FedCurvCNN, (1, 16, 16), {}),
    (FedKACNN, (3, 16, 18), {}),
    (PflCNN, SMALL, {}),
    (FedCLMNIST, SMALL, {}),
    (FedCLMNIST, (1, 9, 8), {"variant": "code"}),
    (FedCLCIFAR, (3, 8, 8), {}),
    (FilVerNet, SMALL, {"embedding_size": 6}),
    (FilVerNet, SMALL, {"embedding": "ebr", "embedding_size": 6, "hidden": (7,)}),
    (ResNet18, SMALL, {"groups": 2}),
]
AT_ONCE = [  # the others take ten times as long
    pytest.param(model, *rest, marks=[pytest.mark.slow] * (model is ResNet18 or "embedding" in rest[1]))
    for model, *rest in SHIPPED
]


@pytest.mark.parametrize(("model", "in_shape", "options"), AT_ONCE)
def test_every_shipped_model_is_covered_and_equals_a_loop(
    model: Model, in_shape: tuple[int, ...], options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importance_pass, "_CHUNK", 2)  # padding costs time
    sizes = (1,) if model is ResNet18 else (3, 1)
    b = bench(lambda: model(in_shape=in_shape, num_classes=3, **options), in_shape, sizes)
    assert not uncovered(b)
    check_against_loop(b)


@pytest.mark.slow
def test_all_of_resnet50_is_covered_which_says_that_it_equals_a_loop() -> None:
    b = bench(lambda: ResNet50(in_shape=SMALL, num_classes=3), SMALL, (1,))
    assert not uncovered(b)


class Convolution(NamedTuple):
    """Arguments of a convolution that fit images of 9 x 8 pixels."""

    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int] | str
    dilation: tuple[int, int]
    bias: bool
    padding_mode: str


def convolutions() -> st.SearchStrategy[Convolution]:
    def pairs(low: int, high: int) -> st.SearchStrategy[tuple[int, int]]:
        return st.tuples(st.integers(low, high), st.integers(low, high))

    padded = st.one_of(pairs(0, 3), st.sampled_from(["same", "valid"]))
    made = st.builds(
        Convolution,
        pairs(1, 4),
        pairs(1, 3),
        padded,
        pairs(1, 2),
        st.booleans(),
        st.sampled_from(["zeros", "circular"]),
    )
    return made.map(lambda c: c._replace(stride=(1, 1)) if c.padding == "same" else c)


@settings(max_examples=15, deadline=None)
@given(convolutions(), st.sampled_from(["empirical", "exact"]))
def test_convolutions_of_all_kinds_equal_a_loop(c: Convolution, kind: str) -> None:
    def make() -> nn.Module:
        conv = nn.Conv2d(2, 3, **c._asdict())
        flat = conv(torch.zeros(1, 2, 9, 8)).numel()
        return nn.Sequential(conv, nn.Tanh(), nn.Flatten(), nn.Linear(flat, 3))

    b = bench(make, (2, 9, 8), (3, 1))
    assert not uncovered(b)
    check_against_loop(b, kind)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from([(), (3,), (2, 4)]), st.booleans(), st.sampled_from(["empirical", "exact"]))
def test_linear_layers_at_several_positions_equal_a_loop(places: tuple[int, ...], bias: bool, kind: str) -> None:
    width = torch.Size(places).numel()
    make = lambda: nn.Sequential(  # noqa: E731
        nn.Linear(5, 4, bias), nn.Tanh(), nn.Linear(4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(3 * width, 3)
    )
    b = bench(make, (*places, 5), (4, 2))
    assert not uncovered(b)
    check_against_loop(b, kind)


@pytest.mark.parametrize("kind", ["empirical", "exact"])
@pytest.mark.parametrize(("groups", "eps"), [(1, 1e-5), (2, 0.3), (4, 1e-5)])
def test_group_norm_equals_a_loop(groups: int, eps: float, kind: str) -> None:
    make = lambda: nn.Sequential(  # noqa: E731
        nn.Conv2d(1, 4, 3, bias=False), nn.GroupNorm(groups, 4, eps), nn.ReLU(inplace=True), nn.Flatten(),
        nn.Linear(36, 8, bias=False), nn.GroupNorm(groups, 8), nn.Tanh(), nn.Linear(8, 3),
    )  # fmt: skip
    b = bench(make, (1, 5, 5), (4, 2))
    assert not uncovered(b)
    check_against_loop(b, kind)


class Own(nn.Module):
    """Two linear layers, and something between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 3)
        self.extra = nn.Parameter(torch.linspace(-1, 1, 36).view(6, 6))

    def between(self, x: Tensor) -> Tensor:
        return F.linear(x, self.extra)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.last(self.between(self.first(x).tanh()).tanh())
        return out


class Named(Own):
    def between(self, x: Tensor) -> Tensor:
        return F.linear(bias=self.extra[0] * 0, weight=self.extra, input=x)


class Tied(Own):
    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.first(x)
        return y + x @ self.extra


class Scaled(Own):
    def between(self, x: Tensor) -> Tensor:
        return F.linear(x, self.extra * 2)


class Penalised(Own):
    """A weight that is also used directly."""

    def between(self, x: Tensor) -> Tensor:
        return F.linear(x, self.extra) + self.extra.sum()


class Asking(Own):
    """A weight that is asked for its shape and type alone."""

    def between(self, x: Tensor) -> Tensor:
        return F.linear(x.to(self.extra.dtype), self.extra) / self.extra.shape[0]


class Transposed(Own):
    def between(self, x: Tensor) -> Tensor:
        return x @ self.extra.T


class Normed(Own):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(6)

    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(x)
        return y


class Sequences(Own):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(2, 2, 3, padding=1)

    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x.view(-1, 2, 3))
        return y.flatten(1)


class Grouped(Own):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 2, (1, 3), padding=(0, 1), groups=2)

    def between(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x.view(-1, 2, 1, 3))
        return y.flatten(1)


class RowsOfATable(Own):
    """A layer whose first dimension is as long as the check's batch, and is none."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Parameter(torch.linspace(-1, 1, 18).view(3, 6))
        self.table = nn.Linear(6, 6, bias=False)

    def between(self, x: Tensor) -> Tensor:
        out: Tensor = x @ self.table(self.extra).T @ self.extra
        return out


class Unused(Own):
    def between(self, x: Tensor) -> Tensor:
        return x


OWN: list[tuple[type[Own], set[str]]] = [
    (Own, set()),
    (Asking, set()),
    (Unused, set()),
    (Named, {"extra"}),
    (Tied, {"first.weight", "first.bias", "extra"}),
    (Scaled, {"extra"}),
    (Penalised, {"extra"}),
    (Transposed, {"extra"}),
    (Normed, {"norm.weight", "norm.bias"}),
    (Sequences, {"conv.weight", "conv.bias"}),
    (Grouped, {"conv.weight", "conv.bias"}),
    (RowsOfATable, {"extra", "table.weight"}),
]


@pytest.mark.parametrize("kind", ["empirical", "exact"])
@pytest.mark.parametrize(("own", "left"), OWN)
def test_what_the_rules_do_not_cover_is_found_by_vmap(own: type[Own], left: set[str], kind: str) -> None:
    b = bench(own, (6,), (4, 1))
    assert uncovered(b) == left
    check_against_loop(b, kind)


def test_tied_weights_are_left_to_vmap() -> None:
    def make() -> nn.Module:
        net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
        assert isinstance(net[2], nn.Linear) and isinstance(net[0], nn.Linear)
        net[2].weight = net[0].weight
        return net

    b = bench(make, (4,), (3, 2))
    assert uncovered(b) == {"0.weight"}
    check_against_loop(b)


class Mixing(Own):
    """Samples of a batch see each other: taps would count another sample's loss."""

    def between(self, x: Tensor) -> Tensor:
        return F.linear(x - 0.5 * x.mean(0), self.extra)


@pytest.mark.parametrize("kind", ["empirical", "exact"])
def test_a_model_that_mixes_samples_gets_the_gradients_of_single_samples(kind: str) -> None:
    b = bench(Mixing, (6,), (4, 2))
    assert uncovered(b) == set(b.model.names)
    check_against_loop(b, kind)


class SinglePrecision(Own):
    """Cannot work in float64."""

    def between(self, x: Tensor) -> Tensor:
        return x @ torch.eye(6) @ self.extra


def test_a_model_that_cannot_be_checked_in_float64_is_left_to_vmap() -> None:
    b = bench(SinglePrecision, (6,), (4,), dtype=torch.float32)
    assert uncovered(b) == set(b.model.names)
    theta, (x, y) = b.model.init(), b.inputs(0)
    g, _ = gradients(b.model, theta, x)
    expected = g[torch.arange(4), y].square().mean(0)
    torch.testing.assert_close(fisher(b.group([0]), theta, b.model)[0], expected, rtol=1e-4, atol=1e-6)
