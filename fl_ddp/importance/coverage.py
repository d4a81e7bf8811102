"""Which parameters of a model taps cover.

A parameter is covered only if one call of one function that there is a rule for uses it, as weight or bias, and if the
squares that come out agree, in float64, with those of a plain loop over samples. All others are found by vmap(grad), as
are all of a model that calls its layers sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from fl_ddp.compiler.compilation import made_once
from fl_ddp.errors import ConfigError
from fl_ddp.importance.taps import EMBEDDING, GROUP_NORM, LAYERS, LINEAR, Site, Window, read_call, tapped
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.recurrence import WatchesLayers, unwatched
from fl_ddp.protocol import Leaves

_SAMPLES = 3
"""Samples of the check."""
_MOST_TOKENS = 256
"""Of an embedding that taps cover, such as characters; of words, rows of zeros and a one cost more than they save."""
_TRIALS = 4
"""Parameters to try for the check until no gradient is 0, which would tell nothing."""


class Coverage(NamedTuple):
    """How per-sample gradients of a model's leaves are found.

    Attributes:
        calls: of layers' functions in the order of a forward pass; None where nothing is tapped.
        others: leaves that taps do not cover.
        largest: numbers that one sample's largest temporary takes.
    """

    calls: tuple[Site | None, ...]
    others: tuple[int, ...]
    largest: int


@made_once
def coverage(model: FlatModel, sample_shape: tuple[int, ...]) -> Coverage:
    """Find out which leaves taps cover for samples of one shape.

    Leaves that logits do not depend on need nothing, and running statistics have no gradient that counts.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.rand((_SAMPLES, *sample_shape), generator=generator).to(model.device, torch.float64)
    v = torch.randn((_SAMPLES, model.num_classes), generator=generator).to(x)
    x = (x * model.num_tokens).long() if model.num_tokens else x
    every = set(range(len(model.names))) - set(model.running)
    try:
        double = model.in_float64(x[:1])
    except ConfigError:  # it works in its own type only
        return _coverage(model, (), every)
    assert double.shapes == model.shapes
    for _ in range(_TRIALS):
        # away from an initial state in which gradients may vanish
        noise = torch.randn(model.num_params, generator=generator).to(v) * double.mask(tuple(sorted(every)))
        theta = tuple(leaf.contiguous() for leaf in double.leaves(double.init() + 0.1 * noise))
        slow = _by_loop(double, theta, x, v)
        if all(g is None or g.any() for g in slow):
            break
    needed = {leaf for leaf in every if slow[leaf] is not None}
    seen, of_fewer = _uses(double, theta, x), _uses(double, theta, x[1:])
    if len(seen.calls) != len(of_fewer.calls):
        return _coverage(model, (), needed)
    calls = _only(seen.calls, {leaf for leaf in needed if seen.uses[leaf] == 1})
    with torch.no_grad():
        fast = tapped(double, theta, x, lambda logits: (v * logits.sin())[None], calls, "square")
    covered = {leaf for leaf, part in fast.items() if _agree(part, slow[leaf])}
    return _coverage(model, _only(calls, covered), needed - covered)


def _uses(model: FlatModel, theta: Leaves, x: Tensor) -> _Uses:
    seen = _Uses(theta)
    with torch.no_grad(), seen:
        model.logits(theta, x)
    return seen


class _Uses(WatchesLayers):
    """Counts where leaves are used.

    Attributes:
        uses: number of times that each leaf is given to a function.
        calls: of layers' functions; None where there is no rule.
    """

    def __init__(self, leaves: Leaves) -> None:
        super().__init__()
        self._index = {id(leaf): i for i, leaf in enumerate(leaves)}
        self.uses = [0] * len(leaves)
        self.calls: list[Site | None] = []

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Call a function and remember which leaves it was given."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        # a leaf's shape or type is no use of it
        if not isinstance(out, int | torch.Size | torch.dtype | torch.device):
            self._use(*args, *kwargs.values())
        if func in LAYERS:
            self.calls.append(self._site(func, args, kwargs, cast(Tensor, out)))
        return out

    def recurrence(self, mode: str, *given: Tensor) -> tuple[Tensor, Tensor]:
        """Call a recurrent layer, one of inputs [T, B, D] and one of hidden states, and remember its leaves."""
        with torch._C.DisableTorchFunction():
            out: tuple[Tensor, Tensor] = unwatched(mode, *given)
        self._use(*given)
        x, *weights = given[:5]
        w_ih, w_hh, b_ih, b_hh = (self._index.get(id(weight)) for weight in weights)
        steps, samples = x.shape[:2]
        for weight, bias in ((w_ih, b_ih), (w_hh, b_hh)):
            site = Site(weight, bias, (steps, len(weights[0])), steps)
            self.calls.append(site if samples == _SAMPLES else None)
        return out

    def _use(self, *given: object) -> None:
        for leaf in self._leaves_in(given):
            self.uses[leaf] += 1

    def _leaves_in(self, values: Iterable[object]) -> Iterator[int]:
        for value in values:
            if id(value) in self._index:
                yield self._index[id(value)]
            elif isinstance(value, tuple | list):
                yield from self._leaves_in(value)
            elif isinstance(value, dict):
                yield from self._leaves_in(value.values())

    def _site(self, func: object, args: Sequence[object], kwargs: Mapping[str, object], out: Tensor) -> Site | None:
        x, weight, bias, others = read_call(func, args, kwargs)
        leaves, shape = (self._index.get(id(weight)), self._index.get(id(bias))), tuple(out.shape[1:])
        if x.dim() < 2 or len(x) != _SAMPLES or len(out) != _SAMPLES:
            return None
        if func is GROUP_NORM:
            return Site(*leaves, shape, None)
        if func is LINEAR:
            return Site(*leaves, shape, out[0, ..., 0].numel())
        if func is EMBEDDING:
            assert weight is not None
            another = others.get("padding_idx") is not None or others.get("scale_grad_by_freq")
            if another or len(weight) > _MOST_TOKENS:
                return None
            return Site(*leaves, shape, x[0].numel(), tokens=len(weight))
        if x.dim() != 4 or others.get("groups", 1) != 1:
            return None
        assert weight is not None
        kernel, stride, dilation = (
            _pair(p) for p in (weight.shape[2:], others.get("stride", 1), others.get("dilation", 1))
        )
        padding = _padding(others.get("padding", 0), kernel, dilation)
        return Site(*leaves, shape, out[0, 0].numel(), Window(kernel, stride, dilation, padding))


def _pair(value: object) -> tuple[int, int]:
    """Height and width, given as one number or as a sequence."""
    height, *width = (value,) if isinstance(value, int) else cast(Sequence[int], value)
    return height, width[0] if width else height


def _padding(value: object, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int, int, int]:
    """Padding of a convolution as F.pad takes it; of an odd number for "same", the larger half is right and below."""
    if value == "same":
        height, width = (d * (k - 1) for k, d in zip(kernel, dilation, strict=True))
        return width // 2, width - width // 2, height // 2, height - height // 2
    height, width = (0, 0) if value == "valid" else _pair(value)
    return width, width, height, height


def _only(calls: Sequence[Site | None], leaves: set[int]) -> tuple[Site | None, ...]:
    """Calls without any leaves but these."""

    def kept(leaf: int | None) -> int | None:
        return leaf if leaf in leaves else None

    sites = (site and site._replace(weight=kept(site.weight), bias=kept(site.bias)) for site in calls)
    return tuple(None if site is None or site.weight is site.bias is None else site for site in sites)


def _coverage(model: FlatModel, calls: tuple[Site | None, ...], others: set[int]) -> Coverage:
    sizes = [shape.numel() for shape in model.shapes]
    # a layer that is used at one position only needs no product for every sample
    products = [sizes[s.weight] for s in calls if s and s.weight is not None and s.positions not in (None, 1)]
    tokens = [s.tokens * (s.positions or 0) for s in calls if s]
    return Coverage(calls, tuple(sorted(others)), max(1, sum(sizes[leaf] for leaf in others), *products, *tokens))


def _by_loop(model: FlatModel, theta: Leaves, x: Tensor, v: Tensor) -> list[Tensor | None]:
    """Sums over samples of squared gradients of -v cos(logits), one sample after another; None without dependence."""
    total: list[Tensor | None] = [None] * len(theta)
    for i in range(len(x)):
        leaves = tuple(leaf.detach().requires_grad_() for leaf in theta)
        with torch.enable_grad():
            loss = -(model.logits(leaves, x[i : i + 1])[0].cos() * v[i]).sum()
        for leaf, g in enumerate(torch.autograd.grad(loss, leaves, allow_unused=True)):
            if g is not None:
                before = total[leaf]
                total[leaf] = g.square() if before is None else before + g.square()
    return total


def _agree(part: Tensor | tuple[Tensor, Tensor], right: Tensor | None) -> bool:
    """Whether a sum is right to rounding, and not just nothing."""
    assert right is not None
    found = part if isinstance(part, Tensor) else part[0] @ part[1]
    return bool(right.any()) and bool((found.view_as(right) - right).abs().max() <= 1e-9 * right.max())
