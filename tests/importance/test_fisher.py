"""Importance of parameters: what is summed, over which samples, in what order."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from given import round_of_one_task
from importance_bench import PLAN, Bench, bench, check_close, gradients
from torch import Tensor, nn
from torch._dynamo.utils import counters

from fl_ddp.engine.choices import Convolution
from fl_ddp.engine.group import Group
from fl_ddp.engine.samples import scaled
from fl_ddp.importance import fisher as importance_pass
from fl_ddp.importance.coverage import coverage
from fl_ddp.importance.fisher import fisher, importance_sum, mean_gradient_norm
from fl_ddp.importance.sensitivity import Label, Sensitivity
from fl_ddp.ranks.threads import workers_on

SHAPE = (1, 6, 6)
SIZES = (60, 1, 50, 7)
"""More samples than a chunk, one, as many, fewer."""
LANES = 5


def cnn(classes: int = 3) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 2, 3, stride=2),
        nn.GroupNorm(1, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.5),
        nn.Linear(8, classes),
    )


def partly_covered() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 3))


MODELS = pytest.mark.parametrize("make", [cnn, partly_covered])


BOTH_WAYS = pytest.mark.usefixtures("alone")


@pytest.fixture(params=[importance_pass._ALONE, 0], ids=["side by side", "one by one"])
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are too small to go on alone, unless they are told to."""
    monkeypatch.setattr(importance_pass, "_ALONE", request.param)


@pytest.fixture(scope="module")
def ragged() -> Bench:
    return bench(cnn, SHAPE, SIZES)


@pytest.mark.parametrize(
    ("device", "convolution", "products"),
    [("cpu", "auto", None), ("cpu", "cudnn", None), ("meta", "auto", True), ("meta", "cudnn", False)],
)
def test_a_gpu_convolves_as_in_local_steps_and_a_cpu_as_torch_does(
    ragged: Bench, device: str, convolution: Convolution, products: bool | None
) -> None:
    samples, group = ragged.work.samples, ragged.group([0])
    there = samples._replace(x=samples.x.to(device))
    group.workplace = replace(ragged.work, samples=there, convolution=convolution)
    assert importance_pass._products(group) is products


@BOTH_WAYS
@MODELS
@pytest.mark.parametrize("kind", ["empirical", "exact"])
def test_fisher_of_ragged_clients_is_the_mean_of_squares(make: Callable[[], nn.Module], kind: Label) -> None:
    b = bench(make, SHAPE, SIZES)
    theta = b.theta(LANES)
    found = fisher(b.group(range(4), LANES), theta, b.model, kind=kind)
    for client in range(4):
        (x, y), rows = b.inputs(client), torch.arange(SIZES[client])
        g, p = gradients(b.model, theta[client], x)
        expected = g[rows, y].square() if kind == "empirical" else (p[..., None] * g.square()).sum(1)
        check_close(found[client], expected.mean(0))
    assert found.shape == (LANES, b.model.num_params) and not found[-1].any() and found.min() >= 0


@MODELS
@pytest.mark.parametrize("kind", ["empirical", "exact"])
def test_absolute_gradients_are_summed(make: Callable[[], nn.Module], kind: Label) -> None:
    b = bench(make, SHAPE, (53, 4))
    theta = b.theta(3)
    found, count = importance_sum(b.group([0, 1], 3), theta, b.model, Sensitivity(kind, power="absolute"))
    assert count.tolist() == [53, 4, 0] and not found[2].any()
    for client in range(2):
        (x, y), rows = b.inputs(client), torch.arange(len(b.clients[client]))
        g, p = gradients(b.model, theta[client], x)
        check_close(
            found[client], (g[rows, y].abs() if kind == "empirical" else (p[..., None] * g.abs()).sum(1)).sum(0)
        )


@pytest.mark.parametrize("classes", [2, 10, 11, 13])
def test_exact_fisher_takes_any_number_of_classes_in_blocks(classes: int) -> None:
    b = bench(lambda: cnn(classes), SHAPE, (4,), classes=classes)
    theta, (x, _) = b.model.init(), b.inputs(0)
    g, p = gradients(b.model, theta, x)
    check_close(fisher(b.group([0]), theta, b.model, kind="exact")[0], (p[..., None] * g.square()).sum(1).mean(0))


@MODELS
def test_monte_carlo_draws_alike_whatever_covers_a_parameter(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(make, SHAPE, (20,))
    found = fisher(b.group([0]), b.model.init(), b.model, kind="mc")
    nothing = coverage(b.model, SHAPE)._replace(calls=(), others=tuple(range(len(b.model.names))))
    monkeypatch.setattr(importance_pass, "coverage", lambda *_: nothing)
    check_close(found, fisher(b.group([0]), b.model.init(), b.model, kind="mc"))


def told_by(b: Bench, x: Tensor) -> list[float]:
    """The sum of each sample's pixels, as batches() has it."""
    return scaled(x, b.work.dtype).flatten(1).sum(1, dtype=torch.float64).tolist()


def batches(group: Group, size: int, lane: int, max_samples: int = 0) -> list[list[float]]:
    """What the samples of a lane's batches can be told by: the sums of their pixels."""
    drawn = group.once(size, max_samples)
    rows = [(d.x[lane].flatten(1).sum(1, dtype=torch.float64), d.mask[lane] > 0) for d in drawn]
    return [total[real].tolist() for total, real in rows if real.any()]


@BOTH_WAYS
@MODELS
@pytest.mark.parametrize("kind", ["empirical", "mc"])
@pytest.mark.parametrize("power", ["square", "absolute"])
def test_batch_means_are_of_the_drawn_batches(make: Callable[[], nn.Module], kind: Label, power: str) -> None:
    b = bench(make, SHAPE, (13, 3))
    theta, size = b.theta(3), 5
    measure = Sensitivity(kind, power="absolute" if power == "absolute" else "square", batch_mean=True)
    group = b.group([0, 1], 3)
    found, count = importance_sum(group, theta, b.model, measure, batch_size=size)
    assert count.tolist() == [3, 1, 0] and not found[2].any()
    if kind == "mc":
        return
    for client in range(2):
        x, y = b.inputs(client)
        g, _ = gradients(b.model, theta[client], x)
        g = g[torch.arange(len(y)), y]
        stored = told_by(b, b.work.samples.x[torch.from_numpy(b.clients[client])])
        means = [g[[stored.index(s) for s in batch]].mean(0) for batch in batches(group, size, client)]
        expected = torch.stack([m.square() if power == "square" else m.abs() for m in means])
        check_close(found[client], expected.sum(0))
        if power == "square":
            mean = fisher(group, theta, b.model, reduction="batch_mean_sq", batch_size=size)
            check_close(mean[client], expected.mean(0))


def test_batches_may_be_larger_than_what_is_summed_at_once() -> None:
    """Of 120 samples the mean gradients of 100 and of 20."""
    b = bench(lambda: nn.Sequential(nn.Flatten(), nn.Linear(36, 3)), SHAPE, (120,))
    theta, group, means = b.model.init(), b.group([0]), list[Tensor]()
    for drawn in group.once(100):
        real = drawn.mask[0] > 0
        g, _ = gradients(b.model, theta, b.work.samples.inputs(drawn.x[0][real], b.work.dtype))
        means.append(g[torch.arange(len(g)), drawn.y[0][real]].mean(0))
    found = fisher(group, theta, b.model, reduction="batch_mean_sq", batch_size=100)
    check_close(found[0], (means[0].square() + means[1].square()) / 2)


@pytest.mark.parametrize("kind", ["empirical", "exact"])
def test_batches_of_one_are_samples(ragged: Bench, kind: Label) -> None:
    theta, group = ragged.theta(LANES), ragged.group(range(4), LANES)
    ones = fisher(group, theta, ragged.model, kind=kind, reduction="batch_mean_sq", batch_size=1)
    check_close(ones, fisher(group, theta, ragged.model, kind=kind))


def test_exact_batch_means_are_the_expectation_over_all_labels() -> None:
    b = bench(cnn, SHAPE, (5,))
    theta, (x, _) = b.model.init(), b.inputs(0)
    g, p = gradients(b.model, theta, x)
    group = b.group([0])
    stored = told_by(b, b.work.samples.x)
    expected = torch.zeros(b.model.num_params, dtype=torch.float64)
    for batch in batches(group, 3, 0):
        rows = [stored.index(s) for s in batch]
        for labels in itertools.product(range(3), repeat=len(rows)):
            probability = torch.stack([p[i, c] for i, c in zip(rows, labels, strict=True)]).prod()
            mean = torch.stack([g[i, c] for i, c in zip(rows, labels, strict=True)]).mean(0)
            expected += probability * mean.square() / 2
    found = fisher(group, theta, b.model, kind="exact", reduction="batch_mean_sq", batch_size=3)
    check_close(found[0], expected)


def test_exact_absolute_batch_means_are_refused() -> None:
    with pytest.raises(ValueError, match="no exact expectation"):
        Sensitivity("exact", power="absolute", batch_mean=True)


def test_a_pass_draws_every_sample_once_in_an_order_of_its_own(ragged: Bench) -> None:
    group = ragged.group(range(4), LANES)
    for lane in range(4):
        index = torch.from_numpy(ragged.clients[lane])
        stored = told_by(ragged, ragged.work.samples.x[index])
        drawn = [s for batch in batches(group, 20, lane) for s in batch]
        assert sorted(drawn) == sorted(stored)
        assert len(drawn) < 7 or drawn != stored
        # neither the other clients nor the batch size nor the limit changes the order
        assert drawn == [s for batch in batches(ragged.group([lane]), 3, 0) for s in batch]
        assert drawn[:6] == [s for batch in batches(group, 4, lane, 6) for s in batch]
        other = [s for batch in batches(ragged.group(range(4), LANES, round_index=1), 20, lane) for s in batch]
        assert len(drawn) < 7 or drawn != other


@BOTH_WAYS
def test_as_many_samples_as_asked_for_are_counted(ragged: Bench) -> None:
    theta, group = ragged.theta(LANES), ragged.group(range(4), LANES)
    few, count = importance_sum(group, theta, ragged.model, Sensitivity(), max_samples=9)
    assert count.tolist() == [9, 1, 9, 7, 0]
    _, count = importance_sum(group, theta, ragged.model, Sensitivity(batch_mean=True), batch_size=4, max_samples=9)
    assert count.tolist() == [3, 1, 3, 2, 0]
    every = importance_sum(group, theta, ragged.model, Sensitivity())[0]
    check_close(few[[1, 3]], every[[1, 3]])
    assert (few[[0, 2]].sum(1) < 0.9 * every[[0, 2]].sum(1)).all()


@pytest.mark.parametrize("kind", ["empirical", "exact", "mc"])
def test_a_sum_is_the_mean_of_as_many_samples_as_there_are(ragged: Bench, kind: Label) -> None:
    theta, group = ragged.theta(LANES), ragged.group(range(4), LANES)
    for most in (0, 20):
        mean = fisher(group, theta, ragged.model, kind=kind, max_samples=most)
        found = fisher(group, theta, ragged.model, kind=kind, max_samples=most, reduction="sum")
        counted = torch.tensor([min(n, most or n) for n in SIZES])
        check_close(found[:4], mean[:4] * counted[:, None])
        assert not found[4].any()


@BOTH_WAYS
@MODELS
def test_mas_and_gradient_norms_equal_a_loop(make: Callable[[], nn.Module]) -> None:
    b = bench(make, SHAPE, (52, 3))
    theta = b.theta(3)
    group = b.group([0, 1], 3)
    found, _ = importance_sum(group, theta, b.model, Sensitivity(of="norm", power="absolute"))
    norms = mean_gradient_norm(group, theta, b.model)
    assert norms[2] == 0 and not found[2].any()
    for client in range(2):
        x, y = b.inputs(client)
        expected = torch.zeros_like(found[client])
        for sample in x:
            leaf = theta[client].clone().requires_grad_()
            expected += torch.autograd.grad(b.model.logits(leaf, sample[None]).square().sum(), leaf)[0].abs()
        check_close(found[client], expected)
        g, _ = gradients(b.model, theta[client], x)
        check_close(norms[client], g[torch.arange(len(y)), y].norm(dim=1).mean())


def test_copies_of_the_data_change_nothing(ragged: Bench) -> None:
    theta, index = ragged.model.init(), ragged.clients[3]
    group = Group(ragged.work, PLAN, np.array([3]), [np.tile(index, 9)], 1, 7, round_of_one_task(0))
    for kind in ("empirical", "exact"):
        label: Label = "exact" if kind == "exact" else "empirical"
        once = fisher(ragged.group([3]), theta, ragged.model, kind=label)
        check_close(fisher(group, theta, ragged.model, kind=label), once)


@MODELS
def test_the_size_of_a_chunk_changes_rounding_alone(
    make: Callable[[], nn.Module], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench(make, SHAPE, (11, 3))
    whole = [fisher(b.group([0, 1]), b.theta(2), b.model, kind=kind) for kind in ("empirical", "exact")]
    monkeypatch.setattr(importance_pass, "_LARGEST", 1)
    single = [fisher(b.group([0, 1]), b.theta(2), b.model, kind=kind) for kind in ("empirical", "exact")]
    check_close(torch.stack(single), torch.stack(whole))


def check_lanes_do_not_touch_each_other(b: Bench, kind: Label) -> None:
    """Bit for bit: company and place of a lane do not matter at a fixed number of lanes."""
    rows = dict(zip((0, 2, 3), b.theta(3), strict=True))

    def of(*ids: int) -> Tensor:
        theta = torch.stack([*(rows[i] for i in ids), *[rows[0]] * (4 - len(ids))])
        return fisher(b.group(ids, 4), theta, b.model, kind=kind)

    together = dict(zip((0, 2, 3), of(0, 2, 3), strict=False))
    for ids in ((3,), (2, 0), (3, 2, 0)):
        found = of(*ids)
        for lane, client in enumerate(ids):
            assert torch.equal(found[lane], together[client])
        assert not found[len(ids) :].any()


@MODELS
@pytest.mark.parametrize("kind", ["empirical", "exact", "mc"])
def test_lanes_do_not_touch_each_other(make: Callable[[], nn.Module], kind: Label) -> None:
    check_lanes_do_not_touch_each_other(bench(make, SHAPE, SIZES, dtype=torch.float32), kind)


@MODELS
@pytest.mark.parametrize("kind", ["empirical", "exact", "mc"])
def test_the_number_of_lanes_changes_rounding_alone(make: Callable[[], nn.Module], kind: Label) -> None:
    b = bench(make, SHAPE, SIZES)
    theta = b.theta(4)
    for reduction in ("per_sample_mean", "batch_mean_sq"):
        both = [
            fisher(group, t, b.model, kind=kind, reduction=reduction, batch_size=8)
            for group, t in ((b.group(range(4)), theta), (b.group([2]), theta[2]))
        ]
        check_close(both[1][0], both[0][2])


def test_a_pass_leaves_theta_alone_and_works_in_the_models_type() -> None:
    plain, half = (bench(cnn, SHAPE, SIZES, dtype=torch.float32, bfloat16=b) for b in (False, True))
    theta = plain.theta(4)
    before = theta.clone()
    found = fisher(plain.group(range(4)), theta, plain.model)
    assert torch.equal(theta, before) and found.dtype == torch.float32
    assert torch.equal(found, fisher(half.group(range(4)), theta, half.model))


def test_every_chunk_is_preceded_by_a_check() -> None:
    calls: list[None] = []
    b = bench(cnn, SHAPE, (120,), check=lambda: calls.append(None))
    fisher(b.group([0]), b.model.init(), b.model)
    assert len(calls) == 3
    mean_gradient_norm(b.group([0]), b.model.init(), b.model)
    assert len(calls) == 6


def test_threads_get_the_same_bits() -> None:
    b = bench(cnn, SHAPE, SIZES, dtype=torch.float32)
    theta = b.theta(4)
    groups = [b.group([i % 4, 3], 2) for i in range(8)]
    alone = [fisher(group, theta[:2], b.model) for group in groups]
    found = workers_on("cpu").map(lambda group: fisher(group, theta[:2], b.model), groups)
    assert all(torch.equal(a, f) for a, f in zip(alone, found, strict=True))


@pytest.mark.parametrize(
    ("make", "kind"),
    [pytest.param(cnn, "exact", marks=pytest.mark.slow), pytest.param(partly_covered, "mc", marks=pytest.mark.slow)],
)
def test_a_compiled_pass_is_one_graph_and_equals_the_eager_one(make: Callable[[], nn.Module], kind: Label) -> None:
    fast, eager = (bench(make, SHAPE, SIZES, dtype=torch.float32, compile=c) for c in (True, False))
    theta = fast.theta(4)
    counters.clear()
    with torch._dynamo.config.patch(recompile_limit=1):
        for ids, index in (((0, 2, 3), 0), ((1, 2), 1), ((3,), 2)):
            found, expected = (fisher(b.group(ids, 4, index), theta, b.model, kind=kind) for b in (fast, eager))
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6 * float(expected.max()))
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]
    check_lanes_do_not_touch_each_other(fast, kind)


@pytest.mark.slow
def test_compiled_batch_means_and_norms_equal_the_eager_ones() -> None:
    fast, eager = (bench(cnn, SHAPE, SIZES, dtype=torch.float32, compile=c) for c in (True, False))
    theta = fast.theta(4)

    def passes(b: Bench) -> tuple[Tensor, Tensor]:
        group = b.group([0, 3], 4)
        mean = fisher(group, theta, b.model, reduction="batch_mean_sq", batch_size=8)
        return mean, mean_gradient_norm(group, theta, b.model)

    for found, expected in zip(passes(fast), passes(eager), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
