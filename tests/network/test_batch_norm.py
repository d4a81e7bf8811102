"""BatchNorm in lanes: the same as torch's, trained for each client in a loop, in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from given import round_of_one_task
from torch import Tensor, nn
from torch.nn import functional as F

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.workplace import Workplace
from fl_ddp.errors import ConfigError
from fl_ddp.importance.fisher import fisher, mean_gradient_norm
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.moon import MOON
from fl_ddp.network.flat_model import FlatModel

PARTS = [np.arange(0, 23), np.arange(23, 30), np.arange(30, 51)]  # in batches of 8: 8 8 7, 7, 8 8 5
PLAN = Plan(batch_size=8, epochs=2, steps=None, lr=0.05, momentum=0.9, weight_decay=1e-3)


class Net(nn.Module):
    """Convolutions with BatchNorm, with and without weights, of two momenta, one layer used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.c2, self.b2 = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6, momentum=0.3, eps=1e-3)
        self.b3, self.head = nn.BatchNorm1d(6, affine=False), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.b2(self.c2(F.relu(self.b1(self.c1(x))))))
        x = F.relu(self.b2(self.c2(x)))
        z = self.b3(x.mean((2, 3)))
        return z, self.head(z)


def network() -> Net:
    with torch_seed(0):
        net = Net().double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.arange(parameter.numel()).view_as(parameter).sin())
    return net


def samples() -> Samples:
    generator = np.random.default_rng(0)
    x = torch.from_numpy(2 * generator.normal(size=(60, 3, 5, 5)) + 1)
    return Samples(x, torch.from_numpy(generator.integers(0, 4, 60)))


def flat(net: nn.Module) -> FlatModel:
    return FlatModel(copy.deepcopy(net), 4, samples().x[:1])


def group(parts: list[np.ndarray] = PARTS, plan: Plan = PLAN, compile: bool = False, lanes: int = 4) -> Group:
    work = Workplace(samples(), torch.float64, False, compile, lambda: None, max(map(len, parts)))
    return Group(work, plan, np.arange(len(parts)), parts, lanes, 0, round_of_one_task(0))


def in_torch(net: nn.Module, batches: list[np.ndarray]) -> nn.Module:
    """The module after torch's own training on batches."""
    slow, data = copy.deepcopy(net).train(), samples()
    sgd = torch.optim.SGD(slow.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    for rows in batches:
        sgd.zero_grad()
        torch.autograd.backward(F.cross_entropy(slow(data.x[rows])[1], data.y[rows]))
        sgd.step()
    return slow.eval()


def lanes_equal_a_loop(compile: bool) -> None:
    net, of_all = network(), group(compile=compile)
    model = flat(net)
    trained = of_all.train(model.init(), FedAvg(model), {}, {})
    batches = PLAN.batches(of_all._order_keys, of_all._samples)
    x = samples().x
    for lane in range(3):
        rows = [batch[batch >= 0] for batch in batches[:, lane]]
        slow = in_torch(net, [batch for batch in rows if len(batch)])
        own = {**dict(slow.named_parameters()), **dict(slow.named_buffers())}
        expected = torch.cat([own[name].detach().reshape(-1) for name in model.names])
        torch.testing.assert_close(trained.theta[lane], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(model.logits(trained.theta[lane], x), slow(x)[1], rtol=0, atol=1e-12)
        loaded = network()
        loaded.load_state_dict(model.state_dict(trained.theta[lane]))
        torch.testing.assert_close(loaded.eval()(x)[1], slow(x)[1], rtol=0, atol=1e-12)
    assert torch.equal(trained.theta[3], model.init()), "a padded lane stays"


def test_lanes_equal_a_loop_with_partial_batches() -> None:
    lanes_equal_a_loop(compile=False)


@pytest.mark.slow
def test_compiled_lanes_equal_a_loop() -> None:
    lanes_equal_a_loop(compile=True)


def test_a_batch_of_one_value_a_channel_moves_no_statistics() -> None:
    """torch refuses it: there is no variance."""
    model = flat(network())
    theta = group([np.arange(1)], lanes=1).train(model.init(), FedAvg(model), {}, {}).theta[0]
    assert theta.isfinite().all()
    before, after = (model.leaves(each) for each in (model.init(), theta))
    of_last = [model.names.index(f"b3.{name}") for name in ("running_mean", "running_var")]
    for i in model.running:
        assert torch.equal(before[i], after[i]) == (i in of_last), model.names[i]


def test_running_statistics_have_no_importance() -> None:
    model, of_all = flat(network()), group()
    found = fisher(of_all, model.init(), model)
    statistics, others = model.take(found, model.running), model.take(found, tuple(range(len(model.names)))[:-6])
    assert others[:3].any() and not statistics.any()
    assert fisher(of_all, model.init(), model, reduction="batch_mean_sq").shape == found.shape
    assert not model.take(fisher(of_all, model.init(), model, reduction="batch_mean_sq"), model.running).any()


def test_fisher_is_that_of_the_module_in_evaluation_mode() -> None:
    net, of_all = network(), group()
    model, data = flat(net), samples()
    found, norms = fisher(of_all, model.init(), model), mean_gradient_norm(of_all, model.init(), model)
    net.eval()
    for lane, part in enumerate(PARTS):
        squares: dict[str, Tensor] = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
        length = 0.0
        for i in part:
            net.zero_grad()
            torch.autograd.backward(F.cross_entropy(net(data.x[i : i + 1])[1], data.y[i : i + 1]))
            for name, p in net.named_parameters():
                assert p.grad is not None
                squares[name] += p.grad.square() / len(part)
            length += sum(float(p.grad.square().sum()) for p in net.parameters() if p.grad is not None) ** 0.5
        for name, leaf in zip(model.names, model.leaves(found[lane]), strict=True):
            torch.testing.assert_close(leaf, squares.get(name, torch.zeros_like(leaf)), rtol=1e-9, atol=1e-14)
        assert norms[lane].item() == pytest.approx(length / len(part), rel=1e-9)


def test_head_and_last_tensors_are_parameters() -> None:
    model = flat(network())
    assert (
        [model.names[i] for i in model.head] == [model.names[i] for i in model.last(2)] == ["head.weight", "head.bias"]
    )
    assert set(model.running) < set(model.body)
    model.require_head("FedRep")


def test_a_network_of_batch_norm_and_a_head_has_no_body_to_train() -> None:
    net = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(75, affine=False), nn.Linear(75, 4)).double()
    with pytest.raises(ConfigError, match="no parameters before them"):
        flat(net).require_head("FedRep")


def test_a_client_s_own_statistics_are_those_its_first_training_begins_with() -> None:
    model, of_all = flat(network()), group()
    received = of_all.train(model.init(), FedAvg(model), {}, {}).theta
    of_all.carried.statistics = 0.5 + torch.arange(4 * 36.0, dtype=torch.float64).view(4, 36).sin().abs()
    own = of_all.train(model.init(), FedAvg(model), {}, {}).theta
    later = of_all.train(model.init(), FedAvg(model), {}, {}, draw=1).theta
    statistics = tuple(model.take(theta, model.running) for theta in (received, own, later))
    assert torch.equal(statistics[1][3], of_all.carried.statistics[3])
    assert not torch.isclose(statistics[1][:3], statistics[0][:3]).any()
    assert not torch.isclose(statistics[1][:3], of_all.carried.statistics[:3]).all(1).any(), "they move"
    parameters = [model.take(theta, tuple(range(len(model.names)))[:-6]) for theta in (received, own)]
    assert torch.equal(*parameters), "training does not look at them"
    halves = of_all.split(0.5)
    assert all(
        torch.equal(half.carried.statistics, of_all.carried.statistics)
        for half in halves
        if half.carried.statistics is not None
    )
    assert all(half.carried.statistics is not None for half in halves)


GROUP = "--model.norm group for GroupNorm"


@pytest.mark.parametrize(
    ("module", "layer", "advice"),
    [
        # in evaluation its statistics would be those of whatever shares the batch
        (
            lambda: nn.Sequential(nn.BatchNorm1d(75, track_running_stats=False)),
            r"BatchNorm1d at '1\.0' \(track_running_stats False",
            GROUP,
        ),
        (
            lambda: nn.BatchNorm1d(75, momentum=None),
            r"BatchNorm1d at '1' \(track_running_stats True, momentum None\)",
            GROUP,
        ),
        (lambda: nn.SyncBatchNorm(75), "SyncBatchNorm at '1'", GROUP),
        # --model.norm group leaves it as it is
        (
            lambda: nn.InstanceNorm1d(75, track_running_stats=True),
            "InstanceNorm1d at '1'",
            "track_running_stats=False, with which each sample is normed by itself; torch.nn.GroupNorm",
        ),
    ],
)
def test_other_statistics_are_refused(module: Callable[[], nn.Module], layer: str, advice: str) -> None:
    net = nn.Sequential(nn.Flatten(), module(), nn.Linear(75, 4)).double()
    with pytest.raises(ConfigError, match=f"--model: Sequential has {layer}.*; accepted: .*{advice}$") as error:
        flat(net)
    assert "\n" not in str(error.value)


def test_a_layer_alone_is_refused() -> None:
    with pytest.raises(ConfigError, match="BatchNorm1d has BatchNorm1d at ''"):
        FlatModel(nn.BatchNorm1d(4).double(), 4, torch.zeros(1, 4, dtype=torch.float64))


def test_a_loss_that_hides_padding_from_batch_norm_is_refused() -> None:
    model = flat(network())
    with pytest.raises(ConfigError, match=r"--model: its BatchNorm cannot tell real samples.*batch\.mask"):
        model.logits(model.init(), samples().x[:2], torch.tensor(1))


def test_what_a_method_compares_with_is_in_evaluation_mode() -> None:
    """MOON's two other models normalise by their own running statistics, not by the batch's, and move none."""
    model, clients = flat(network()), group()
    pulled, plain = (
        clients.train(
            model.init(), MOON(model, mu=mu), {"theta": model.init()}, {"previous": model.init().repeat(4, 1)}
        )
        for mu in (1.0, 0.0)
    )
    torch.testing.assert_close(pulled.theta, plain.theta, rtol=0, atol=1e-12)
