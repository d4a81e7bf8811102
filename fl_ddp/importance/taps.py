"""Per-sample gradients of linear, convolution, GroupNorm, embedding and recurrent layers out of one backward pass.

A tap is a zero that is added to a layer's output; its gradient d is the output's, sample by sample, and with the
layer's input it gives every sample's gradient of weight and bias without any weight gradient being formed for the
batch. Nothing in a module is rewritten: a mode sees the calls of its layers' functions. An embedding is a
linear layer of tokens as rows of zeros and a one; a recurrent layer is two linear ones, of inputs and of hidden states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.recurrence import WatchesLayers, unwatched
from fl_ddp.protocol import Leaves

Power = Literal["square", "absolute"]
Part = Tensor | tuple[Tensor, Tensor]
"""A sum over samples of powers of a leaf's gradient, or two matrices whose product it is."""

LINEAR, CONVOLUTION, GROUP_NORM, EMBEDDING = LAYERS = cast(
    tuple[Callable[..., Tensor], Callable[..., Tensor], Callable[..., Tensor], Callable[..., Tensor]],
    (F.linear, F.conv2d, F.group_norm, F.embedding),
)
"""The functions that there are rules for, beside recurrence()."""
_ARGUMENTS = (
    ("input", "weight", "bias"),
    ("input", "weight", "bias", "stride", "padding", "dilation", "groups"),
    ("input", "num_groups", "weight", "bias", "eps"),
    ("input", "weight", "padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse"),
)


class Window(NamedTuple):
    """Where a convolution looks: kernel, stride and dilation by (height, width), padding as F.pad takes it."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]


class Site(NamedTuple):
    """A call of a layer's function; one of recurrence() is two, of inputs and of hidden states.

    Attributes:
        weight: the leaf that is its weight; None if taps do not cover it.
        bias: likewise.
        shape: of one sample's output.
        positions: places per sample at which the weight is a matrix; None for GroupNorm.
        window: of a convolution.
        tokens: that an embedding has rows for; its weight is the other way round than a linear layer's.
    """

    weight: int | None
    bias: int | None
    shape: tuple[int, ...]
    positions: int | None
    window: Window | None = None
    tokens: int = 0


class Call(NamedTuple):
    """Arguments of a layer's function, those that need no name by name."""

    x: Tensor
    weight: Tensor | None
    bias: Tensor | None
    others: dict[str, object]


def read_call(function: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Call:
    """Sort the arguments of one of LAYERS."""
    names = _ARGUMENTS[[function is layer for layer in LAYERS].index(True)]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    x, weight, bias = given.pop("input"), given.pop("weight", None), given.pop("bias", None)
    return Call(cast("Tensor", x), cast("Tensor | None", weight), cast("Tensor | None", bias), given)


class Taps(WatchesLayers):
    """Adds taps to the outputs of layers.

    Attributes:
        inputs: of the tapped layers so far; GroupNorm's are normalised, an embedding's rows of zeros and a one.
    """

    def __init__(self, calls: Sequence[Site | None], taps: Leaves) -> None:
        """Tap those of the calls of layers' functions that are sites."""
        super().__init__()
        self._calls, self._taps = calls, taps
        self._count = 0
        self.inputs: list[Tensor] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Call a function; a tapped layer's output comes with its tap."""
        kwargs = kwargs or {}
        if func not in LAYERS:
            return func(*args, **kwargs)
        site = self._next()
        if site is None:
            return func(*args, **kwargs)
        tap = self._taps[len(self.inputs)]
        x, weight, bias, others = read_call(func, args, kwargs)
        if func is EMBEDDING:
            out, x = func(*args, **kwargs), (x[..., None] == torch.arange(site.tokens, device=x.device)).to(tap.dtype)
        elif func is GROUP_NORM:
            out = x = GROUP_NORM(x, **others)
            across = (-1,) + (1,) * (x.dim() - 2)
            out = out if weight is None else out * weight.view(across)
            out = out if bias is None else out + bias.view(across)
        else:
            out = func(*args, **kwargs)
        assert out.shape == tap.shape
        self.inputs.append(x)
        return out + tap

    def _next(self) -> Site | None:
        self._count += 1
        return self._calls[self._count - 1]

    def recurrence(self, mode: str, *given: Tensor) -> tuple[Tensor, Tensor]:
        """A recurrent layer whose biases, one for each step and sample, come with the taps."""
        x, *weights, b_ih, b_hh, h0, c0 = given
        sites, taps = (self._next(), self._next()), iter(self._taps[len(self.inputs) :])
        if not any(sites):
            out: tuple[Tensor, Tensor] = unwatched(mode, *given)
            return out
        b_ih, b_hh = (b.expand(*x.shape[:2], -1) for b in (b_ih, b_hh))
        b_ih, b_hh = (
            b + next(taps).transpose(0, 1) if site else b for b, site in zip((b_ih, b_hh), sites, strict=True)
        )
        h, c = unwatched(mode, x, *weights, b_ih, b_hh, h0, c0)
        before = torch.cat([h0[None], h[:-1]])
        self.inputs += [seen.transpose(0, 1) for seen, site in zip((x, before), sites, strict=True) if site]
        return h, c


def tapped(
    model: FlatModel,
    theta: Leaves,
    x: Tensor,
    cotangents: Callable[[Tensor], Tensor],
    calls: Sequence[Site | None],
    power: Power,
) -> dict[int, Part]:
    """Sums over samples of powers of their gradients, for the leaves that taps cover.

    Args:
        model: in evaluation mode.
        theta: one client's leaves.
        x: [B, ...] inputs.
        cotangents: gives, for logits [B, C], the gradients [K, B, C] of K losses of every sample in them.
        calls: of layers' functions, in order.
        power: of every sample's and loss's gradient.

    Returns:
        the sums by leaf.
    """
    sites = [site for site in calls if site]
    if not sites:
        return {}

    def forward(taps: Leaves) -> tuple[Tensor, Leaves]:
        mode = Taps(calls, taps)
        with mode:
            logits = model.logits(theta, x)
        assert len(mode.inputs) == len(sites)
        return logits, tuple(mode.inputs)

    taps = tuple(theta[0].new_zeros(len(x), *site.shape) for site in sites)
    logits, pull, inputs = cast(
        "tuple[Tensor, Callable[[Tensor], tuple[Leaves]], Leaves]", torch.func.vjp(forward, taps, has_aux=True)
    )
    v = cotangents(logits)
    if len(v) == 1:
        outputs = tuple(d[None] for d in pull(v[0])[0])
    else:
        (outputs,) = torch.func.vmap(pull)(v)
    found: dict[int, Part] = {}
    for site, seen, d in zip(sites, inputs, outputs, strict=True):
        parts = _parts(site, seen, d, power)
        found.update(((leaf, _transposed(part)) for leaf, part in parts) if site.tokens else parts)
    return found


def _transposed(part: Part) -> Part:
    return part.mT if isinstance(part, Tensor) else (part[1].mT, part[0].mT)


def powered(t: Tensor, power: Power) -> Tensor:
    """Squares or absolute values."""
    return t.square() if power == "square" else t.abs()


def _parts(site: Site, x: Tensor, d: Tensor, power: Power) -> Iterator[tuple[int, Part]]:
    """Sums over samples of powers of the gradients of a layer's leaves.

    Args:
        site: the layer's call.
        x: [B, ...] its input; GroupNorm's is normalised.
        d: [K, B, ...] the gradients of K losses in its output.
        power: of every sample's and loss's gradient.
    """
    if site.positions is None:
        d, x = d.reshape(*d.shape[:3], -1), x.reshape(*x.shape[:2], -1)
        if site.weight is not None:
            yield site.weight, powered((d * x).sum(-1), power).sum((0, 1))
        if site.bias is not None:
            yield site.bias, powered(d.sum(-1), power).sum((0, 1))
        return
    if site.window:
        d, x = d.flatten(3), _patches(x, site.window).mT
    else:
        d, x = d.reshape(*d.shape[:2], -1, d.shape[-1]).mT, x.reshape(len(x), -1, x.shape[-1])
    # now d is [K, B, out, positions], x [B, positions, in]
    if site.bias is not None:
        yield site.bias, powered(d.sum(-1), power).sum((0, 1))
    if site.weight is None:
        return
    if site.positions == 1:  # |d x|^p = |d|^p |x|^p
        yield site.weight, (powered(d[..., 0], power).sum(0).mT, powered(x[:, 0], power))
    else:
        yield site.weight, powered(d @ x, power).sum((0, 1))


def _patches(x: Tensor, window: Window) -> Tensor:
    """What a convolution multiplies its weight by, [B, channels * kernel, positions]."""
    if any(window.padding):
        x = _padded(x, window.padding)
    for dim, size, stride, dilation in zip((2, 3), window.kernel, window.stride, window.dilation, strict=True):
        x = x.unfold(dim, (size - 1) * dilation + 1, stride)[..., ::dilation]
    return x.permute(0, 1, 4, 5, 2, 3).flatten(1, 3).flatten(2)


@torch.library.custom_op("fl_ddp::padded", mutates_args=())
def _padded(x: Tensor, padding: Sequence[int]) -> Tensor:
    """Zeros around images, by an operator that Inductor cannot fuse: patches would test every pixel's place again."""
    return F.pad(x, padding)


@_padded.register_fake
def _(x: Tensor, padding: Sequence[int]) -> Tensor:
    return F.pad(x, padding)


@_padded.register_vmap
def _(info: object, in_dims: tuple[int, None], x: Tensor, padding: Sequence[int]) -> tuple[Tensor, int]:
    return _padded(x.movedim(in_dims[0], 0), padding), 0
