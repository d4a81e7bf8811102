"""Attention in lanes gives what torch's own gives, and its dropout is the run's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from fl_ddp.engine.seeds import torch_seed
from fl_ddp.network.attention import Attention, make_attention_batched
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.vmap_check import try_gradient

L, B, E, HEADS = 5, 3, 8, 2
CAUSAL = torch.ones(L, L, dtype=torch.bool).triu(1)
PADDED = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pair(**options: object) -> tuple[nn.MultiheadAttention, Attention]:
    with torch_seed(1):
        layer = nn.MultiheadAttention(E, HEADS, dtype=torch.float64, **options)
        for parameter in layer.parameters():
            nn.init.normal_(parameter)
    module = nn.ModuleList([copy.deepcopy(layer)])
    make_attention_batched(module)
    found = module[0]
    assert isinstance(found, Attention)
    return layer, found


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"bias": False}])
@pytest.mark.parametrize(
    "masks",
    [
        {}, {"need_weights": False}, {"average_attn_weights": False}, {"attn_mask": CAUSAL, "is_causal": True},
        {"attn_mask": noise(B * HEADS, L, L)}, {"attn_mask": CAUSAL, "key_padding_mask": PADDED},
        {"key_padding_mask": noise(B, L, seed=9)},
    ],
)  # fmt: skip
def test_outputs_weights_and_gradients_are_torchs(options: dict[str, object], masks: dict[str, object]) -> None:
    layer, found = pair(**options)
    shape = (B, L, E) if layer.batch_first else (L, B, E)
    x = [noise(*shape, seed=seed) for seed in range(3)]

    def all_of(each: nn.Module) -> list[Tensor]:
        given = [t.clone().requires_grad_() for t in x]
        out, weights = each(*given, **masks)
        loss = out.sin().sum() + (0 if weights is None else weights.square().sum())
        shown = [] if weights is None else [weights]
        return [out, *shown, *torch.autograd.grad(loss, [*given, *each.parameters()])]

    for ours, theirs in zip(all_of(found), all_of(layer), strict=True):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_one_sample_without_an_axis_for_it() -> None:
    layer, found = pair()
    x = noise(L, E)
    for ours, theirs in zip(found(x, x, x, attn_mask=CAUSAL), layer(x, x, x, attn_mask=CAUSAL), strict=True):
        torch.testing.assert_close(ours, theirs)


class Encoder(nn.Module):
    """Two of torch's transformer layers, behind which the mean decides."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(E, HEADS, 16, dropout, batch_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(E, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x).mean(1))
        return out


def test_a_transformer_with_dropout_works_in_lanes_and_is_torchs_without_it() -> None:
    with torch_seed(2):
        plain = Encoder(0.3).double()
    x = noise(B, L, E)
    model = FlatModel(copy.deepcopy(plain), 3, x[:1])
    try_gradient(model, x[:1], torch.zeros(1).long(), "Encoder")
    theta = model.init() + 0.01 * noise(model.num_params, seed=3)
    plain.load_state_dict(model.state_dict(theta))
    plain.eval()
    torch.testing.assert_close(model.logits(theta, x), plain(x), rtol=1e-10, atol=1e-12)
    lanes = torch.vmap(model.logits, (0, None))(torch.stack([theta, model.init()]), x)
    torch.testing.assert_close(lanes[0], plain(x), rtol=1e-10, atol=1e-12)


class Looking(nn.Module):
    """Attention whose values are ones, and what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(1, 1, 0.25, bias=False, batch_first=True)
        nn.init.ones_(self.attention.in_proj_weight)
        nn.init.ones_(self.attention.out_proj.weight)
        self.head = nn.Linear(1, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.attention(x, x, x)[0].flatten(1)
        return features, self.head(features[:, :1])


@pytest.mark.parametrize("length", [1, 7])
def test_weights_are_dropped_by_the_key_alone(length: int) -> None:
    x = torch.ones(900, length, 1)
    model = FlatModel(Looking(), 2, x[:1])
    first, again, other = (model.apply(model.init(), x, torch.tensor(key))[0] for key in (4, 4, 5))
    assert first is not None and again is not None and other is not None
    assert torch.equal(first, again) and not torch.equal(first, other)
    weighed = (first * length * 0.75).round(decimals=4)
    assert set(weighed.flatten().tolist()) <= set(range(length + 1)) and abs(float(first.mean()) - 1) < 0.05
    assert model.features(model.init(), x).allclose(torch.ones(900, length))
