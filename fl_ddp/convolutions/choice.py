"""A compiler pass: lanes' convolutions in the form that is fastest, models untouched.

vmap turns a convolution of lanes with weights of their own into one with a group for each lane. The pass puts operators
of ours in its place and in that of its gradients, which see lanes as a dimension of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._ops import OpOverload
from torch._subclasses import FakeTensor

from fl_ddp.convolutions import lane_by_lane as lane_by_lane  # registers the operators
from fl_ddp.convolutions.forms import Geometry, form

_aten, _ours = torch.ops.aten, torch.ops.fl_ddp


class _Found(NamedTuple):
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


class ChooseForms(CustomGraphPass):
    """The pass, as Inductor's post-grad hook takes it.

    Attributes:
        in_triton: whether convolutions on CUDA, in float32, are those of in_triton; cuDNN's grouped ones if not.
    """

    def __init__(self, *, in_triton: bool = False) -> None:
        self.in_triton = in_triton
        if in_triton:
            from fl_ddp.convolutions.in_triton import register  # needs Triton, which a CPU's build of torch lacks

            register()

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        for node in graph.find_nodes(op="call_function", target=_aten.convolution.default):
            x, w, bias, *rest = node.args
            if bias is None and (found := self._slow(x, w, *rest)):
                _replace_forward(graph, node, found)
        for node in graph.find_nodes(op="call_function", target=_aten.convolution_backward.default):
            dy, x, w, _, *rest, mask = node.args
            if not mask[2] and (found := self._slow(x, w, *rest)):
                _replace_backward(graph, node, dy, found)
        graph.eliminate_dead_code()
        graph.lint()

    def uuid(self) -> bytes:
        """What compiled graphs are cached by, beside the graph itself."""
        files = tuple(str(file) for file in sorted(Path(__file__).parent.glob("*.py")))
        return get_hash_for_files(files, str(self.in_triton))

    def _slow(
        self,
        x: fx.Node,
        w: fx.Node,
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        transposed: bool,
        _: Sequence[int],
        groups: int,
    ) -> _Found | None:
        """A convolution, if it is of images, of several lanes, and better in another form than vmap's."""
        images, filters = x.meta["val"], w.meta["val"]
        if groups == 1 or transposed or images.ndim != 4:
            return None
        geometry = Geometry.of(stride, padding, dilation)
        x_lanes = images.reshape(len(images), groups, -1, *images.shape[2:]).transpose(0, 1)
        w_lanes = filters.reshape(groups, -1, *filters.shape[1:])
        if images.device.type == "cpu":
            ours = form(x_lanes, w_lanes, geometry) != "grouped"
        else:
            ours = self.in_triton and images.device.type == "cuda" and images.dtype == torch.float32
        return _Found(x, w, geometry, groups) if ours else None


class _Writer:
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

    def apart(self, images: fx.Node) -> fx.Node:
        """Images [B, G * C, H, W] as [G, B, C, H, W], one lane behind another in memory."""
        batch, channels, *sides = images.meta["val"].shape
        split = self.call(_aten.reshape.default, images, [batch, self._groups, channels // self._groups, *sides])
        turned = self.call(_aten.permute.default, split, [1, 0, 2, 3, 4])
        # cloned rather than permuted alone: the producer then writes it so
        return self.call(_aten.clone.default, turned, memory_format=torch.contiguous_format)

    def together(self, images: fx.Node) -> fx.Node:
        """Images [G, B, C, H, W] as [B, G * C, H, W]."""
        groups, batch, channels, *sides = images.meta["val"].shape
        turned = self.call(_aten.permute.default, images, [1, 0, 2, 3, 4])
        return self.call(_aten.reshape.default, turned, [batch, groups * channels, *sides])

    def filters(self, w: fx.Node) -> fx.Node:
        """Filters [G * O, C, kh, kw] as [G, O, C, kh, kw]."""
        out, *sizes = w.meta["val"].shape
        return self.call(_aten.reshape.default, w, [self._groups, out // self._groups, *sizes])


def _replace_forward(graph: fx.Graph, node: fx.Node, found: _Found) -> None:
    write = _Writer(graph, node, found.groups)
    y = write.call(_ours.convolve.default, write.apart(found.images), write.filters(found.filters), *_lists(found))
    node.replace_all_uses_with(write.together(y))
    graph.erase_node(node)


def _replace_backward(graph: fx.Graph, node: fx.Node, dy: fx.Node, found: _Found) -> None:
    write = _Writer(graph, node, found.groups)
    given = (*map(write.apart, (dy, found.images)), write.filters(found.filters), *_lists(found))
    for part in [*node.users]:
        if part.users and part.args[1] == 0:
            part.replace_all_uses_with(write.together(write.call(_ours.convolve_input.default, *given)))
        elif part.users and part.args[1] == 1:
            dw = write.call(_ours.convolve_weight.default, *given)
            shape = [*found.filters.meta["val"].shape]
            part.replace_all_uses_with(write.call(_aten.reshape.default, dw, shape))
        graph.erase_node(part)
    graph.erase_node(node)


def _lists(found: _Found) -> list[list[int]]:
    return [list(each) for each in found.geometry]
