from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from fl_ddp.engine.samples import Samples
from fl_ddp.evaluation.scores import Scores, evaluate, pooled
from fl_ddp.ranks.collectives import Ranks, Result
from fl_ddp.ranks.outputs import BATCH, Passes

CPU = torch.device("cpu")


@dataclass(frozen=True)
class _Heard(Ranks):
    """One of several ranks in one process: hands on its buffer, or receives the sum of all."""

    sent: list[Tensor] = field(default_factory=list)
    received: Tensor | None = None

    def add(self, buffer: Tensor) -> Tensor:
        self.sent.append(buffer.clone())
        return buffer if self.received is None else self.received.clone()

    def together(self, work: Callable[[], Result]) -> Result:
        return work()


def linear(num_classes: int = 4) -> torch.nn.Linear:
    layer = torch.nn.Linear(6, num_classes)
    generator = torch.Generator().manual_seed(1)
    # losses from 1e-9 to 100, whose plain float64 sum depends on its order
    for parameter in layer.parameters():
        parameter.data.normal_(0, 6, generator=generator)
    return layer


def test_set(size: int, num_classes: int = 4) -> Samples:
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(size, 6, generator=generator), torch.randint(num_classes, (size,), generator=generator)
    return Samples(x, y)


test_set.__test__ = False  # type: ignore[attr-defined]


def scores(samples: Samples, num_ranks: int = 1, num_classes: int = 4) -> list[Scores]:
    """The scores that each of some ranks finds."""
    layer = linear(num_classes)

    def on(rank: Ranks) -> Scores:
        return evaluate(layer, samples, num_classes, Passes(torch.float32, BATCH), rank)()

    if num_ranks == 1:
        return [on(Ranks(0, 1, CPU))]
    heard = [_Heard(i, num_ranks, CPU) for i in range(num_ranks)]
    for rank in heard:
        on(rank)
    total = torch.stack([rank.sent[0] for rank in heard]).sum(0)
    return [on(_Heard(i, num_ranks, CPU, received=total)) for i in range(num_ranks)]


@pytest.mark.parametrize("size", [1, BATCH, BATCH + 1, 3 * BATCH + 123])
def test_scores_are_those_of_a_plain_computation(size: int) -> None:
    samples = test_set(size)
    with torch.no_grad():
        logits = linear()(samples.x)
    guess, found = logits.argmax(1), scores(samples)[0]
    assert found.accuracy == (guess == samples.y).double().mean().item()
    assert found.loss == pytest.approx(cross_entropy(logits.double(), samples.y).item(), rel=1e-6)
    for label in range(4):
        mine = samples.y == label
        row = tuple(int((guess[mine] == other).sum()) for other in range(4))
        assert found.confusion[label] == row
        if mine.any():
            assert found.class_accuracy[label] == (guess[mine] == label).double().mean().item()


def test_a_class_without_samples_has_no_accuracy() -> None:
    samples = test_set(50)
    found = scores(samples._replace(y=samples.y.clamp_max(2)))[0]
    assert [math.isnan(a) for a in found.class_accuracy] == [False, False, False, True]
    assert found.confusion[3] == (0, 0, 0, 0)
    assert math.isfinite(found.loss)


@pytest.mark.parametrize("size", [10, 2 * BATCH, 7 * BATCH + 1])
@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_scores_are_the_same_bits_on_any_number_of_ranks(size: int, num_ranks: int) -> None:
    samples = test_set(size)
    alone = scores(samples)[0]
    assert scores(samples, num_ranks) == [alone] * num_ranks


def test_evaluation_builds_no_graph() -> None:
    layer = linear()
    seen: list[Tensor] = []

    def predict(x: Tensor) -> Tensor:
        seen.append(layer(x))
        return seen[-1]

    evaluate(predict, test_set(5), 4, Passes(torch.float32, BATCH), Ranks(0, 1, CPU))
    assert not seen[0].requires_grad


def test_a_loss_that_is_not_finite_is_reported_as_such() -> None:
    samples = test_set(20)
    samples.x[3] = math.nan
    assert math.isnan(scores(samples)[0].loss)


def test_scores_on_several_test_sets_are_those_on_all_their_samples() -> None:
    few = Scores(0.5, 1.0, (1.0, 0.0), ((1, 0), (1, 0)))
    many = Scores(4 / 6, 4.0, (1.0, 0.5), ((2, 0), (2, 2)))
    both = pooled([few, many])
    assert (both.accuracy, both.loss) == pytest.approx((5 / 8, (2 * 1.0 + 6 * 4.0) / 8))
    assert both.confusion == ((3, 0), (3, 2)) and both.class_accuracy == pytest.approx((1.0, 2 / 5))
