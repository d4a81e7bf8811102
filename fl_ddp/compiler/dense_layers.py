"""A compiler pass: a large dense layer of lanes with few samples is computed on a GPU by kernels of its own.

With ten samples a client, such a layer takes as long as its weights take to read and write, and cuBLAS takes longer.
The pass finds products of x [G, B, I] and weights theta [G, O, I] and calls a kernel for them; and where a plain SGD
step adds its product to theta, which FuseUpdate writes, it calls one that makes the gradient in x and the step at once,
of weights that are read once. Sums are split as the layer's sizes have it, whatever lanes there are.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from fl_ddp.compiler.graph_pass import GraphPass
from fl_ddp.compiler.merge_equal import viewed, writes

LARGE = 2**20
"""Weights of a lane from which the kernels are called; they were measured with 12544 x 128, 25 and 50 lanes."""
NARROW = 64
"""Inputs or outputs below which a kernel's blocks would be empty for the most part."""
MOST = 16
"""Samples of a lane that the kernels take, a power of two from 16 on; fewer of them count as zeros."""

_aten = torch.ops.aten
_added = _aten.baddbmm_.default
_TAGS = (torch.Tag.flexible_layout,)
"""The compiler would store inputs once for each call, to be sure of their strides."""


def on_gpu(x: Tensor) -> bool:
    """Whether the kernels are made for a tensor: float32 on a GPU."""
    return x.device.type == "cuda" and x.dtype == torch.float32


@torch.library.custom_op("fl_ddp::dense_outputs", mutates_args=(), device_types="cuda", tags=_TAGS)
def dense_outputs(x: Tensor, theta: Tensor) -> Tensor:
    """Outputs [G, B, O] of inputs x [G, B, I] and weights theta [G, O, I]."""
    from fl_ddp.compiler.dense_kernel import launch_outputs  # imports Triton, which nothing else here needs

    found: Tensor = launch_outputs(x, theta, MOST, tf32=_tf32())
    return found


@dense_outputs.register_fake
def _(x: Tensor, theta: Tensor) -> Tensor:
    return x.new_empty(*x.shape[:2], theta.shape[1])


@torch.library.custom_op("fl_ddp::dense_step_", mutates_args={"theta"}, device_types="cuda", tags=_TAGS)
def dense_step(theta: Tensor, scaled: Tensor, x: Tensor, d: Tensor) -> Tensor:
    """Gradient d @ theta [G, B, I] in inputs x [G, B, I]; then theta [G, O, I] += scaled^T x, in place.

    Both d, the gradient in outputs, and scaled, what a step is of it, are [G, B, O].
    """
    from fl_ddp.compiler.dense_kernel import launch_step  # as above

    found: Tensor = launch_step(theta, scaled, x, d, MOST, tf32=_tf32())
    return found


@dense_step.register_fake
def _(theta: Tensor, scaled: Tensor, x: Tensor, d: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _tf32() -> bool:
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


class DenseLayers(GraphPass):
    """The pass, as Inductor's post-grad hook takes it; it follows FuseUpdate."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        for theta in graph.find_nodes(op="placeholder"):
            if not _is_large(theta.meta.get("val")):
                continue
            for product in _readers(theta):
                if _is_product(product, theta, turned=True):
                    with graph.inserting_before(product):
                        _put(product, torch.ops.fl_ddp.dense_outputs.default, (product.args[0], theta))
            _join(graph, theta)
        graph.eliminate_dead_code()
        graph.lint()


def _is_large(theta: object) -> bool:
    """Whether a tensor is weights [G, O, I] that the kernels are for."""
    if not isinstance(theta, Tensor) or not on_gpu(theta) or theta.ndim != 3 or not theta.is_contiguous():
        return False
    return theta.shape[1] * theta.shape[2] >= LARGE and min(theta.shape[1:]) >= NARROW


def _join(graph: fx.Graph, theta: fx.Node) -> None:
    """Let one call make the gradient in inputs and the step of theta, if the step can be taken that early."""
    place = {node: i for i, node in enumerate(graph.nodes)}
    readers = _readers(theta)
    backward = [node for node in readers if _is_product(node, theta, turned=False)]
    steps = [node for node in readers if node.target is _added and node.args[0] is theta]
    if len(backward) != 1 or len(steps) != 1:
        return
    (product,), (step,) = backward, steps
    _, scaled, x = step.args
    assert isinstance(scaled, fx.Node) and isinstance(x, fx.Node)
    if step.kwargs or x.meta["val"].shape != product.meta["val"].shape or place[step] < place[product]:
        return
    if any(place[reader] > place[product] for reader in readers if reader is not step):
        return  # it would read theta behind the step
    earlier = sorted(_needed((scaled, x), place, place[product]), key=place.__getitem__)
    if not _can_move(earlier, graph, place, place[product]):
        return
    for node in earlier:
        product.prepend(node)
    with graph.inserting_before(product):
        scaled = graph.call_function(_aten.permute.default, (scaled, [0, 2, 1]))
        _put(product, torch.ops.fl_ddp.dense_step_.default, (theta, scaled, x, product.args[0]))
    graph.erase_node(step)


def _put(product: fx.Node, operator: OpOverload, given: tuple[fx.node.Argument, ...]) -> None:
    """Call an operator in place of a product."""
    called = product.graph.call_function(operator, given)
    called.meta.update(product.meta)
    product.replace_all_uses_with(called)
    product.graph.erase_node(product)


def _is_product(node: fx.Node, theta: fx.Node, *, turned: bool) -> bool:
    """Whether a node is a product of few rows with theta [G, O, I], or with it turned, [G, I, O]."""
    if node.target is not _aten.bmm.default or node.kwargs:
        return False
    rows, matrix = node.args
    assert isinstance(rows, fx.Node) and isinstance(matrix, fx.Node)
    return bool(rows.meta["val"].shape[1] <= MOST) and _turns(matrix, theta) is turned


def _turns(node: fx.Node, theta: fx.Node) -> bool | None:
    """Whether a node is theta with its last two axes exchanged; None if it is neither that nor theta as it is."""
    turned = False
    while node is not theta:
        if (base := viewed(node)) is None:
            return None
        if node.target is _aten.permute.default and node.args[1] in ([0, 2, 1], (0, 2, 1)):
            turned = not turned
        elif node.target is not _aten.expand.default or node.meta["val"].shape != base.meta["val"].shape:
            return None
        node = base
    return turned


def _readers(node: fx.Node) -> list[fx.Node]:
    """What reads or writes a tensor, or a view of it, views aside."""
    found: dict[fx.Node, None] = {}
    for user in node.users:
        found |= dict.fromkeys(_readers(user) if viewed(user) and not writes(user) else [user])
    return list(found)


def _needed(nodes: Iterable[fx.Node], place: dict[fx.Node, int], at: int) -> set[fx.Node]:
    """What some nodes are made of, themselves too, that stands at a place or behind it."""
    found: set[fx.Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if place[node] >= at and node not in found:
            found.add(node)
            left += node.all_input_nodes
    return found


def _can_move(earlier: list[fx.Node], graph: fx.Graph, place: dict[fx.Node, int], at: int) -> bool:
    """Whether some nodes give the same at an earlier place: nothing that they read, or write, is written from there on.

    So the product is none of them: it reads weights.
    """
    between = (node for node in graph.nodes if place[node] > at and writes(node))
    written = {_memory(part) for node in between for part in _written(node)}
    return not any(written & set(map(_memory, node.all_input_nodes)) for node in earlier)


def _written(node: fx.Node) -> list[fx.Node]:
    """What an operator writes into, as far as is known; all that it is given, if nothing is."""
    if not isinstance(node.target, OpOverload):
        return node.all_input_nodes
    arguments, found = node.target._schema.arguments, list[fx.Node]()
    given = dict(zip((each.name for each in arguments), node.args, strict=False)) | node.kwargs
    for each in arguments:
        if each.alias_info is not None and each.alias_info.is_write:
            fx.map_arg(given.get(each.name), found.append)
    return found


def _memory(node: fx.Node) -> fx.Node:
    """What a node is a view of, or itself."""
    while base := viewed(node):
        node = base
    return node
