"""A compiler pass: lanes' convolutions in the form that is fastest, models untouched.

vmap turns a convolution of lanes with weights of their own into one with a group for each lane. The pass puts operators
of ours in its place on a CPU, and in that of its gradients, which see lanes as a dimension of their own; on a GPU it
puts matrix products there.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files

from fl_ddp.convolutions import lane_by_lane as lane_by_lane  # registers the operators
from fl_ddp.convolutions import products
from fl_ddp.convolutions.forms import form
from fl_ddp.convolutions.writing import Found, Writer, found

_aten, _ours = torch.ops.aten, torch.ops.fl_ddp


class ChooseForms(CustomGraphPass):
    """The pass, as Inductor's post-grad hook takes it.

    Attributes:
        products: whether convolutions on CUDA, in float32, are matrix products; cuDNN's grouped ones else.
    """

    def __init__(self, products: bool = True) -> None:
        self.products = products

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        met: dict[Found, fx.Node] = {}  # patches that are written down before a node
        for node in [*graph.nodes]:
            if node.target is _aten.convolution.default:
                x, w, bias, *rest = node.args
                if bias is None and (layer := found(x, w, *rest)):
                    self._forward(graph, node, layer, met)
            elif node.target is _aten.convolution_backward.default:
                dy, x, w, _, *rest, mask = node.args
                if not mask[2] and (layer := found(x, w, *rest)):
                    self._backward(graph, node, dy, layer, met)
        graph.eliminate_dead_code()
        graph.lint()

    def uuid(self) -> bytes:
        """What compiled graphs are cached by, beside the graph itself."""
        files = tuple(str(file) for file in sorted(Path(__file__).parent.glob("*.py")))
        return get_hash_for_files(files, f"{self.products} {products.in_ieee()}")

    def _forward(self, graph: fx.Graph, node: fx.Node, layer: Found, met: dict[Found, fx.Node]) -> None:
        write = Writer(graph, node, layer.groups)
        if _is_slow_on_a_cpu(layer):
            given = write.apart(layer.images), write.filters(layer.filters)
            y = write.together(write.call(_ours.convolve.default, *given, *layer.lists))
        elif self.products and products.goes_forward(layer):
            met[layer] = products.patches(write, layer)
            y = products.outputs(write, layer, met[layer])
        else:
            return
        node.replace_all_uses_with(y)
        graph.erase_node(node)

    def _backward(self, graph: fx.Graph, node: fx.Node, dy: fx.Node, layer: Found, met: dict[Found, fx.Node]) -> None:
        write = Writer(graph, node, layer.groups)
        if _is_slow_on_a_cpu(layer):
            _replace_backward(graph, node, dy, layer, write)
        elif self.products and products.goes_forward(layer):
            ways = products.goes_back(layer), True
            parts = [part for part in node.users if part.users and ways[part.args[1]]]  # type: ignore[index]
            if not parts:
                return
            given = products.by_lane(write, dy, layer)
            for part in parts:
                if part.args[1] == 0:
                    gradient = products.images_gradient(write, given, layer)
                else:
                    patches = met.get(layer) or products.patches(write, layer)
                    gradient = products.filters_gradient(write, given, layer, patches)
                part.replace_all_uses_with(gradient)
                graph.erase_node(part)
            mask: list[bool] = [*node.args[-1]]  # type: ignore[misc]
            mask = [asked and not way for asked, way in zip(mask, (*ways, False), strict=True)]
            node.args = (*node.args[:-1], mask)
            node.meta["val"] = tuple(t if asked else None for t, asked in zip(node.meta["val"], mask, strict=True))


def _is_slow_on_a_cpu(layer: Found) -> bool:
    """Whether a convolution is on a CPU and better in another form than vmap's."""
    images, filters = layer.images.meta["val"], layer.filters.meta["val"]
    if images.device.type != "cpu":
        return False
    x_lanes = images.reshape(len(images), layer.groups, -1, *images.shape[2:]).transpose(0, 1)
    w_lanes = filters.reshape(layer.groups, -1, *filters.shape[1:])
    return form(x_lanes, w_lanes, layer.geometry) != "grouped"


def _replace_backward(graph: fx.Graph, node: fx.Node, dy: fx.Node, layer: Found, write: Writer) -> None:
    given = (*map(write.apart, (dy, layer.images)), write.filters(layer.filters), *layer.lists)
    for part in [*node.users]:
        if part.users and part.args[1] == 0:
            part.replace_all_uses_with(write.together(write.call(_ours.convolve_input.default, *given)))
        elif part.users and part.args[1] == 1:
            dw = write.call(_ours.convolve_weight.default, *given)
            shape = [*layer.filters.meta["val"].shape]
            part.replace_all_uses_with(write.call(_aten.reshape.default, dw, shape))
        graph.erase_node(part)
    graph.erase_node(node)
