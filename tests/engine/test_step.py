from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import chain, pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from step_bench import PLANS, ROUND, SEED, SIZES, Bench, Penalised, bench, cnn, mlp
from torch import Tensor, nn
from torch._dynamo.utils import counters
from torch.nn import functional as F

from fl_ddp.engine.augmentation import augmented
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import Purpose, keys, noise_key
from fl_ddp.errors import InterruptedRunError
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Batch, Leaves, Tensors, Trained


def torchs_own(plan: Plan, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    """The optimizer of torch.optim that has the name and the options of a plan's."""
    options = {each.name: getattr(plan.optimizer, each.name) for each in fields(plan.optimizer) if each.name != "keep"}
    options |= {"momentum": plan.momentum} if plan.optimizer.takes_momentum else {}
    options |= {"weight_decay": plan.weight_decay} if plan.optimizer.takes_weight_decay else {}
    made: torch.optim.Optimizer = getattr(torch.optim, type(plan.optimizer).__name__)(parameters, plan.lr, **options)
    return made


def by_hand(b: Bench, plan: Plan, client: int) -> tuple[Tensor, Tensor, int]:
    """One client's parameters, mean loss and number of steps by autograd and torch.optim."""
    module, samples = copy.deepcopy(b.module), b.work.samples
    parameters = list(module.parameters())
    start = [p.detach().clone() for p in parameters]
    optimiser = torchs_own(plan, parameters)
    batches = plan.batches(keys(SEED, ROUND, Purpose.ORDER, client), [b.clients[client]])
    losses, steps = [], int((batches[:, 0] >= 0).any(1).sum())
    order = keys(SEED, ROUND, Purpose.ORDER, client)
    for number, index in enumerate(torch.from_numpy(i[i >= 0]) for i in batches[:, 0]):
        optimiser.zero_grad()
        x = samples.x[index]
        if plan.augment:
            x = augmented(x, noise_key(order, Purpose.NOISE, number)[0], plan.augment)
        loss = F.cross_entropy(module(samples.inputs(x, b.work.dtype)), samples.y[index])
        losses.append(loss.detach())
        if isinstance(b.method, Penalised):
            for p, s in zip(parameters, start, strict=True):
                loss = loss + b.method.mu / 2 * (p - s).square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        if isinstance(b.method, Penalised):
            model = b.method.model
            table, rows = b.server["table"], b.server["rows"]
            scale = (table * rows).sum() + (table - rows)[0, 1]
            correction = model.leaves(scale * (b.server["c"] - b.memory["c"][client]))
            for p, c in zip(parameters, correction, strict=True):
                assert p.grad is not None
                p.grad += c
        if plan.clip_norm is not None:
            nn.utils.clip_grad_norm_(parameters, plan.clip_norm)
        if plan.over_steps is not None:
            optimiser.param_groups[0]["lr"] = plan.lr * plan.over_steps.at(len(losses) - 1, steps)
        optimiser.step()
    theta = torch.cat([p.detach().flatten() for p in parameters])
    return theta, torch.stack(losses).mean() if losses else torch.zeros((), dtype=b.work.dtype), len(losses)


CASES = [
    *[
        pytest.param(plan, mlp, method, id=f"{name}-mlp-{method.__name__}")
        for name, plan in PLANS.items()
        for method in (FedAvg, Penalised)
    ],
    *[
        pytest.param(PLANS[name], cnn, Penalised, id=f"{name}-cnn")
        for name in ("momentum and weight decay", "epochs and a fraction")
    ],
]


@pytest.mark.parametrize(("plan", "make", "method"), CASES)
def test_lanes_train_like_single_clients_in_plain_torch(
    plan: Plan, make: Callable[[], nn.Module], method: Callable[[FlatModel], FedAvg]
) -> None:
    b = bench(make, method)
    ids = [*range(len(SIZES))]
    group, trained = b.group(plan, ids, 6), b.train(plan, ids, 6)
    for lane in ids:
        theta, loss, steps = by_hand(b, plan, lane)
        assert group.steps[lane] == steps and group.n[lane] == SIZES[lane]
        torch.testing.assert_close(trained.theta[lane], theta, atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(trained.loss[lane], loss, atol=1e-12, rtol=1e-12)
        assert steps == 0 or not torch.equal(theta, b.server["theta"])


@dataclass(frozen=True)
class Raised(FedAvg):
    """FedAvg with a loss that is above 0 where there are no samples, too."""

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """One more."""
        return super().loss(theta, batch, server, mine) + 1


def test_a_clients_loss_is_a_mean_over_its_own_steps() -> None:
    ids = [*range(len(SIZES))]
    plain, raised = (bench(method=method).train(PLANS["drop last"], ids, 6).loss for method in (FedAvg, Raised))
    steps = bench().group(PLANS["drop last"], ids, 6).steps
    assert 0 < (steps == 0).sum() < (steps < steps.max()).sum() < 6
    torch.testing.assert_close(raised - plain, (steps > 0).double(), atol=1e-12, rtol=0)


def test_each_lane_can_start_elsewhere() -> None:
    b, plan = bench(), PLANS["momentum"]
    starts = torch.stack([b.server["theta"], 2 * b.server["theta"]])
    before = starts.clone()
    both = b.group(plan, [3, 3]).train(starts, b.method, {}, {})
    assert torch.equal(starts, before)
    for lane in range(2):
        alone = b.group(plan, [3, 3]).train(starts[lane], b.method, {}, {})
        assert torch.equal(both.theta[lane], alone.theta[lane])


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["momentum and weight decay", "clipped Adam"])
def test_a_fixed_part_stays_and_counts_in_no_norm(name: str, compiled: bool) -> None:
    """As for a method that keeps it where it is, and whose gradient it has no share in."""
    b = bench(method=Penalised, compile=compiled)
    fixed = b.method.model.head
    free = 1 - b.method.model.mask(fixed)

    class Kept(Penalised):
        """Penalised, but for a part."""

        def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
            return super().correct(g, theta, server, mine) * server["free"]

        def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
            return self.mu / 2 * (server["free"] * (theta - server["theta"]).square()).sum()

        def project(self, new: Tensor, old: Tensor, server: Tensors, mine: Tensors) -> Tensor:
            return torch.where(server["free"] > 0, new, old)

    ids, memory = [*range(len(SIZES))], {"c": b.memory["c"]}
    group = b.group(PLANS[name], ids)
    found = group.train(b.server["theta"], b.method, b.server, memory, fixed=fixed)
    plain = bench(method=Kept)
    expected = plain.group(PLANS[name], ids).train(b.server["theta"], plain.method, b.server | {"free": free}, memory)
    torch.testing.assert_close(found.theta, expected.theta, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(found.loss, expected.loss, atol=1e-12, rtol=1e-12)
    moved = (found.theta != b.server["theta"]) & (group.n > 0)[:, None]
    assert torch.equal(moved.any(0), free > 0)


def test_what_is_fixed_are_some_of_the_leaves() -> None:
    b = bench()
    for fixed in (range(len(b.method.model.names)), [0, 77], [-1]):
        with pytest.raises(ValueError, match="accepted: some of the leaves 0 to"):
            b.group(PLANS["momentum"], [0]).train(b.server["theta"], b.method, b.server, {}, fixed=fixed)


def test_running_statistics_of_a_fixed_part_go_on() -> None:
    def normed() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(32, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    b = bench(normed)
    model, ids = b.method.model, [0, 3, 4]
    start = model.init()
    found = b.group(PLANS["momentum"], ids).train(start, b.method, {}, {}, fixed=model.body)
    moved = set(torch.nonzero((found.theta != start).all(0)).flatten().tolist())
    statistics = model.take(torch.arange(model.num_params), model.running).tolist()
    head = model.take(torch.arange(model.num_params), model.head).tolist()
    assert moved == {*statistics, *head}


def test_a_client_without_a_full_batch_stays_where_it_is_if_the_last_is_dropped() -> None:
    b = bench()
    trained = b.train(PLANS["drop last"], [0, 1, 2])
    assert torch.equal(trained.theta[1:], b.server["theta"].expand(2, -1))
    assert trained.loss[1:].tolist() == [0, 0]
    assert not torch.equal(trained.theta[0], b.server["theta"])


LANES = 4
COMPANY = Plan(6, 1.0, None, 0.1, momentum=0.5, weight_decay=0.1)


def check_lanes_do_not_touch_each_other(b: Bench) -> None:
    """Bit for bit: padding, company and place of a lane do not matter at a fixed number of lanes."""
    together = b.train(COMPANY, [0, 1, 3, 4], LANES)
    rows = {0: 0, 1: 1, 3: 2, 4: 3}
    for ids in ([4, 3, 1, 0], [0], [3, 1], [4, 2, 0], [2, 1, 4, 0]):
        trained = b.train(COMPANY, ids, LANES)
        assert trained.theta.isfinite().all() and trained.loss.isfinite().all()
        for lane, client in enumerate(ids):
            if client in rows:
                assert torch.equal(trained.theta[lane], together.theta[rows[client]]), (ids, client)
                assert torch.equal(trained.loss[lane], together.loss[rows[client]]), (ids, client)
        assert torch.equal(trained.theta[len(ids) :], b.server["theta"].expand(LANES - len(ids), -1))
        assert not trained.loss[len(ids) :].any()


def odd_widths() -> nn.Module:
    """Layers of which few lanes' begin where the first one's does, as products see memory."""
    layers = nn.Linear(32, 33), nn.Tanh(), nn.Linear(33, 10), nn.ReLU(), nn.Linear(10, 3)
    return nn.Sequential(nn.Flatten(), *layers)


@pytest.mark.parametrize("make", [lambda: mlp(0.4), odd_widths, cnn], ids=["mlp with dropout", "odd widths", "cnn"])
def test_lanes_do_not_touch_each_other(make: Callable[[], nn.Module]) -> None:
    check_lanes_do_not_touch_each_other(bench(make, Penalised, torch.float32))


@given(st.lists(st.integers(1, 70), min_size=1, max_size=3))
@settings(max_examples=25, deadline=None)
def test_lanes_of_any_widths_are_the_same_in_any_place(widths: list[int]) -> None:
    """How a library multiplies may depend on sizes, and on where in memory it finds a lane."""

    def layers() -> nn.Module:
        hidden = [(nn.Linear(before, width), nn.ReLU()) for before, width in pairwise([32, *widths])]
        return nn.Sequential(nn.Flatten(), *chain(*hidden), nn.Linear(widths[-1], 3))

    b = bench(layers, FedAvg, torch.float32)
    together, turned = (b.train(COMPANY, ids, LANES).theta for ids in ([0, 1, 3, 4], [4, 3, 1, 0]))
    assert torch.equal(together, turned.flip(0))


def test_orders_and_dropout_masks_are_new_in_every_round() -> None:
    b = bench(lambda: mlp(0.4))
    plan = PLANS["one epoch"]
    first, second = (b.train(plan, [0], round_index=i).theta for i in (0, 1))
    assert not torch.allclose(first, second)
    # one step on all samples: only the mask differs
    whole = PLANS["batch larger than all clients"]
    first, second = (b.train(replace(whole, epochs=1.0), [0], round_index=i).theta for i in (0, 1))
    assert not torch.allclose(first, second)
    assert torch.equal(first, b.train(replace(whole, epochs=1.0), [0], round_index=0).theta)


@pytest.fixture(scope="module")
def compiled() -> tuple[Bench, Bench, Trained]:
    """A compiled bench, the same eager, and the compiled one's first round."""
    make = lambda: mlp(0.4)  # noqa: E731
    fast, plain = (bench(make, Penalised, torch.float32, compile=c) for c in (True, False))
    counters.clear()
    first = fast.train(COMPANY, [0, 1, 3, 4], LANES)
    assert counters["stats"]["unique_graphs"] == 1 and not counters["graph_break"]
    return fast, plain, first


def test_a_compiled_step_equals_the_eager_one(compiled: tuple[Bench, Bench, Trained]) -> None:
    fast, plain, first = compiled
    expected = plain.train(COMPANY, [0, 1, 3, 4], LANES)
    torch.testing.assert_close(first.theta, expected.theta, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(first.loss, expected.loss, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(first.theta, fast.server["theta"], atol=1e-2)


def test_compiled_lanes_do_not_touch_each_other(compiled: tuple[Bench, Bench, Trained]) -> None:
    check_lanes_do_not_touch_each_other(compiled[0])


def test_later_rounds_do_not_compile_again(compiled: tuple[Bench, Bench, Trained]) -> None:
    fast, plain, _ = compiled
    plan = replace(COMPANY, lr=0.03, momentum=0.8, weight_decay=0.2, epochs=1.3)
    graphs = counters["stats"]["unique_graphs"]
    for ids, index in (([2, 4], 3), ([1], 4), ([0, 3, 2, 1], 5)):
        found, expected = (b.train(plan, ids, LANES, index) for b in (fast, plain))
        torch.testing.assert_close(found.theta, expected.theta, atol=1e-5, rtol=1e-5)
    assert counters["stats"]["unique_graphs"] == graphs > 0


def test_a_compiled_step_reads_other_tensors_right_in_later_rounds(compiled: tuple[Bench, Bench, Trained]) -> None:
    table = torch.arange(6.0).view(2, 3) / 40
    # before, both were one tensor; a transposed one has the same shape and other strides
    for change in ({"table": 2 * table}, {"rows": table.T.contiguous().T}, {"c": compiled[0].server["theta"]}):
        fast, plain = (b._replace(server=b.server | change) for b in compiled[:2])
        found, expected = (b.train(COMPANY, [0, 1, 3, 4], LANES) for b in (fast, plain))
        torch.testing.assert_close(found.theta, expected.theta, atol=1e-5, rtol=1e-5)
        assert not torch.allclose(found.theta, compiled[2].theta, atol=1e-4)


@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_bfloat16_changes_little_and_keeps_float32_parameters(compile: bool) -> None:
    # a process may run many models: none may count against another's limit
    with torch._dynamo.config.patch(recompile_limit=1):
        half = bench(mlp, dtype=torch.float32, bfloat16=True, compile=compile).train(COMPANY, [0, 1, 3, 4], LANES)
    b = bench(mlp, dtype=torch.float32)
    full = b.train(COMPANY, [0, 1, 3, 4], LANES)
    assert half.theta.dtype == half.loss.dtype == torch.float32
    assert not torch.equal(half.theta, full.theta)
    moved = (full.theta - b.server["theta"]).norm()
    # bfloat16 has 8 bits
    assert (half.theta - full.theta).norm() < 0.02 * moved
    torch.testing.assert_close(half.loss, full.loss, rtol=0.01, atol=0.0)


def test_a_stop_request_leaves_training_before_the_next_step() -> None:
    stop, calls = StopRequest(), 0

    def check() -> None:
        nonlocal calls
        stop.check()
        calls += 1
        stop.asked = calls == 3

    b = bench(check=check)
    start = b.server["theta"].clone()
    with pytest.raises(InterruptedRunError):
        b.train(PLANS["one epoch"], [0, 4])
    assert calls == 3 and torch.equal(b.server["theta"], start)


def test_every_step_is_preceded_by_a_check() -> None:
    calls: list[None] = []
    bench(check=lambda: calls.append(None)).train(PLANS["one epoch"], [0, 4])
    assert len(calls) == 5


def test_a_group_tells_clients_from_padding() -> None:
    group = bench().group(PLANS["fixed steps"], [4, 1], 4)
    assert group.client.tolist() == [4, 1, -1, -1] and group.lanes == 4
    assert group.real.tolist() == [1, 1, 0, 0]
    assert group.n.tolist() == [22, 1, 0, 0] and group.steps.tolist() == [6, 6, 0, 0]


def test_a_group_without_clients_takes_no_step() -> None:
    b = bench()
    trained = b.train(PLANS["one epoch"], [], 3)
    assert torch.equal(trained.theta, b.server["theta"].expand(3, -1)) and not trained.loss.any()


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_momentum_steps_sum_the_weights_of_the_gradients(rho: float) -> None:
    """With gradients of 1, SGD with momentum moves by lr times the sum of its weights."""
    plan = replace(PLANS["fixed steps"], momentum=rho, steps=6)
    velocity, moved = 0.0, 0.0
    for _ in range(6):
        velocity = rho * velocity + 1
        moved += velocity
    group = bench().group(plan, [0, 1], 3)
    torch.testing.assert_close(group.momentum_steps, torch.tensor([moved, moved, 0.0], dtype=torch.float64))
