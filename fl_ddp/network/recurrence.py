"""One recurrent layer over time for many lanes, as operators that neither vmap nor the compiler look into.

Unrolled, 80 steps of two layers would take the compiler minutes. L counts lanes, T steps, B samples, D inputs, H hidden
units; gates and their weights are torch's, in its order. A cell's second state c is of width 0 where it has none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch._library.custom_ops import CustomOpDef
from torch.overrides import TorchFunctionMode, _get_current_function_mode
from torch.utils._python_dispatch import _disable_current_modes

TensorTuple = tuple[Tensor, ...]
Back = tuple[Tensor, Tensor, Tensor, Tensor]
"""Gradients in the gates as inputs and hidden states make them, in h0 and in c0."""
_KEPT = {"RNN_TANH": 0, "RNN_RELU": 0, "LSTM": 5, "GRU": 4}
"""Widths of what a loop over time keeps for its way back, in H: gates, then c of an LSTM, what r scales of a GRU."""
_ONEDNNS_LSTM = 2


class WatchesLayers(TorchFunctionMode):
    """A mode that is told of recurrent layers, too; the compiler tells modes of no functions but torch's."""

    def recurrence(self, mode: str, *given: Tensor) -> tuple[Tensor, Tensor]:
        """Do something in the place of a recurrent layer, whose arguments and results these are."""
        raise NotImplementedError


def recurrence(
    mode: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, h0: Tensor, c0: Tensor
) -> tuple[Tensor, Tensor]:
    """Hidden states of a layer for each step, and the last c.

    Args:
        mode: of the cell, as torch.nn.RNNBase names it.
        x: [T, B, D].
        w_ih: [K, D], K the width of all gates.
        w_hh: [K, H].
        b_ih: [K], or [T, B, K], one for each step and sample; w_ih and w_hh are constants then, without a gradient.
        b_hh: as b_ih.
        h0: [B, H].
        c0: [B, H]; [B, 0] if there is no c.

    Returns:
        [T, B, H], and c as c0.
    """
    given = (x, w_ih, w_hh, b_ih, b_hh, h0, c0)
    watching = _get_current_function_mode()  # type: ignore[no-untyped-call]
    return watching.recurrence(mode, *given) if isinstance(watching, WatchesLayers) else unwatched(mode, *given)


def unwatched(mode: str, *given: Tensor) -> tuple[Tensor, Tensor]:
    """As recurrence(), whatever mode there is."""
    h, c, _ = _Recurrence.apply(mode, *(t[None] for t in given))
    return h[0], c[0]


@cache
def keep_compiler_out() -> None:
    """Tell the compiler to take layers as they are; that imports it, which takes a second: for who has such layers."""
    torch.compiler.allow_in_graph(unwatched)  # type: ignore[no-untyped-call]


class _Recurrence(torch.autograd.Function):
    """The operators as a function with a gradient."""

    generate_vmap_rule = True

    @staticmethod
    def forward(mode: str, *given: Tensor) -> TensorTuple:
        found: TensorTuple = _ahead(mode, *given)
        return found

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]
        ctx.mode = inputs[0]
        ctx.mark_non_differentiable(output[2])
        ctx.save_for_backward(*inputs[1:], *output)

    @staticmethod
    def backward(ctx, dh: Tensor, dc: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[no-untyped-def]
        # detached, as the operators have no second derivative
        dx, *weights, b_ih, b_hh, dh0, dc0 = _back(ctx.mode, *(t.detach() for t in (*ctx.saved_tensors, dh, dc)))
        return None, dx, *((None, None) if b_ih.ndim == 4 else weights), b_ih, b_hh, dh0, dc0


@torch.library.custom_op("fl_ddp::recurrence", mutates_args=())
def _ahead(
    mode: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, h0: Tensor, c0: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """H [L, T, B, H], the last c, and what is kept for the way back, for [L, ...] of each argument."""
    with _as_they_are(x):
        if _is_onednns(mode, x, b_ih):
            lanes = zip(*(t.unbind() for t in (x, w_ih, w_hh, b_ih, b_hh, h0, c0)), strict=True)
            h, c, kept = map(torch.stack, zip(*(_onednn(*lane) for lane in lanes), strict=True))
            return h, c, kept
        gates = torch.baddbmm(_by_step(b_ih).flatten(1, 2), x.flatten(1, 2), w_ih.mT).view(*x.shape[:3], b_ih.shape[-1])
        h, kept = x.new_empty(*x.shape[:3], h0.shape[-1]), _kept(mode, x, b_ih, h0)
        across = _by_step(b_hh).expand(-1, x.shape[1], -1, -1)
        c = _LOOPS[mode][0](mode, gates, w_hh.mT, across, h0, c0, h, kept)
        return h, c.clone(memory_format=torch.contiguous_format), kept


@_ahead.register_fake
def _(
    mode: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, h0: Tensor, c0: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(*x.shape[:3], h0.shape[-1]), c0.new_empty(c0.shape), _kept(mode, x, b_ih, h0)


@torch.library.custom_op("fl_ddp::recurrence_backward", mutates_args=())
def _back(
    mode: str, x: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor, b_hh: Tensor, h0: Tensor, c0: Tensor,
    h: Tensor, c: Tensor, kept: Tensor, dh: Tensor, dc: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Gradients in x, the weights, h0 and c0, for those in h and the last c."""
    with _as_they_are(x):
        if _is_onednns(mode, x, b_ih):
            lanes = zip(*(t.unbind() for t in (x, w_ih, w_hh, b_ih, b_hh, h0, c0, h, c, kept, dh, dc)), strict=True)
            each = zip(*(_onednn_back(*lane) for lane in lanes), strict=True)
            return tuple(map(torch.stack, each))  # type: ignore[return-value]
        before = torch.cat([h0[:, None], h[:, :-1]], 1)
        ahead, across, dh0, dc0 = _LOOPS[mode][1](mode, w_hh, c0, h, before, kept, dh, dc)
        d_ih, d_hh = ahead.flatten(1, 2), across.flatten(1, 2)
        if b_ih.ndim == 2:
            weights = d_ih.mT @ x.flatten(1, 2), d_hh.mT @ before.flatten(1, 2), d_ih.sum(1), d_hh.sum(1)
        else:
            weights = w_ih.new_empty(len(w_ih), 0), w_hh.new_empty(len(w_hh), 0), ahead, across.clone()
        return (d_ih @ w_ih).view(x.shape), *weights, dh0, dc0.clone(memory_format=torch.contiguous_format)


@_back.register_fake
def _(mode: str, *given: Tensor) -> TensorTuple:
    found = [t.new_empty(t.shape) for t in given[:7]]
    if given[3].ndim == 4:
        found[1:3] = (w.new_empty(len(w), 0) for w in given[1:3])
    return tuple(found)


def _of_lanes(operator: CustomOpDef) -> None:
    """Have lanes of lanes be lanes in an operator whose first argument is the mode."""

    def more_lanes(
        info: object, in_dims: tuple[int | None, ...], mode: str, *given: Tensor
    ) -> tuple[TensorTuple, TensorTuple]:
        size: int = info.batch_size  # type: ignore[attr-defined]
        each = zip(given, in_dims[1:], strict=True)
        first = (t.expand(size, *t.shape) if at is None else t.movedim(at, 0) for t, at in each)
        found = operator(mode, *(t.flatten(0, 1) for t in first))
        return tuple(t.unflatten(0, (size, -1)) for t in found), (0,) * len(found)  # type: ignore[return-value]

    operator.register_vmap(more_lanes)


_of_lanes(_ahead)
_of_lanes(_back)


def _as_they_are(x: Tensor) -> torch.autocast:
    """Leaves numbers in the precision they are given in: oneDNN's kept state and the loops' room are of x's."""
    return torch.autocast(x.device.type, enabled=False)


def _by_step(b: Tensor) -> Tensor:
    """Biases [L, K] or [L, T, B, K] with axes for steps and samples."""
    return b if b.ndim == 4 else b[:, None, None]


def _is_onednns(mode: str, x: Tensor, b_ih: Tensor) -> bool:
    """Whether oneDNN has the layer, as it has torch's own; of no samples it has none. It is twice as fast as a loop."""
    here = x.device.type == "cpu" and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return here and mode == "LSTM" and x.dtype == torch.float32 and x.numel() > 0 and b_ih.ndim == 2


def _onednn(*given: Tensor) -> TensorTuple:
    """H [T, B, H], the last c and what is kept, of one lane."""
    x, w_ih, w_hh, *others = (t.contiguous() for t in given)
    with torch.enable_grad():  # without which it keeps nothing
        h, _, c, kept = torch.ops.aten.mkldnn_rnn_layer(
            x, w_ih, w_hh, *others, False, [], _ONEDNNS_LSTM, w_hh.shape[1], 1, True, False, False, True
        )
    return h, c, kept


def _onednn_back(*given: Tensor) -> TensorTuple:
    *inputs, h, c, kept, dh, dc = (t.contiguous() for t in given)
    found: TensorTuple = torch.ops.aten.mkldnn_rnn_layer_backward(
        *inputs, h, h[-1], c, dh, torch.zeros_like(dc), dc, False, _ONEDNNS_LSTM, h.shape[-1], 1, True, True, False, [],
        False, kept,
    )  # fmt: skip
    return found


@cache
def _bytes_kept(steps: int, samples: int, inputs: int, hidden: int) -> int:
    """What oneDNN keeps of a lane for its way back."""
    with _disable_current_modes():
        x, state, bias = torch.zeros(steps, samples, inputs), torch.zeros(samples, hidden), torch.zeros(4 * hidden)
        w_ih, w_hh = torch.zeros(4 * hidden, inputs), torch.zeros(4 * hidden, hidden)
        return len(_onednn(x, w_ih, w_hh, bias, bias, state, state)[-1])


def _kept(mode: str, x: Tensor, b_ih: Tensor, h0: Tensor) -> Tensor:
    """Room for what is kept for the way back."""
    lanes, steps, samples, inputs = x.shape
    hidden = h0.shape[-1]
    if _is_onednns(mode, x, b_ih):
        return x.new_empty(lanes, _bytes_kept(steps, samples, inputs, hidden), dtype=torch.uint8)
    return x.new_empty(lanes, steps, samples, _KEPT[mode] * hidden)


def _rnn(mode: str, gates: Tensor, w: Tensor, b: Tensor, h0: Tensor, c0: Tensor, h: Tensor, kept: Tensor) -> Tensor:
    before, squashed = h0, torch.tanh if mode == "RNN_TANH" else torch.relu
    for t in range(h.shape[1]):
        before = h[:, t].copy_(squashed(gates[:, t] + torch.baddbmm(b[:, t], before, w)))
    return c0


def _rnn_back(
    mode: str, w: Tensor, c0: Tensor, h: Tensor, before: Tensor, kept: Tensor, dh: Tensor, dc: Tensor
) -> Back:
    slope = 1 - h.square() if mode == "RNN_TANH" else (h > 0).to(h)
    d, gates = torch.zeros_like(before[:, 0]), torch.empty_like(h)
    for t in reversed(range(h.shape[1])):
        d = gates[:, t].copy_(slope[:, t] * (dh[:, t] + d)) @ w
    return gates, gates, d, dc


def _gru(mode: str, gates: Tensor, w: Tensor, b: Tensor, h0: Tensor, c0: Tensor, h: Tensor, kept: Tensor) -> Tensor:
    before, two = h0, 2 * h0.shape[-1]
    for t in range(h.shape[1]):
        across = torch.baddbmm(b[:, t], before, w)
        rz, scaled = torch.sigmoid(gates[:, t, :, :two] + across[..., :two]), across[..., two:]
        r, z = rz.chunk(2, -1)
        n = torch.tanh(gates[:, t, :, two:] + r * scaled)
        kept[:, t].copy_(torch.cat([rz, n, scaled], -1))
        before = h[:, t].copy_(torch.lerp(n, before, z))
    return c0


def _gru_back(
    mode: str, w: Tensor, c0: Tensor, h: Tensor, before: Tensor, kept: Tensor, dh: Tensor, dc: Tensor
) -> Back:
    r, z, n, scaled = kept.view(*h.shape[:-1], 4, h.shape[-1]).unbind(-2)
    of_n, of_z = (1 - z) * (1 - n.square()), (before - n) * z * (1 - z)
    slope = torch.stack([of_n * scaled * r * (1 - r), of_z, of_n * r], -2)
    d, whole = torch.zeros_like(before[:, 0]), torch.empty_like(h)
    for t in reversed(range(h.shape[1])):
        own = whole[:, t].copy_(dh[:, t] + d)
        d = torch.baddbmm(z[:, t] * own, (slope[:, t] * own[..., None, :]).flatten(-2), w)
    across = (slope * whole[..., None, :]).flatten(-2)
    return torch.cat([across[..., : 2 * h.shape[-1]], of_n * whole], -1), across, d, dc


def _lstm(mode: str, gates: Tensor, w: Tensor, b: Tensor, h0: Tensor, c0: Tensor, h: Tensor, kept: Tensor) -> Tensor:
    before, c = h0, c0
    for t in range(h.shape[1]):
        i, f, g, o = (gates[:, t] + torch.baddbmm(b[:, t], before, w)).chunk(4, -1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        kept[:, t].copy_(torch.cat([i, f, g, o, c], -1))
        before = h[:, t].copy_(o * c.tanh())
    return c


def _lstm_back(
    mode: str, w: Tensor, c0: Tensor, h: Tensor, before: Tensor, kept: Tensor, dh: Tensor, dc: Tensor
) -> Back:
    i, f, g, o, c = kept.view(*h.shape[:-1], 5, h.shape[-1]).unbind(-2)
    shown, c_before = c.tanh(), torch.cat([c0[:, None], c[:, :-1]], 1)
    of_c = torch.stack([g * i * (1 - i), c_before * f * (1 - f), i * (1 - g.square())], -2)
    of_o, to_c = shown * o * (1 - o), o * (1 - shown.square())
    d, gates = torch.zeros_like(before[:, 0]), h.new_empty(*h.shape[:-1], 4 * h.shape[-1])
    for t in reversed(range(h.shape[1])):
        d = dh[:, t] + d
        dc = torch.addcmul(dc, to_c[:, t], d)
        both = (of_c[:, t] * dc[..., None, :]).flatten(-2), of_o[:, t] * d
        d, dc = gates[:, t].copy_(torch.cat(both, -1)) @ w, f[:, t] * dc
    return gates, gates, d, dc


_LOOPS: dict[str, tuple[Callable[..., Tensor], Callable[..., Back]]] = {
    "RNN_TANH": (_rnn, _rnn_back),
    "RNN_RELU": (_rnn, _rnn_back),
    "LSTM": (_lstm, _lstm_back),
    "GRU": (_gru, _gru_back),
}
"""The cells step by step, there and back, in lanes [L, ...]; h and kept are written."""
