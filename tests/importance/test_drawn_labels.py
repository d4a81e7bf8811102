"""Labels that Monte Carlo Fisher information draws of the model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from given import round_of_one_task
from importance_bench import PLAN, bench, check_close, gradients
from torch import Tensor, nn

from fl_ddp.engine.group import Group
from fl_ddp.importance.fisher import Reduction, fisher
from fl_ddp.importance.sensitivity import Label

SHAPE = (1, 6, 6)


def test_monte_carlo_draws_a_class_for_each_sample_by_its_probability_and_key() -> None:
    """Of n copies of one sample, F is the mean over classes of their g^2 by how often each was drawn."""
    n = 2000
    b = bench(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), SHAPE, (1,))
    theta = b.model.init()
    g, p = gradients(b.model, theta, b.inputs(0)[0])

    def counts(round_index: int) -> tuple[Tensor, Tensor]:
        own = [np.zeros(n, np.int64)]
        group = Group(b.work, PLAN, np.array([0]), own, 1, 7, round_of_one_task(round_index))
        found = fisher(group, theta, b.model, kind="mc")[0]
        share: Tensor = torch.linalg.lstsq(g[0].square().T, found).solution
        check_close(g[0].square().T @ share, found)
        torch.testing.assert_close((n * share).round(), n * share, rtol=0.0, atol=1e-6)
        return found, (n * share).round()

    found, drawn = counts(0)
    assert torch.equal(found, counts(0)[0]) and not torch.equal(drawn, counts(1)[1])
    first = drawn / n
    # four standard deviations of n independent draws
    assert ((first - p[0]).abs() < 4 * (p[0] * (1 - p[0]) / n).sqrt()).all() and first.min() > 0


@pytest.mark.parametrize("reduction", ["per_sample_mean", "sum", "batch_mean_sq"])
def test_several_draws_are_the_mean_of_each_and_come_near_the_expectation(reduction: Reduction) -> None:
    b = bench(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), SHAPE, (12, 5))
    theta, draws = b.theta(2), 400

    def of(kind: Label, draws: int = 1) -> Tensor:
        own = b.group([0, 1], 2)
        return fisher(own, theta, b.model, kind=kind, reduction=reduction, batch_size=4, draws=draws)

    two, three = of("mc", 2), of("mc", 3)
    third = 3 * three - 2 * two
    second = 2 * two - of("mc")
    assert not torch.allclose(second, of("mc")) and not torch.allclose(third, second)
    exact, many = of("exact"), of("mc", draws)
    off = (many - exact).norm() / exact.norm()
    assert off < 0.1 < (of("mc") - exact).norm() / exact.norm()
    assert torch.equal(of("exact", draws), exact) and torch.equal(of("empirical", draws), of("empirical"))
