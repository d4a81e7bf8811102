"""Steps that are recorded once and replayed: a stand-in for CUDA's graph runs the recorded function again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from weakref import WeakValueDictionary

import numpy as np
import pytest
import torch
from recordings import Graphs, Recorded, Refused, Stop, recording
from step_bench import PLANS, ROUND, SIZES, Bench, Penalised, bench, mlp
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from fl_ddp.engine import graphed
from fl_ddp.engine.graphed import MOST, recordings_on
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.step import STEPS
from fl_ddp.errors import InterruptedRunError
from fl_ddp.guards.coefficients import coefficients_of
from fl_ddp.losses.mse import MSE
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.optimizers.adam import Adam
from fl_ddp.optimizers.schedule import Schedule
from fl_ddp.protocol import Tensors, Trained

LANES = 4
GROUPS: tuple[list[int], ...] = ([0, 1, 3], [2, 1], [], [4, 0])
"""Of clients with few samples after some with many, and the other way round."""
PLAN = PLANS["momentum"]


def replayed(b: Bench, record: Callable[[Callable[[], None]], Callable[[], object]] | None = None) -> Bench:
    """The same bench, whose steps are recorded."""
    return b._replace(work=recording(b.work, record or Recorded()))


def on_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let longer trainings than of three steps fill them again."""
    monkeypatch.setattr(graphed, "ROWS", 3)


def trainings(b: Bench, plan: Plan) -> list[Trained]:
    """Of groups in rounds, with other rates, states and memory in each, and coefficients, where the method has such."""
    found = []
    for number, ids in enumerate(GROUPS):
        factor = None if plan.lr_factor is None else plan.lr_factor * (1 + number)
        later = replace(plan, lr=plan.lr / (1 + number), weight_decay=plan.weight_decay * 2**number, lr_factor=factor)
        server, memory = ({name: t * (1 + number / 8) for name, t in of.items()} for of in (b.server, b.memory))
        others = {name: value / (1 + number) for name, value in coefficients_of(b.method).items()}
        now = b._replace(server=server, memory=memory, method=replace(b.method, **others))  # type: ignore[arg-type]
        found.append(now.train(later, ids, LANES, ROUND + number))
    return found


def check_same_bits(found: list[Trained], expected: list[Trained]) -> None:
    assert all(torch.equal(one.theta, other.theta) for one, other in zip(found, expected, strict=True))
    assert all(torch.equal(one.loss, other.loss) for one, other in zip(found, expected, strict=True))


FACTORS = np.linspace(0.5, 2, LANES)
LR_OF_LANES = {
    "lr of lanes": replace(PLAN, lr_factor=FACTORS),
    "lr of lanes over steps": replace(PLAN, lr_factor=FACTORS, over_steps=Schedule("cosine", 1.0, least=0.1)),
}


OFTEN = ("clipped Adam", "momentum and weight decay", "augmented", "lr of lanes", "lr of lanes over steps")
SELDOM = (pytest.param(name, marks=pytest.mark.slow) for name in PLANS | LR_OF_LANES if name not in OFTEN)


@pytest.mark.parametrize("name", [*OFTEN, *SELDOM])
def test_replayed_steps_have_the_bits_of_single_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_few_rows(monkeypatch)
    plain, record, plan = bench(lambda: mlp(0.4), Penalised, torch.float32), Recorded(), (PLANS | LR_OF_LANES)[name]
    check_same_bits(trainings(replayed(plain, record), plan), trainings(plain, plan))
    assert record.made == 1
    assert record.steps == sum(int(plain.group(plan, ids, LANES).steps.max()) for ids in GROUPS) > 0


def test_a_training_may_be_longer_than_the_rows_that_lie_ready() -> None:
    plain, plan = bench(method=Penalised), replace(PLANS["batch of one"], epochs=None, steps=70)
    assert graphed.ROWS < plain.group(plan, [4]).steps.max() < 2 * graphed.ROWS
    check_same_bits([replayed(plain).train(plan, [4])], [plain.train(plan, [4])])


@pytest.mark.slow
def test_compiled_steps_have_the_same_bits_replayed() -> None:
    """Without dropout, for whose hash torch's compiler takes minutes on a CPU; cuda_code looks at a GPU's."""
    plain = bench(mlp, Penalised, torch.float32, compile=True)
    check_same_bits(trainings(replayed(plain), PLAN), trainings(plain, PLAN))


@dataclass(frozen=True)
class Tracked(Penalised):
    """Traces a path and the last step's number."""

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        return {"path": trace["path"] - g * (new - old), "last": torch.zeros_like(g) + step}


def test_traces_and_what_optimizers_carry_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    on_few_rows(monkeypatch)
    plan, found = replace(PLANS["Adam"], optimizer=Adam(keep=True)), []
    for b in (plain := bench(method=Tracked), replayed(plain)):
        carried: Tensors = {name: torch.zeros_like(b.memory["c"][:LANES]) for name in ("exp_avg", "exp_avg_sq")}
        carried[STEPS] = torch.zeros(LANES, dtype=torch.float64)
        for number in range(3):
            group = b.group(plan, [0, 1, 3], LANES, number)
            group.carried.optimizer = carried
            trace = {"path": b.server["c"], "last": b.server["c"]}
            trained = group.train(b.server["theta"], b.method, b.server, {"c": b.memory["c"][:LANES]}, trace)
            carried = group.carried.optimizer
        found.append([trained.theta, trained.loss, *trained.trace.values(), *carried.values()])
    assert len(found[0]) == 7 and found[0][3].max() > 0
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@dataclass(frozen=True)
class Counting(Penalised):
    """Counts steps in one trace, and follows the path in all others."""

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        return {name: t + 1 if name == "count" else t - g * (new - old) for name, t in trace.items()}


def test_traces_of_other_names_or_in_another_order_are_recorded_apart() -> None:
    plain, found = bench(method=Counting), list[list[Tensors]]()
    one, none = plain.server["c"], torch.zeros_like(plain.server["c"])
    traces: list[Tensors] = [{"count": none, "path": one}, {"path": one, "count": none}, {"count": none, "other": one}]
    for b in (plain, replayed(plain)):
        train = partial(b.group(PLAN, [0, 1]).train, b.server["theta"], b.method, b.server, {"c": b.memory["c"][:2]})
        found.append([train(trace).trace for trace in traces])
    assert [list(each) for each in found[1]] == [list(trace) for trace in traces]
    assert all(torch.equal(t, mine[name]) for own, mine in zip(*found, strict=True) for name, t in own.items())


class Clones(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the numbers that are cloned."""

    numbers = 0

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: tuple[Tensor, ...] = (), kwargs: dict[str, object] | None = None
    ) -> object:
        if func is torch.ops.aten.clone.default:
            self.numbers += args[0].numel()
        return func(*args, **(kwargs or {}))


def test_where_training_begins_is_copied_once() -> None:
    plain, cloned = bench(), list[int]()
    for b in (plain, replayed(plain)):
        train = partial(b.group(PLAN, [], LANES).train, b.server["theta"], b.method, b.server, {})
        train()
        with Clones() as clones:  # type: ignore[no-untyped-call]
            train()  # without a step, which clones numbers, too
        cloned.append(clones.numbers)
    of_all_lanes = LANES * plain.server["theta"].numel()
    assert cloned[0] >= 2 * of_all_lanes > of_all_lanes > cloned[1], "theta and momentum, and neither"


def test_lanes_that_begin_alike_and_each_by_itself_share_a_recording() -> None:
    plain, record, found = bench(), Recorded(), []
    for b in (plain, replayed(plain, record)):
        one = b.server["theta"]
        each = torch.stack([one, 2 * one])
        found += [b.group(PLAN, [0, 1]).train(start, b.method, b.server, {}) for start in (one, each, one)]
    check_same_bits(found[3:], found[:3])
    assert record.made == 1


class Normed(nn.Module):
    """A network whose running statistics are among its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(32, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layers(x)
        return out


class Tokens(nn.Module):
    """Averages what three tokens out of five are embedded as."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(x).mean(1))
        return out


def of_inputs(b: Bench, x: Tensor, y: Tensor, module: nn.Module, model: FlatModel) -> Bench:
    """A bench on other samples with a model for them."""
    work, server = replace(b.work, samples=Samples(x, y)), {"theta": model.init()}
    return b._replace(method=FedAvg(model), module=module, work=work, server=server, memory={})


@pytest.mark.parametrize("kind", ["running statistics", "tokens", "numbers", "labels of a task"])
def test_samples_of_all_kinds_are_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_few_rows(monkeypatch)
    plain, random, count = bench(dtype=torch.float32), np.random.default_rng(1), sum(SIZES)
    x = torch.from_numpy(random.normal(size=(count, 32)).astype(np.float32))
    if kind == "running statistics":
        plain = bench(Normed, dtype=torch.float32)
    elif kind == "tokens":
        with torch_seed(4):
            tokens = Tokens()
        x = torch.from_numpy(random.integers(0, 5, (count, 3)).astype(np.int16))
        model = FlatModel(tokens, 3, torch.full((1, 3), 4))
        plain = of_inputs(plain, x, plain.work.samples.y, tokens, model)
    elif kind == "numbers":
        with torch_seed(4):
            linear = nn.Linear(32, 2)
        y = torch.from_numpy(random.normal(size=(count, 2)).astype(np.float32))
        plain = of_inputs(plain, x, y, linear, FlatModel(linear, 2, x[:1], MSE()))
    else:
        # a label of another task beside the real ones, which padding bears
        y = plain.work.samples.y.clamp_max(1)
        y[0] = -1
        clients = [own[own > 0] for own in plain.clients]
        allowed = torch.tensor([True, True, False])
        samples = plain.work.samples._replace(y=y)
        plain = plain._replace(clients=clients, work=replace(plain.work, samples=samples, allowed=allowed))
    expected = trainings(plain, PLAN)
    check_same_bits(trainings(replayed(plain), PLAN), expected)
    assert expected[0].theta.isfinite().all() and expected[0].loss[:3].all()


def test_few_recordings_stay_and_all_give_way_to_one_more() -> None:
    plain, record = bench(method=Penalised), Recorded()
    b = replayed(plain, record)
    names = ["momentum", "one epoch", "Adam", "AdamW", "clipped", "batch of one", "fixed steps"]
    assert len(names) == MOST + 1
    for name in [*names[:MOST], names[0], names[2]]:
        b.train(PLANS[name], [0, 1])
    assert record.made == MOST
    b.train(PLANS[names[MOST]], [0, 1])
    found = b.train(PLANS[names[2]], [0, 1])
    b.train(PLANS[names[MOST]], [0, 1])
    assert record.made == MOST + 2
    check_same_bits([found], [plain.train(PLANS[names[2]], [0, 1])])


@pytest.mark.parametrize("fails", [1, 2])
@pytest.mark.parametrize("raises", [True, False])
def test_a_recording_that_fails_takes_those_before_it_along_and_is_tried_once_more(raises: bool, fails: int) -> None:
    """Theirs may be the memory that it lacks, or gone with its own; they are made again."""
    plain, made, replays = bench(method=Penalised), list[str](), list[int]()

    def second_fails(function: Callable[[], None]) -> Callable[[], object]:
        made.append("tried")
        number = len(made)
        if not 1 < number < 2 + fails:
            function()

            def again() -> None:
                replays.append(number)
                function()

            return again
        if raises:
            raise RuntimeError("operation not permitted when stream is capturing")
        return function

    b = replayed(plain, second_fails)
    for name in ("momentum", "Adam", "momentum", "Adam"):
        check_same_bits([b.train(PLANS[name], [0, 1])], [plain.train(PLANS[name], [0, 1])])
    assert len(made) == 4
    assert [number for number, _ in groupby(replays)] == ([1, 3, 4, 3] if fails == 1 else [1, 4])


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (["momentum", "Adam", "AdamW"], ["momentum", "Adam", "Adam", "AdamW", "momentum"]),
        (["Adam", "momentum", "AdamW"], ["Adam", "momentum", "AdamW", "AdamW", "momentum"]),
    ],
)
def test_two_that_can_never_be_recorded_leave_each_other_and_what_is_recorded_alone(
    order: list[str], expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    plain, tried, good = bench(method=Penalised), list[str](), "momentum"

    def good_alone(function: Callable[[], None]) -> Callable[[], object]:
        tried.append(name)
        return (lambda: function()) if name == good else function

    b = replayed(plain, good_alone)
    with caplog.at_level(logging.INFO):
        for name in 3 * order:
            check_same_bits([b.train(PLANS[name], [0, 1])], [plain.train(PLANS[name], [0, 1])])
    assert tried == expected
    told = "the local step cannot be recorded; its kernels are launched singly"
    assert [record.getMessage() for record in caplog.records] == 2 * [told]


@pytest.mark.parametrize(
    ("order", "tries"),
    [
        # each drives the other out once, and then the first one is used more whenever the second one comes
        (4 * ["momentum", "Adam"], ["momentum", "Adam", "Adam", "momentum", "momentum"]),
        # what comes once leaves the place to what comes often
        (["momentum", "Adam", *3 * ["momentum"]], ["momentum", "Adam", "Adam", "momentum", "momentum"]),
        (["momentum", *3 * ["Adam"]], ["momentum", "Adam", "Adam"]),
        # and two that fit together are together again, once what drove both out is gone
        (
            [*3 * ["momentum", "AdamW"], "clipped", "momentum", "AdamW"],
            ["momentum", "AdamW", *2 * ["clipped"], *2 * ["momentum"], "AdamW"],
        ),
    ],
)
def test_two_that_do_not_fit_together_do_not_drive_each_other_out_for_ever(order: list[str], tries: list[str]) -> None:
    plain, live, tried = bench(method=Penalised), WeakValueDictionary[str, Callable[[], None]](), list[str]()

    def others_beside_clipped(function: Callable[[], None]) -> Callable[[], object]:
        tried.append(name)
        if live and (name == "clipped" or "clipped" in live or "AdamW" not in {name, *live}):
            raise RuntimeError("out of memory")
        live[name] = again = partial(function)
        return again

    b = replayed(plain, others_beside_clipped)
    for name in order:
        check_same_bits([b.train(PLANS[name], [0, 1])], [plain.train(PLANS[name], [0, 1])])
    assert tried == tries


def test_other_shapes_are_recorded_anew() -> None:
    plain, record = bench(method=Penalised), Recorded()
    b = replayed(plain, record)
    check_same_bits([b.train(PLAN, [0, 1], 2)], [plain.train(PLAN, [0, 1], 2)])
    check_same_bits([b.train(PLAN, [0, 1], 3)], [plain.train(PLAN, [0, 1], 3)])
    small = replace(PLAN, batch_size=3)
    check_same_bits([b.train(small, [0, 1], 3)], [plain.train(small, [0, 1], 3)])
    assert record.made == 3


def test_what_cannot_be_recorded_is_told_once_and_trains_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    plain, refuse = bench(method=Penalised), Refused("operation not permitted when stream is capturing\nmore of it")
    with caplog.at_level(logging.INFO):
        check_same_bits(trainings(replayed(plain, refuse), PLAN), trainings(plain, PLAN))
    assert refuse.tried == 1
    assert [record.getMessage() for record in caplog.records] == [
        "the local step cannot be recorded (RuntimeError: operation not permitted when stream is capturing); "
        "its kernels are launched singly"
    ]


def test_a_stop_is_heard_between_steps_and_leaves_the_next_training_alone() -> None:
    plain, record, stop = bench(method=Penalised), Recorded(), Stop(2)
    b = replayed(plain, record)
    b = b._replace(work=replace(b.work, check=stop))
    start = plain.server["theta"].clone()
    with pytest.raises(InterruptedRunError):
        b.train(PLANS["fixed steps"], [0, 4])
    assert record.steps == stop.last and torch.equal(plain.server["theta"], start)
    stop.calls, stop.last = 0, 6
    check_same_bits([b.train(PLANS["fixed steps"], [1, 3])], [plain.train(PLANS["fixed steps"], [1, 3])])
    assert stop.calls == record.steps - 2 == 6


def test_samples_of_a_methods_making_are_no_part_of_a_recording() -> None:
    record = Recorded()
    b = replayed(bench(method=Penalised), record)
    x, y = torch.rand(2, 7, 2, 4, 4, dtype=torch.float64), torch.ones(2, 7, dtype=torch.int64)
    group = b.group(PLAN, [0, 1]).over(x, y)
    group.train(b.server["theta"], b.method, b.server, {"c": b.memory["c"][:2]})
    assert record.made == 0


def test_compiled_steps_on_cuda_are_recorded() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    assert recordings_on(cpu, compile=True) is recordings_on(cuda, compile=False) is None
    assert recordings_on(cuda, compile=True) is not None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@pytest.mark.parametrize(
    "name", ["momentum", "AdamW that decays fast", "cosine over steps", "augmented", "batch of one"]
)
def test_a_real_graph_has_the_bits_of_single_steps(name: str) -> None:
    plain = bench(lambda: mlp(0.4), Penalised, torch.float32, compile=True, device="cuda")
    graphs = Graphs()
    check_same_bits(trainings(replayed(plain, graphs), PLANS[name]), trainings(plain, PLANS[name]))
    assert graphs.made == 1
