from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional as F

from fl_ddp.engine.seeds import torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Batch

KEY, OTHER = torch.tensor(123456), torch.tensor(7)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    with torch_seed(1):
        return make()


def mlp(*extra: nn.Module) -> nn.Module:
    return seeded(lambda: nn.Sequential(nn.Linear(6, 8), nn.Tanh(), *extra, nn.Linear(8, 3)))


def cnn() -> nn.Module:
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)
        )
    )


def flat(module: nn.Module, *shape: int) -> FlatModel:
    return FlatModel(module, 3, noise(1, *(shape or (6,))))


class Pair(nn.Module):
    """Returns (features, logits)."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.relu(self.body(x))
        return z, self.head(z)


class Scaled(nn.Module):
    """The last Linear is not the output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return 2 * out


class Buffered(nn.Module):
    """Has a buffer that is never trained."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.register_buffer("scale", torch.full((6,), 0.5))
        self.register_buffer("scratch", torch.ones(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x * self.scale)
        return out


class Tied(nn.Module):
    """Two layers share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return out


class SharedDropout(nn.Module):
    """One dropout layer under two names, and called twice under one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5))
        self.second = nn.Sequential(nn.Linear(8, 8), self.first[1])
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.second(self.first(x)))
        return out


class DroppedTwice(nn.Module):
    """Drops ones twice with one layer, and shows both masks."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.drop = nn.Linear(6, 3), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ones = torch.ones_like(x)
        return torch.stack([self.drop(ones), self.drop(ones)], 1), self.linear(x)


MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (6,)),
    "cnn": (cnn, (2, 6, 6)),
    "pair": (lambda: seeded(Pair), (6,)),
    "scaled": (lambda: seeded(Scaled), (6,)),
    "buffered": (lambda: seeded(Buffered), (6,)),
    "tied": (lambda: seeded(Tied), (6,)),
    "dropout": (lambda: mlp(nn.Dropout(0.3)), (6,)),
    "linear": (lambda: seeded(lambda: nn.Linear(6, 3)), (6,)),
}
each_module = pytest.mark.parametrize(("make", "shape"), MODULES.values(), ids=MODULES)


@each_module
def test_logits_and_gradient_are_the_modules(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    module, x, y = make().eval(), noise(5, *shape, seed=3), torch.tensor([0, 2, 1, 1, 0])
    model = flat(copy.deepcopy(module), *shape)
    out = module(x)
    logits = out[1] if isinstance(out, tuple) else out
    features, found = model.apply(model.init(), x)
    torch.testing.assert_close(found, logits)
    assert torch.equal(model.logits(model.init(), x), found)
    if isinstance(out, tuple):
        assert features is not None
        torch.testing.assert_close(features, out[0])
    loss = F.cross_entropy(logits, y)
    gradient = torch.autograd.grad(loss, list(module.parameters()))
    mine = grad(lambda theta: model.nll(theta, x, y).mean())(model.init())
    torch.testing.assert_close(mine, torch.cat([g.flatten() for g in gradient]))


@each_module
def test_leaves_are_the_parameters_in_order(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    module = make()
    named = {name: p.detach().clone() for name, p in module.named_parameters()}
    model = flat(module, *shape)
    assert model.names == tuple(named) and model.num_params == sum(p.numel() for p in named.values())
    stacked = model.leaves(torch.stack([model.init(), 2 * model.init()]))
    for leaf, both, p in zip(model.leaves(model.init()), stacked, named.values(), strict=True):
        assert torch.equal(leaf, p) and torch.equal(both[1], 2 * p)


@each_module
def test_the_state_dict_is_one_the_module_loads(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> None:
    module, x = make(), noise(4, *shape, seed=2)
    names = set(module.state_dict())
    model = flat(copy.deepcopy(module), *shape)
    theta = noise(model.num_params, seed=9) / 3
    saved = load(save(model.state_dict(theta)))
    assert set(saved) == names
    module.load_state_dict(saved, strict=True)
    out = module.eval()(x)
    torch.testing.assert_close(model.logits(theta, x), out[1] if isinstance(out, tuple) else out)


def test_theta_decides_and_the_module_stays_as_it_was() -> None:
    model, x = flat(cnn(), 2, 6, 6), noise(4, 2, 6, 6)
    y = torch.tensor([0, 1, 2, 0])
    before = model.logits(model.init(), x)
    init = model.init()
    init.add_(1)
    batch = Batch(x, y, torch.ones(4), KEY)
    for _ in range(3):
        theta = model.init() - 0.1 * grad(model.loss)(model.init(), batch)
    assert not torch.allclose(model.logits(theta, x), before)
    assert torch.equal(model.logits(model.init(), x), before)


def test_the_loss_is_the_mean_over_real_samples() -> None:
    model, x, y = flat(mlp()), noise(5, 6), torch.tensor([0, 2, 1, 1, 0])
    expected = F.cross_entropy(model.logits(model.init(), x[:3]), y[:3])
    mask = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0])
    torch.testing.assert_close(model.loss(model.init(), Batch(x, y, mask, KEY)), expected)
    assert model.loss(model.init(), Batch(x, y, torch.zeros(5), KEY)).item() == 0
    nll = model.nll(model.init(), x, y)
    torch.testing.assert_close(nll, F.cross_entropy(model.logits(model.init(), x), y, reduction="none"))


@pytest.mark.parametrize("make", [mlp, lambda: mlp(nn.Dropout(0.5))], ids=["mlp", "dropout"])
@pytest.mark.parametrize("key", [None, KEY])
def test_features_are_the_input_of_the_last_linear(make: Callable[[], nn.Module], key: Tensor | None) -> None:
    model, x = flat(make()), noise(4, 6)
    features, logits = model.apply(model.init(), x, key)
    assert model.has_features and features is not None and features.shape == (4, 8)
    weight, bias = model.leaves(model.init())[-2:]
    torch.testing.assert_close(logits, features @ weight.T + bias)


@pytest.mark.slow
def test_features_under_vmap_and_compile_are_those_of_each_lane() -> None:
    model, x = flat(mlp(nn.Dropout(0.5))), noise(3, 4, 6)
    thetas, keys = noise(3, model.num_params), torch.tensor([1, 2, 3])

    def both(theta: Tensor, x: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        features, logits = model.apply(theta, x, key)
        assert features is not None
        return features, logits

    compiled = torch.compile(vmap(both), fullgraph=True, dynamic=False)
    for stacked in (vmap(both)(thetas, x, keys), compiled(thetas, x, keys)):
        for lane in range(3):
            alone = model.apply(thetas[lane], x[lane], keys[lane])
            torch.testing.assert_close((stacked[0][lane], stacked[1][lane]), alone)


def test_a_last_linear_under_two_names_gives_features() -> None:
    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.alias = self.head = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.head(x)
            return out

    model, x = flat(Named()), noise(4, 6)
    features, _ = model.apply(model.init(), x)
    assert features is not None and torch.equal(features, x)


@pytest.mark.parametrize("make", [Scaled, lambda: nn.Sequential(nn.Conv1d(6, 3, 1), nn.Flatten())])
def test_a_module_whose_output_is_no_linear_has_no_features(make: Callable[[], nn.Module]) -> None:
    shape = (6,) if make is Scaled else (6, 1)
    model = flat(make(), *shape)
    features, logits = model.apply(model.init(), noise(2, *shape))
    assert features is None and not model.has_features and logits.shape == (2, 3)


def test_dropout_masks_are_a_function_of_the_key() -> None:
    model, x = flat(mlp(nn.Dropout(0.5))), noise(50, 6)
    theta = model.init()
    assert torch.equal(model.logits(theta, x, KEY), model.logits(theta, x, KEY))
    assert not torch.allclose(model.logits(theta, x, KEY), model.logits(theta, x, OTHER))
    off = model.logits(theta, x)
    assert torch.equal(off, model.logits(theta, x)) and not torch.allclose(off, model.logits(theta, x, KEY))
    before = torch.random.get_rng_state()
    model.logits(theta, x, KEY)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 0.9])
def test_dropout_keeps_a_share_and_the_mean(p: float) -> None:
    model = FlatModel(nn.Sequential(nn.Dropout(p), nn.Linear(4000, 3)), 3, noise(1, 4000))
    features, _ = model.apply(model.init(), torch.ones(20, 4000), KEY)
    assert features is not None
    share = (features > 0).double().mean().item()
    # 80,000 draws: deviation at most 0.0018
    assert abs(share - (1 - p)) < 0.008
    torch.testing.assert_close(features.max(), torch.tensor(1 / (1 - p)))


def test_dropout_of_everything_drops_everything() -> None:
    model = flat(mlp(nn.Dropout(1.0)))
    features, logits = model.apply(model.init(), noise(4, 6), KEY)
    assert features is not None and not features.any() and logits.isfinite().all()


def test_nested_dropouts_have_masks_of_their_own() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)))
            self.linear = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            ones = torch.ones_like(x)
            return torch.stack([self.block[0](ones), self.block[1](ones)], 1), self.linear(x)

    model = flat(Two())
    masks, _ = model.apply(model.init(), noise(500, 6), KEY)
    assert masks is not None
    first, second = masks[:, 0].flatten(), masks[:, 1].flatten()
    assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.1
    without, _ = model.apply(model.init(), noise(500, 6))
    assert without is not None and (without == 1).all()


def test_a_dropout_under_two_names_is_keyed_under_both() -> None:
    model, x = flat(seeded(SharedDropout)), noise(2, 5, 6)
    thetas, keys = model.init().expand(2, -1), torch.tensor([4, 5])
    stacked = vmap(model.logits)(thetas, x, keys)
    for lane in range(2):
        torch.testing.assert_close(stacked[lane], model.logits(thetas[lane], x[lane], keys[lane]))
    assert torch.equal(model.logits(model.init(), x[0], KEY), model.logits(model.init(), x[0], KEY))


def test_a_dropout_called_twice_draws_anew() -> None:
    model, x = flat(seeded(DroppedTwice)), noise(500, 6)
    masks, _ = model.apply(model.init(), x, KEY)
    assert masks is not None
    rows = masks.transpose(0, 1).flatten(1)
    assert abs(torch.corrcoef(rows)[0, 1]) < 0.1
    again, _ = model.apply(model.init(), x, KEY)
    assert again is not None and torch.equal(again, masks)


def test_two_modules_of_one_class_do_not_share_anything() -> None:
    first, second = flat(mlp(nn.Dropout(0.5))), flat(mlp(nn.Dropout(0.5)))
    x = noise(4, 6)
    expected = first.logits(first.init(), x, KEY)
    second.logits(2 * second.init(), 3 * x, OTHER)
    assert torch.equal(first.logits(first.init(), x, KEY), expected)


def test_norms_without_running_statistics_are_accepted() -> None:
    model = flat(nn.Sequential(nn.InstanceNorm2d(2), nn.GroupNorm(2, 2), nn.Flatten(), nn.Linear(72, 3)), 2, 6, 6)
    assert model.logits(model.init(), noise(3, 2, 6, 6)).shape == (3, 3)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(6, 4), r"Linear returns \(1, 4\) for one sample; accepted: logits \(1, 3\) or \(features, logits\)"),
        (nn.Sequential(nn.Linear(6, 3), nn.Flatten(0)), r"Sequential returns \(3,\) for one sample"),
        (nn.GRU(6, 4), "GRU"),
        (nn.Identity(), "Identity has no parameters to train"),
        (nn.Sequential(nn.Linear(6, 3), nn.AlphaDropout(0.5)), "AlphaDropout at '1' is not supported"),
    ],
)
def test_a_module_that_cannot_be_trained_is_refused(module: nn.Module, message: str) -> None:
    with pytest.raises(ConfigError, match=f"--model: {message}") as error:
        flat(module)
    assert "\n" not in str(error.value)
