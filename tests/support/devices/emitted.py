"""The code that torch's compiler emits for a GPU, of what this machine's CPU would compile; needs no GPU.

A graph is traced on CPU tensors, as it is handed to Inductor, moved to fake CUDA tensors and lowered for an H200 with
the passes and options that the engine gives; nothing is loaded and nothing runs.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from unittest import mock

import torch
from h200 import DEVICE, h200
from torch import Tensor, fx

_KERNEL = re.compile(r"async_compile\.triton\('(\w+)', '''(.*?)''', device_str='cuda'\)", re.DOTALL)
_CALL = re.compile(r"(triton_\w+)\.run\(|extern_kernels\.(\w+)\(|torch\.ops\.\w+\.(\w+)\.|\.(copy_)\(")
_TURNS = 3
"""Shifts of a hash."""
_FREE = re.compile(r"empty|as_strided|reinterpret|view")


@dataclass(frozen=True)
class Emitted:
    """Code for a GPU of one compiled function.

    Attributes:
        text: the Python module that Inductor writes.
        bytes_by: each kernel or library call must read and write, by its name.
        temporaries: numbers of elements of the buffers that the code allocates.
    """

    text: str
    bytes_by: Mapping[str, int]
    temporaries: tuple[int, ...]

    @property
    def launches(self) -> Counter[str]:
        """How often it launches a Triton kernel ("triton"), or calls a library function, by its name."""
        found: Counter[str] = Counter()
        for line in self.text[self.text.index("def call(") :].splitlines():
            if (call := _CALL.search(line)) and not line.lstrip().startswith(("assert", "def ")):
                name = "triton" if call[1] else call[2] or call[3] or call[4]
                if not _FREE.search(name):
                    found[name] += 1
        return found

    @property
    def late_reads(self) -> set[str]:
        """Inputs that are read behind what has written into them; a parameter's old value would be gone."""
        found, written = set(), set[str]()
        for line in self.text[self.text.index("def call(") :].splitlines():
            if not _CALL.search(line) or line.lstrip().startswith("def "):
                continue
            given = ast.parse(line.strip()).body[0]
            found |= written & _inputs(given)
            written |= set().union(*map(_inputs, self._written(given.value)))  # type: ignore[attr-defined]
        return found

    def _written(self, call: ast.Call) -> Iterator[ast.expr]:
        """What a call writes into."""
        yield from (keyword.value for keyword in call.keywords if keyword.arg == "out")
        match ast.unparse(call.func).split("."):
            case [kernel, "run"]:
                source = self.kernels[kernel]
                names = re.findall(r"\w+", re.findall(r"^def \w+\((.*?)\)", source, re.MULTILINE)[0])
                mutated = re.findall(r"'mutated_arg_names': \[(.*?)\]", source)[0]
                yield from (given for name, given in zip(names, call.args, strict=False) if f"'{name}'" in mutated)
            case ["torch", "ops", _, operator, _] if operator.endswith("_"):
                yield call.args[0]
            case [tensor, "copy_"]:
                yield ast.Name(tensor)

    @property
    def bytes(self) -> int:
        """What all of it must read and write; Inductor counts what is written in place as read, too."""
        return sum(self.bytes_by.values())

    @property
    def kernels(self) -> dict[str, str]:
        """Source of each Triton kernel by its name."""
        return dict(_KERNEL.findall(self.text))

    @property
    def atomics(self) -> list[str]:
        """Names of kernels that add floats in an order that nobody decides."""
        return [name for name, source in self.kernels.items() if re.search(r"tl\.atomic_add|atomic_add\(", source)]

    @property
    def fuses(self) -> list[str]:
        """Names of kernels in which a product and a sum may be rounded once, which depends on what else is in them."""
        return [name for name, source in self.kernels.items() if "'enable_fp_fusion': False" not in source]

    @property
    def hashes(self) -> list[str]:
        """Names of kernels that hash a key, too, beside the positions of the numbers that they draw."""
        return [name for name, source in self.kernels.items() if source.count(" >> ") > 2 * _TURNS and "arange" in name]

    def configurations(self) -> dict[str, int]:
        """Number of configurations that would be timed against each other, by reduction kernel."""
        return {name: len(found) for name, found in self._configurations().items()}

    def blocks(self) -> dict[str, int]:
        """Numbers that a block of threads gives, by reduction kernel; of several configurations the least."""
        return {name: min(each.kwargs["XBLOCK"] for each in found) for name, found in self._configurations().items()}

    def _configurations(self) -> dict[str, list[Any]]:
        from torch._inductor.codecache import PyCodeCache

        found: dict[str, list[Any]] = {}
        with h200():
            for name, source in self.kernels.items():
                if re.search(r"@triton_heuristics\.\w*reduction\(", source):
                    found[name] = getattr(PyCodeCache.load(source), name).configs
        return found


def _inputs(code: ast.AST) -> set[str]:
    """The compiled function's own inputs among what some code names."""
    names = {node.id for node in ast.walk(code) if isinstance(node, ast.Name)}
    return {name for name in names if name.startswith("arg")}


class _Stop(BaseException):
    """Ends what called a compiled function; no Exception, which the engine would take for a failure to compile."""


def emitted(work: Callable[[], object], *, deterministic: bool = True) -> Emitted:
    """The code of the first function that some work compiles; the work ends there.

    Args:
        work: computes on CPU tensors.
        deterministic: whether torch is told to use deterministic algorithms, as runs on a GPU tell it.
    """
    from torch._inductor import compile_fx, config

    found: list[Emitted] = []

    def lower(graph: fx.GraphModule, inputs: Sequence[object], **_: object) -> Callable[[object], object]:
        found.append(_lowered(graph, inputs))

        def run(_: object) -> object:
            raise _Stop

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    torch._dynamo.reset()
    whole = partial(compile_fx.compile_fx, inner_compile=cast(Any, lower))
    with (
        _deterministic(deterministic),
        config.patch({"fx_graph_cache": False, "compile_threads": 1}),  # no worker that compiles for no GPU
        mock.patch.object(compile_fx, "compile_fx", whole),
        suppress(_Stop),
    ):
        work()
    torch._dynamo.reset()
    assert found, "nothing was compiled"
    return found[0]


@contextmanager
def _deterministic(on: bool) -> Iterator[None]:
    before, memory = torch.are_deterministic_algorithms_enabled(), cast(Any, torch.utils.deterministic)
    filled = memory.fill_uninitialized_memory
    torch.use_deterministic_algorithms(on)
    memory.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        memory.fill_uninitialized_memory = filled


def _lowered(graph: fx.GraphModule, inputs: Sequence[object]) -> Emitted:
    """A graph lowered for the GPU by Inductor's own steps."""
    from torch._inductor import compile_fx
    from torch._inductor.fx_passes.post_grad import view_to_reshape
    from torch._inductor.graph import GraphLowering
    from torch._inductor.virtualized import V

    with h200(), torch.no_grad():
        mode, fakes = _moved(graph, inputs)
        view_to_reshape(graph)  # type: ignore[no-untyped-call]
        with V.set_fake_mode(mode):
            compile_fx._recursive_post_grad_passes(graph, is_inference=True)
            lowering = GraphLowering(graph, example_inputs=fakes, shape_env=None, is_inference=True)
            with (
                V.set_graph_handler(lowering),
                V.set_extern_kernel_nodes([]),
                V.set_debug_handler(mock.MagicMock()),
            ):
                lowering.run(*fakes)
                code: Any = lowering.codegen()[0]
                nodes = cast(Sequence[Any], lowering.scheduler.nodes)
                moved = {node.get_name(): _bytes_of(node) for node in nodes}
    text = str(getattr(code, "value", code))
    return Emitted(text, moved, tuple(_temporaries(text)))


def _bytes_of(node: Any) -> int:
    """What a node of the scheduler must read and write; versions of torch count differently what is also returned."""
    kernel = node.node
    if getattr(kernel, "op_overload", None) is not torch.ops.aten.baddbmm_.default:
        return int(node.get_read_write_buffers_sizes())
    sizes: list[int] = [int(given.get_numel()) * given.get_dtype().itemsize for given in kernel.inputs]
    return sum(sizes) + sizes[0]


def _temporaries(text: str) -> Iterator[int]:
    for shape in re.findall(r"empty_strided_cuda\(\(([\d, ]*)\)", text):
        sizes = [int(size) for size in shape.split(",") if size.strip()]
        yield int(torch.Size(sizes).numel())


def _moved(graph: fx.GraphModule, inputs: Sequence[object]) -> tuple[Any, list[object]]:
    """Move a graph to fake CUDA tensors; its mode and inputs."""
    from torch._guards import detect_fake_mode
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.passes.fake_tensor_prop import FakeTensorProp

    mode = detect_fake_mode(inputs) or FakeTensorMode(allow_non_fake_inputs=True)
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.args = tuple(DEVICE if isinstance(each, torch.device) else each for each in node.args)
            node.kwargs = {
                name: DEVICE if isinstance(each, torch.device) else each for name, each in node.kwargs.items()
            }
        node.meta.pop("val", None)
        node.meta.pop("tensor_meta", None)
    with mode:
        fakes = [
            torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device=DEVICE)
            if isinstance(each, Tensor)
            else each
            for each in inputs
        ]
    graph.recompile()
    FakeTensorProp(graph, mode).propagate_dont_convert_inputs(*fakes)
    return mode, fakes
