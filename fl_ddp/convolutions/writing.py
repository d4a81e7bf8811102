"""What a compiler pass finds of lanes' convolutions in a graph, and how it writes nodes in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import fx
from torch._ops import OpOverload
from torch._subclasses import FakeTensor

from fl_ddp.convolutions.forms import Geometry

_aten = torch.ops.aten


class Found(NamedTuple):
    """A convolution in a graph, or its gradient.

    Attributes:
        images: [B, G * C, H, W].
        filters: [G * O, C, kh, kw].
        geometry: of the convolution.
        groups: G.
    """

    images: fx.Node
    filters: fx.Node
    geometry: Geometry
    groups: int

    @property
    def kernel(self) -> tuple[int, int]:
        """Height and width of a filter."""
        height, width = self.filters.meta["val"].shape[2:]
        return height, width

    @property
    def sides(self) -> tuple[int, int]:
        """Height and width of the outputs."""
        height, width = self.images.meta["val"].shape[2:]
        return self.geometry.size((height, width), self.kernel)

    @property
    def outs(self) -> int:
        """O, the filters of a lane."""
        return len(self.filters.meta["val"]) // self.groups

    @property
    def lists(self) -> list[list[int]]:
        """The geometry as operators have it."""
        return [list(each) for each in self.geometry]


def found(
    x: fx.Node,
    w: fx.Node,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _: Sequence[int],
    groups: int,
) -> Found | None:
    """A convolution of a graph by its arguments, if it is of images and of several lanes."""
    if groups == 1 or transposed or x.meta["val"].ndim != 4:
        return None
    return Found(x, w, Geometry.of(stride, padding, dilation), groups)


class Writer:
    """Writes nodes into a graph, before one that is there, with what the compiler wants to know of them."""

    def __init__(self, graph: fx.Graph, before: fx.Node, groups: int) -> None:
        self._graph, self._before, self._groups = graph, before, groups

    def call(self, target: OpOverload, *args: object, **options: object) -> fx.Node:
        """A call of an operator."""
        values = [each.meta["val"] if isinstance(each, fx.Node) else each for each in args]
        mode = next(each.fake_mode for each in values if isinstance(each, FakeTensor))
        with mode, self._graph.inserting_before(self._before):
            node = self._graph.call_function(target, args, options)  # type: ignore[arg-type]
            node.meta["val"] = target(*values, **options)
        return node

    def stored(self, part: fx.Node) -> fx.Node:
        """A part in the order of its dimensions; a clone, so that what computes it writes it so."""
        return self.call(_aten.clone.default, part, memory_format=torch.contiguous_format)

    def apart(self, images: fx.Node) -> fx.Node:
        """Images [B, G * C, H, W] as [G, B, C, H, W], one lane behind another in memory."""
        batch, channels, *sides = images.meta["val"].shape
        split = self.call(_aten.reshape.default, images, [batch, self._groups, channels // self._groups, *sides])
        return self.stored(self.call(_aten.permute.default, split, [1, 0, 2, 3, 4]))

    def together(self, images: fx.Node) -> fx.Node:
        """Images [G, B, C, H, W] as [B, G * C, H, W]."""
        groups, batch, channels, *sides = images.meta["val"].shape
        turned = self.call(_aten.permute.default, images, [1, 0, 2, 3, 4])
        return self.call(_aten.reshape.default, turned, [batch, groups * channels, *sides])

    def in_pieces(self, images: fx.Node, pieces: int, order: Sequence[int]) -> fx.Node:
        """Images [B, G * C, H, W] as [S, B / S, G, C, H, W] in another order of dimensions."""
        batch, channels, *sides = images.meta["val"].shape
        shape = [pieces, batch // pieces, self._groups, channels // self._groups, *sides]
        return self.call(_aten.permute.default, self.call(_aten.reshape.default, images, shape), [*order])

    def whole(self, images: fx.Node) -> fx.Node:
        """Images [G, S, C, B / S, H, W] as [B, G * C, H, W]."""
        groups, pieces, channels, batch, *sides = images.meta["val"].shape
        turned = self.call(_aten.permute.default, images, [1, 3, 0, 2, 4, 5])
        return self.call(_aten.reshape.default, turned, [pieces * batch, groups * channels, *sides])

    def summed(self, parts: Sequence[fx.Node]) -> fx.Node:
        """The sum of parts, in their order."""
        total = parts[0]
        for part in parts[1:]:
            total = self.call(_aten.add.Tensor, total, part)
        return total

    def filters(self, w: fx.Node) -> fx.Node:
        """Filters [G * O, C, kh, kw] as [G, O, C, kh, kw]."""
        out, *sizes = w.meta["val"].shape
        return self.call(_aten.reshape.default, w, [self._groups, out // self._groups, *sizes])
