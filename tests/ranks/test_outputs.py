"""Outputs of models for test samples: the same on any ranks, and in any company."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fl_ddp.engine.samples import Samples
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.ranks.collectives import Ranks, Result
from fl_ddp.ranks.outputs import BATCH, CONVOLVED, WIDTH, Passes, gathered, of_lanes, passes_of
from fl_ddp.ranks.own_tests import own_scores

CPU = torch.device("cpu")
SIZE = 2 * BATCH + 7


@dataclass(frozen=True)
class _Heard(Ranks):
    """One of several ranks in one process, whose buffer is heard."""

    sent: list[Tensor] = field(default_factory=list)

    def add(self, buffer: Tensor) -> Tensor:
        self.sent.append(buffer.clone())
        return buffer

    def together(self, work: Callable[[], Result]) -> Result:
        return work()


def samples() -> Samples:
    generator = torch.Generator().manual_seed(1)
    return Samples(torch.randn(SIZE, 5, generator=generator), torch.randn(SIZE, 2, generator=generator))


def layers(number: int) -> Tensor:
    return torch.randn(number, 10, generator=torch.Generator().manual_seed(2))


def predict(theta: Tensor, x: Tensor) -> Tensor:
    return torch.tanh(x @ theta.view(5, 2))


@pytest.mark.parametrize("batch", [BATCH, 700])
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
def test_every_rank_gives_its_batches_and_nothing_of_others(num_ranks: int, batch: int) -> None:
    rows, theta = np.random.default_rng(0).permutation(SIZE), layers(1)[0]
    heard = [_Heard(i, num_ranks, CPU) for i in range(num_ranks)]
    targets = [
        gathered(lambda x: predict(theta, x), samples(), rows, Passes(torch.float32, batch), rank)()[1]
        for rank in heard
    ]
    total = torch.stack([rank.sent[0] for rank in heard]).sum(0)
    expected = torch.cat([predict(theta, x) for x in torch.split(samples().x[rows], batch)]).double()
    assert total[: expected.numel()].equal(expected.flatten())
    assert not total[expected.numel() :].any(), "what says that a rank has failed"
    assert all(y.equal(samples().y[rows].double()) for y in targets)


def test_a_lanes_outputs_are_its_models_whatever_others_there_are() -> None:
    theta, parts = layers(3), [np.arange(4), np.zeros(0, np.int64), np.arange(100, 1100)]
    found = list(of_lanes(predict, theta, samples(), parts, torch.float32))
    for lane, part in enumerate(parts):
        outputs, y = found[lane]
        torch.testing.assert_close(outputs, predict(theta[lane], samples().x[part]).double(), rtol=1e-5, atol=1e-6)
        assert y.equal(samples().y[part].double())


def test_a_forward_pass_is_as_wide_in_any_company() -> None:
    """A product of matrices of other shapes may have other last bits."""

    def widths(sizes: tuple[int, ...]) -> set[int]:
        seen = set()

        def predicted(theta: Tensor, x: Tensor) -> Tensor:
            seen.add(len(x))
            return predict(theta, x)

        parts = [np.arange(size) for size in sizes]
        list(of_lanes(predicted, layers(3), samples(), parts, torch.float32))
        return seen

    assert widths((4, 0, 300)) == widths((4, 0, 1)) == {WIDTH}


def test_lanes_without_any_samples_give_no_model_an_empty_batch() -> None:
    """Which a model need not take: torch, for one, cannot infer a size of nothing."""

    def flat(theta: Tensor, x: Tensor) -> Tensor:
        return predict(theta, x.reshape(len(x), -1))

    nothing = [np.zeros(0, np.int64)] * 3
    assert [len(outputs) for outputs, _ in of_lanes(flat, layers(3), samples(), nothing, torch.float32)] == [0, 0, 0]
    labelled = samples()._replace(y=torch.zeros(SIZE, dtype=torch.int64))
    assert own_scores(flat, layers(3), labelled, nothing, torch.float32).accuracy.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("module", "x", "size"),
    [
        (nn.Linear(5, 2), torch.zeros(1, 5), BATCH),
        (nn.Sequential(nn.Conv1d(2, 2, 3), nn.Flatten()), torch.zeros(1, 2, 3), CONVOLVED),
    ],
)
def test_a_cpu_convolves_few_samples_at_a_time(module: nn.Module, x: Tensor, size: int) -> None:
    assert passes_of(FlatModel(module, 2, x)) == Passes(torch.float32, size)
