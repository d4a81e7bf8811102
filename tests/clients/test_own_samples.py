"""Functions of a client's samples one by one, against a loop over them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from given import round_of_one_task
from torch import Tensor

from fl_ddp.clients import own_samples
from fl_ddp.clients.own_samples import best_of_class, class_counts, inputs_at, labels, of_each, shared_inputs, sum_over
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples
from fl_ddp.engine.workplace import Workplace
from fl_ddp.protocol import Batch, Tensors

SIZES, CLASSES, LANES = (5, 0, 17, 9), 4, 5
RNG = np.random.default_rng(5)
X, Y = RNG.integers(0, 256, (40, 3)).astype(np.uint8), RNG.integers(0, CLASSES, 40)
PARTS = np.split(RNG.permutation(40)[: sum(SIZES)], np.cumsum(SIZES)[:-1])
ALL_PARTS = [*PARTS, np.zeros(0, np.int64)]
"""And that of a padded lane."""
NORMALISER = Normaliser(torch.tensor(0.4, dtype=torch.float64), torch.tensor(0.6, dtype=torch.float64))
INPUTS = (torch.from_numpy(X).double() / 255 - 0.4) / 0.6


@pytest.fixture
def group() -> Group:
    samples = Samples(torch.from_numpy(X), torch.from_numpy(Y), NORMALISER)
    work = Workplace(samples, torch.float64, False, False, lambda: None, 20, torch.tensor([3, 1, 4, 1]))
    return Group(work, Plan(4, 1.0, None, 0.1), np.arange(4), list(PARTS), LANES, 0, round_of_one_task(2))


def lengths(theta: Tensor, batch: Batch) -> Tensors:
    """A number and a vector of each sample."""
    return {"label": batch.y.double() + 1, "scaled": batch.x * theta}


def weighed(theta: Tensor, batch: Batch) -> Tensors:
    """Their sums."""
    return {name: torch.tensordot(batch.mask, t, 1) for name, t in lengths(theta, batch).items()}


def test_labels_and_counts(group: Group) -> None:
    found = labels(group)
    assert found.shape == (LANES, 20)
    for lane, part in enumerate(ALL_PARTS):
        assert found[lane].tolist() == [*Y[part].tolist(), *[-1] * (20 - len(part))]
        assert class_counts(group, CLASSES)[lane].tolist() == [(Y[part] == c).sum() for c in range(CLASSES)]


def test_the_best_of_a_class_is_the_client_s_own(group: Group) -> None:
    score = torch.rand(LANES, 20, generator=torch.Generator().manual_seed(1))
    places = best_of_class(group, score, CLASSES)
    for lane, part in enumerate(PARTS):
        for label in {*Y[part].tolist()}:
            own = [i for i, sample in enumerate(part) if Y[sample] == label]
            assert int(places[lane, label]) == max(own, key=lambda i: float(score[lane, i]))
    inputs = inputs_at(group, torch.tensor([[0, 3]] * LANES))
    torch.testing.assert_close(inputs[2], INPUTS[PARTS[2][[0, 3]]])
    torch.testing.assert_close(shared_inputs(group), INPUTS[[3, 1, 4, 1]])


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("at_once", [100, 4])
def test_functions_of_each_sample(group: Group, monkeypatch: pytest.MonkeyPatch, at_once: int, own: bool) -> None:
    monkeypatch.setattr(own_samples, "AT_ONCE", at_once)
    theta = torch.randn(LANES, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    theta = theta if own else theta[0]
    each, sums = of_each(group, lengths, theta), sum_over(group, weighed, theta)
    assert each["label"].shape == (LANES, 20)
    assert each["scaled"].shape == (LANES, 20, 3)
    for lane, part in enumerate(ALL_PARTS):
        scaled = INPUTS[part] * (theta[lane] if own else theta)
        torch.testing.assert_close(each["scaled"][lane, : len(part)], scaled)
        assert each["label"][lane].tolist() == [*(Y[part] + 1).tolist(), *[0] * (20 - len(part))]
        torch.testing.assert_close(sums["scaled"][lane], scaled.sum(0))
        assert sums["label"][lane] == (Y[part] + 1).sum()


@pytest.mark.parametrize("at_once", [2, 3, 100])
def test_a_small_client_s_sums_have_the_same_bits_beside_a_large_one(
    group: Group, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Alone it fills fewer batches; a sum of -0 must not tell."""
    monkeypatch.setattr(own_samples, "AT_ONCE", at_once)
    alone = Group(group.workplace, group.plan, np.array([0]), [PARTS[0]], LANES, 0, round_of_one_task(2))
    for theta in (torch.tensor(2.0, dtype=torch.float64), torch.tensor(-0.3, dtype=torch.float64)):
        for own, beside in zip(
            sum_over(alone, weighed, theta).values(), sum_over(group, weighed, theta).values(), strict=True
        ):
            assert torch.equal(own[0].view(torch.int64), beside[0].view(torch.int64))
        for own, beside in zip(
            of_each(alone, lengths, theta).values(), of_each(group, lengths, theta).values(), strict=True
        ):
            assert torch.equal(own[0], beside[0]) and own.shape == beside.shape

    def signed(theta: Tensor, batch: Batch) -> Tensors:
        return {"zero": torch.where(batch.mask.any(), -theta, theta)}

    zero = torch.tensor(0.0, dtype=torch.float64)
    one, two = (sum_over(each, signed, zero)["zero"][0] for each in (alone, group))
    assert torch.equal(one.view(torch.int64), two.view(torch.int64))
    calls: list[int] = []

    def counted(theta: Tensor, batch: Batch) -> Tensors:
        calls.append(1)
        return weighed(theta, batch)

    sum_over(alone, counted, torch.tensor(2.0, dtype=torch.float64))
    assert len(calls) == -(-SIZES[0] // at_once), "batches that none of the group's clients fills are not walked"


def test_sums_do_not_depend_on_the_company(group: Group) -> None:
    theta = torch.randn(3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    together = sum_over(group, weighed, theta)
    alone = Group(group.workplace, group.plan, np.array([2]), [PARTS[2]], LANES, 0, round_of_one_task(2))
    for name, t in sum_over(alone, weighed, theta).items():
        assert torch.equal(t[0], together[name][2])


def test_what_is_kept_has_no_padding(group: Group) -> None:
    """Of thousands of clients that are as long as the largest there would be no room."""
    theta = torch.ones(3, dtype=torch.float64)
    first, again = (of_each(group, lengths, theta, keep="lengths") for _ in range(2))
    plain = of_each(group, lengths, theta)
    assert all(first[name].equal(plain[name]) and again[name].equal(plain[name]) for name in plain)
    assert {key[1]: len(of["label"]) for key, of in group.workplace.kept.items() if key[1] >= 0} == dict(
        enumerate(SIZES)
    )


def test_ids_are_of_the_clients_and_may_index_where_a_lane_is_padded(group: Group) -> None:
    assert group.ids.tolist() == [0, 1, 2, 3, 0] and group.client.tolist() == [0, 1, 2, 3, -1]
    assert group.ids.dtype == torch.int64 and group.largest == 20
