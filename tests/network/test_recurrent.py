"""RNN, LSTM and GRU in lanes give what torch's own layers give, one model at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fl_ddp.engine.seeds import torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.recurrence import recurrence
from fl_ddp.network.recurrent import Recurrent, make_recurrence_batched

T, B, D, H = 5, 3, 4, 6
LAYERS: dict[str, Callable[[], nn.RNNBase]] = {
    "LSTM": lambda: nn.LSTM(D, H),
    "LSTM of two layers": lambda: nn.LSTM(D, H, 2, batch_first=True),
    "LSTM without biases": lambda: nn.LSTM(D, H, bias=False),
    "LSTM of both directions": lambda: nn.LSTM(D, H, 2, bidirectional=True),
    "GRU": lambda: nn.GRU(D, H),
    "GRU of both directions": lambda: nn.GRU(D, H, 2, batch_first=True, bidirectional=True),
    "GRU without biases": lambda: nn.GRU(D, H, 2, bias=False),
    "RNN": lambda: nn.RNN(D, H, 2),
    "rectified RNN": lambda: nn.RNN(D, H, nonlinearity="relu", bidirectional=True, batch_first=True),
}
EVERY = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pair(make: Callable[[], nn.RNNBase]) -> tuple[nn.RNNBase, Recurrent]:
    """torch's layer, and the one in its place, in float64."""
    with torch_seed(1):
        layer = make().double()
    module = nn.ModuleList([copy.deepcopy(layer)])
    make_recurrence_batched(module)
    found = module[0]
    assert isinstance(found, Recurrent)
    return layer, found


def inputs(layer: nn.RNNBase | Recurrent) -> tuple[Tensor, ...]:
    """x, and h and c to begin with."""
    places = layer.num_layers * (1 + layer.bidirectional)
    x = noise(B, T, D) if layer.batch_first else noise(T, B, D)
    return x, *(noise(places, B, H, seed=seed) for seed in (1, 2)[: 1 + (layer.mode == "LSTM")])


def flat(out: Tensor, state: Tensor | tuple[Tensor, Tensor]) -> list[Tensor]:
    return [out, *(state if isinstance(state, tuple) else (state,))]


def all_of(layer: nn.Module, x: Tensor, *state: Tensor) -> list[Tensor]:
    """Outputs and last states, and the gradients in all that goes in."""
    given = [t.clone().requires_grad_() for t in (x, *state)]
    begin = tuple(given[1:]) if len(state) == 2 else given[1] if state else None
    out = flat(*layer(given[0], begin))
    loss = torch.stack([(t * noise(*t.shape, seed=3)).sum() for t in out]).sum()
    return [*out, *torch.autograd.grad(loss, [*given, *layer.parameters()])]


def check_close(found: list[Tensor], expected: list[Tensor]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.shape == theirs.shape and theirs.any()
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


@EVERY
def test_outputs_states_and_gradients_are_torchs(make: Callable[[], nn.RNNBase]) -> None:
    layer, found = pair(make)
    assert dict(layer.named_parameters()).keys() == dict(found.named_parameters()).keys()
    x, *state = inputs(layer)
    check_close(all_of(found, x, *state), all_of(layer, x, *state))
    check_close(all_of(found, x), all_of(layer, x))


@EVERY
def test_one_sample_without_an_axis_for_it(make: Callable[[], nn.RNNBase]) -> None:
    layer, found = pair(make)
    _, *state = inputs(layer)
    given = noise(T, D), *(t[:, 0] for t in state)
    check_close(all_of(found, *given), all_of(layer, *given))


@pytest.mark.parametrize("mode", ["RNN_TANH", "RNN_RELU", "GRU", "LSTM"])
def test_biases_of_steps_are_inputs_whose_weight_is_the_identity(mode: str) -> None:
    width = {"GRU": 3, "LSTM": 4}.get(mode, 1) * H
    shapes = (T, B, D), (width, D), (width, H), (T, B, width), (T, B, width), (B, H), (B, H if mode == "LSTM" else 0)
    given = [noise(*shape, seed=seed).requires_grad_() for seed, shape in enumerate(shapes)]
    x, w_ih, w_hh, b_ih, b_hh, h0, c0 = given
    if mode == "GRU":  # whose hidden states' biases are behind its gate
        b_hh = b_hh * 0
    nothing = torch.zeros(width, dtype=x.dtype)
    wide = torch.cat([w_ih, torch.eye(width, dtype=x.dtype)], 1)
    found = recurrence(mode, x, w_ih, w_hh, b_ih, b_hh, h0, c0)
    right = recurrence(mode, torch.cat([x, b_ih + b_hh], -1), wide, w_hh, nothing, nothing, h0, c0)
    looked_at = [t for t in (x, b_ih, b_hh, h0, c0) if t.numel() and not (t is b_hh and mode == "GRU")]
    of_each = (torch.autograd.grad((3 * out[0]).sin().sum() + out[1].sum(), looked_at) for out in (found, right))
    check_close(*([*out[:1], *gradients] for out, gradients in zip((found, right), of_each, strict=True)))


@pytest.mark.parametrize(("name", "other"), [("bias_hh_l0", "bias_ih_l0"), ("weight_hh_l0", "weight_ih_l0")])
def test_a_layers_parameters_may_be_tied(name: str, other: str) -> None:
    def make() -> nn.RNNBase:
        layer = nn.GRU(H, H)
        setattr(layer, name, getattr(layer, other))
        return layer

    layer, found = pair(make)
    x = noise(T, B, H)
    check_close(all_of(found, x), all_of(layer, x))
    assert len(dict(found.named_parameters())) == 3


@EVERY
def test_lanes_are_models_of_their_own(make: Callable[[], nn.RNNBase]) -> None:
    """And lanes of lanes, as every sample's own gradient is taken."""
    layer, found = pair(make)
    names = [name for name, _ in found.named_parameters()]
    stacked = {name: p.detach() + noise(2, *p.shape, seed=4) / 9 for name, p in found.named_parameters()}
    x, *_ = inputs(layer)
    xs = torch.stack([x, x.flip(0).contiguous()])

    def loss(theta: dict[str, Tensor], x: Tensor) -> Tensor:
        out, _ = functional_call(found, theta, (x,))
        value: Tensor = (3 * out).sin().sum()
        return value

    several = vmap(grad(loss))(stacked, xs)
    shared = vmap(vmap(grad(loss), (None, 0)), (0, None))(stacked, xs)
    for lane in range(2):
        for which, of_lane in ((lane, several), *((s, {n: t[:, s] for n, t in shared.items()}) for s in range(2))):
            theta = {name: t[lane].clone().requires_grad_() for name, t in stacked.items()}
            out, _ = functional_call(layer, theta, (xs[which],))
            right = torch.autograd.grad((3 * out).sin().sum(), list(theta.values()))
            check_close([of_lane[name][lane] for name in names], list(right))


@pytest.mark.parametrize("name", [name for name in LAYERS if name.startswith("LSTM")])
def test_an_lstm_in_single_precision_is_torchs(name: str) -> None:
    layer, found = pair(LAYERS[name])
    layer, found = layer.float(), found.float()
    given = [t.float() for t in inputs(layer)]
    for ours, theirs in zip(all_of(found, *given), all_of(layer, *given), strict=True):
        assert theirs.any()
        torch.testing.assert_close(ours, theirs)


@EVERY
def test_under_autocast_a_layer_is_in_single_precision(make: Callable[[], nn.RNNBase]) -> None:
    _, found = pair(make)
    given = [t.float() for t in inputs(found)]
    expected = all_of(found.float(), *given)
    with torch.autocast("cpu", torch.bfloat16):
        under = all_of(found, *given)
    for ours, plain in zip(under, expected, strict=True):
        assert ours.dtype == torch.float32 and torch.equal(ours, plain)


class Read(nn.Module):
    """The last hidden state decides."""

    def __init__(self, layer: nn.RNNBase) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(layer.hidden_size, 3)

    def forward(self, x: Tensor) -> Tensor:
        self.layer.flatten_parameters()
        out: Tensor = self.head(self.layer(x)[0][:, -1])
        return out


def test_a_model_is_stored_under_the_plain_modules_names() -> None:
    module = Read(nn.GRU(D, H, 2, batch_first=True))
    plain, model = copy.deepcopy(module), FlatModel(module, 3, noise(1, T, D).float())
    theta = model.init() + 0.1
    plain.load_state_dict(model.state_dict(theta))
    x = noise(B, T, D).float()
    torch.testing.assert_close(model.logits(theta, x), plain(x))


def test_dropout_is_between_layers_alone_and_its_key_decides() -> None:
    layer = nn.RNN(1, 400, 2, nonlinearity="relu", batch_first=True, dropout=0.25)
    for name, parameter in layer.named_parameters():
        nn.init.constant_(parameter, 1.0) if name == "weight_ih_l0" else nn.init.zeros_(parameter)
    nn.init.eye_(layer.get_parameter("weight_ih_l1"))
    module = Read(layer)
    model = FlatModel(module, 3, torch.ones(1, T, 1))
    theta, x = model.init(), torch.ones(2, T, 1)
    first, again, other = (model.apply(theta, x, torch.tensor(key))[0] for key in (5, 5, 6))
    assert first is not None and again is not None and other is not None
    assert set(first.flatten().tolist()) == {0.0, float(torch.tensor(1 / 0.75))} and abs(float(first.mean()) - 1) < 0.1
    assert torch.equal(first, again) and not torch.equal(first, other) and not torch.equal(first[0], first[1])
    assert torch.equal(model.features(theta, x), torch.ones(2, 400))


def test_what_lanes_have_not_is_told_in_one_line() -> None:
    x = noise(1, T, D).float()
    message = (
        "--model: LSTM at 'layer' has proj_size 2, which lanes have not; accepted: proj_size 0, and a torch.nn.Linear "
        "behind it"
    )
    with pytest.raises(ConfigError) as error:
        FlatModel(Read(nn.LSTM(D, H, proj_size=2)), 3, x)
    assert str(error.value) == message
    _, found = pair(LAYERS["GRU"])
    with pytest.raises(ValueError, match="GRU takes no packed sequence in lanes; pad samples to one length"):
        found(nn.utils.rnn.pack_padded_sequence(noise(T, B, D), torch.tensor([5, 4, 2])))
