"""Compiled functions: their own caches, shared by threads; and the pass that adds an SGD step in the matrix product."""

from __future__ import annotations

import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.profiler import ProfilerActivity, profile
from torch.utils import _triton

from fl_ddp.compiler import compilation
from fl_ddp.compiler.compilation import compiled, holds_cuda, layout, require_compiler
from fl_ddp.compiler.fused_update import FuseUpdate
from fl_ddp.compiler.repeated import in_a_row
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.host.stopwatch import Stopwatch

G, ROWS, COLUMNS, BATCH = 3, 17, 29, 5
THREADS = ThreadPoolExecutor(3)
"""As workers, they stay: torch 2.11 crashes when it compiles after a thread that has compiled is gone."""


@pytest.mark.slow
def test_functions_of_one_closure_do_not_share_torchs_limit_of_graphs() -> None:
    def adding(n: int) -> Callable[[Tensor], Tensor]:
        return lambda x: x + n

    with torch._dynamo.config.patch(recompile_limit=1):
        assert [int(compiled(adding(n), "it")(torch.zeros(()))) for n in range(3)] == [0, 1, 2]


def test_threads_that_come_first_together_compile_once() -> None:
    torch._dynamo.utils.counters.clear()

    def wave(x: Tensor) -> Tensor:
        return (x * 3 + 1).sin()

    run = compiled(wave, "it")
    together = threading.Barrier(3)
    results: list[Tensor] = []

    def call() -> None:
        together.wait()
        results.append(run(torch.ones(7)))

    for done in [THREADS.submit(call) for _ in range(3)]:
        done.result()
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    assert len(results) == 3 and all(torch.equal(r, results[0]) for r in results)


def test_later_calls_do_not_search_for_what_was_compiled() -> None:
    """Which takes 35 us: what was found outlives torch's own record of it."""
    factor = 3

    def wave(x: Tensor, more: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        return (x * factor + BATCH).sin(), more["y"].cos()

    run = compiled(wave, "it")
    for x in (torch.ones(7), torch.arange(7.0)):
        with torch.compiler.set_stance("default" if x[0] else "fail_on_recompile"):
            found = run(x, {"y": x})
        assert all(map(torch.allclose, found, wave(x, {"y": x})))
        torch._dynamo.reset()


def test_first_calls_and_what_they_import_are_timed_as_compiling() -> None:
    def wave(x: Tensor) -> Tensor:
        return (x * 5 + 1).sin()

    watch, calls = Stopwatch(), list[dict[str, float]]()
    with watch.phase("training"):
        run = compiled(wave, "it")
    for _ in range(2):
        with watch.phase("training"):
            run(torch.ones(7))
        calls.append(watch.lap())
    first, second = calls
    assert first["compiling"] > first["training"] > 0 == second["compiling"] < second["training"]


def test_layout_tells_shapes_strides_and_types_apart() -> None:
    x = torch.zeros(4, 4)
    others = [torch.zeros(4, 3), x.double(), torch.zeros(4, 8)[:, ::2], {"x": x}, (x, x)]
    assert len({layout((each,)) for each in [x, *others]}) == 6
    assert layout((x,)) == layout((torch.ones(4, 4),))


def test_what_is_on_a_gpu_is_found_wherever_it_is_given() -> None:
    with FakeTensorMode():
        there = torch.empty(2, device="cuda")
    here = torch.ones(1)
    assert holds_cuda(({"theta": (here, there)}, 3)) and holds_cuda((here, there))
    assert not holds_cuda(({"theta": (here,)}, here, None))


def plain(theta: Tensor, d: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    theta.copy_(torch.where(active[:, None, None], theta - lr * (d.mT @ x), theta))


def with_penalty(theta: Tensor, d: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    theta.copy_(torch.where(active[:, None, None], theta - lr * (d.mT @ x + 0.1 * theta), theta))


def to_another(theta: Tensor, d: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    theta.copy_(torch.where(active[:, None, None], theta - lr * (d.mT @ x), -theta))


@pytest.mark.parametrize(("step", "fused"), [(plain, True), (with_penalty, False), (to_another, False)])
def test_only_a_plain_step_is_added_by_the_product_and_equals_eager(
    step: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], None], fused: bool
) -> None:
    torch.manual_seed(0)  # noqa: TID251
    given = torch.randn(G, BATCH, ROWS), torch.randn(G, BATCH, COLUMNS), torch.tensor([True, False, True])
    lr = torch.tensor(0.3)
    eager = torch.randn(G, ROWS, COLUMNS)
    theta, before = eager.clone(), eager.clone()
    step(eager, *given, lr)
    run = compiled(step, "it")
    run(theta.clone(), *given, lr)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        run(theta, *given, lr)
    calls = Counter(event.name for event in seen.events() or [])
    assert (calls["aten::baddbmm_"] > 0) is fused
    # one rounding of a product of five terms, in another place
    torch.testing.assert_close(theta, eager, rtol=1e-6, atol=1e-6)
    if step is plain:
        assert torch.equal(theta[1], before[1])


def test_the_pass_leaves_a_product_that_is_used_twice() -> None:
    graph = fx.Graph()
    node = {name: graph.placeholder(name) for name in ("theta", "a", "b", "active", "lr")}
    for name, each in node.items():
        each.meta["val"] = torch.zeros(()) if name == "lr" else torch.zeros(1, 1, 1)
    aten = torch.ops.aten
    product = graph.call_function(aten.bmm.default, (node["a"], node["b"]))
    change = graph.call_function(aten.mul.Tensor, (node["lr"], product))
    moved = graph.call_function(aten.sub.Tensor, (node["theta"], change))
    new = graph.call_function(aten.where.self, (node["active"], moved, node["theta"]))
    graph.call_function(aten.copy_.default, (node["theta"], new))
    graph.output((product,))
    FuseUpdate()(graph)
    assert [n.target for n in graph.nodes if n.op == "call_function"][-1] is aten.copy_.default


def test_long_compiling_is_told_and_short_is_not(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def double(x: Tensor) -> Tensor:
        return x * 2 + 5

    caplog.set_level("INFO", "fl_ddp")
    compiled(double, "the first")(torch.ones(3))
    monkeypatch.setattr(compilation, "SILENCE", 0.0)
    run = compiled(double, "the second")
    run(torch.ones(3))
    run(torch.ones(3))
    told = [record.getMessage() for record in caplog.records if record.name.startswith("fl_ddp")]
    assert told[0] == "compiling the second ..." and len(told) == 2
    assert told[1].startswith("the second is compiled (")


def test_what_cannot_be_compiled_says_so_and_what_fails_by_itself_fails_as_it_does() -> None:
    def breaks_the_graph(x: Tensor) -> Tensor:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(RunError, match=r"the step cannot be compiled \(.*\); --compile false runs it as it is"):
        compiled(breaks_the_graph, "the step")(torch.ones(3))

    with pytest.raises(RunError, match=r"the branching step cannot be compiled \(.*\); --compile false runs"):
        compiled(breaks_the_graph, "the branching step")(torch.ones(3))

    def branches(x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x

    line = branches.__code__.co_firstlineno + 1
    message = rf"test_compilation.py:{line}: the step cannot be compiled \(.*\); torch.where does"
    with pytest.raises(RunError, match=message):
        compiled(branches, "the step")(torch.ones(3))

    def fails(x: Tensor) -> Tensor:
        return x + {"a": 1}["b"]

    with pytest.raises(KeyError, match="b"):
        compiled(fails, "the step")(torch.ones(3))


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA out of memory."), RuntimeError("Triton Error [CUDA]: out of memory")]
)
def test_too_little_memory_in_the_first_call_is_no_compilers_failure(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []

    def without_room(*_: object, **__: object) -> Callable[..., object]:
        def fail(x: Tensor) -> Tensor:
            raise error

        return fail

    def step(x: Tensor) -> Tensor:
        ran.append(len(x))
        return x

    monkeypatch.setattr(torch, "compile", without_room)
    with pytest.raises(RuntimeError, match="out of memory"):
        compiled(step, "the step")(torch.ones(3))
    assert not ran, "it may write into what it is given"


def test_what_triton_needs_is_asked_for_before_a_run_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(words: str) -> None:
        with pytest.raises(ConfigError, match=rf"--compile: true needs {words}.*, or give --compile false"):
            require_compiler("cuda")

    for name in ("gcc", "Python.h"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(_triton, "has_triton_package", lambda: True)
    monkeypatch.setattr(sysconfig, "get_paths", lambda _: {"include": str(tmp_path)})
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    require_compiler("cuda")
    monkeypatch.setenv("CC", "no-such-cc")
    refused("a C compiler for Triton, and no-such-cc .* install gcc")
    monkeypatch.delenv("CC")
    (tmp_path / "Python.h").unlink()
    refused("Python's headers for Triton, .*Python.h is not here; install python3-dev")
    (tmp_path / "gcc").unlink()
    refused("a C compiler for Triton, and gcc or clang is not here")
    monkeypatch.setattr(_triton, "has_triton_package", lambda: False)
    refused("Triton, which this build of torch came without; pip install triton")


def test_what_a_cpu_compiles_with_is_asked_for_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_compiler("cpu")
    monkeypatch.setattr(sysconfig, "get_paths", lambda _: {"include": str(tmp_path)})
    with pytest.raises(ConfigError, match=r"Python's headers for C\+\+, .*Python.h is not here; install python3-dev"):
        require_compiler("cpu")


def test_an_operator_that_fails_in_a_row_says_why() -> None:
    """The C++ wrapper would say that a call of the dispatcher failed, or one of the allocator."""

    @torch.library.custom_op("fl_ddp_tests::up_to_four", mutates_args=())
    def up_to_four(x: Tensor) -> Tensor:
        if int(x) > 4:
            raise ValueError("five is too many")
        return x.clone()

    up_to_four.register_fake(torch.empty_like)

    def step(total: Tensor, number: Tensor) -> None:
        total.add_(up_to_four(number))
        number.add_(1)

    run = compiled(step, "the step", repeats=True)
    total, number = torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)
    run(total, number)
    with in_a_row(3):
        run(total, number)
    assert (int(total), int(number)) == (0 + 1 + 2 + 3, 4)
    with pytest.raises(ValueError, match="five is too many"), in_a_row(9):
        run(total, number)


def test_others_run_python_while_a_kernel_runs() -> None:
    """Inductor's kernels would keep Python's lock: one of a fifth of a second and more, in which nobody else ticks."""

    def slow(x: Tensor) -> Tensor:
        for _ in range(8):
            x = x.sin().exp()
        return x

    run, x, done = compiled(slow, "it"), torch.ones(10**7), threading.Event()
    run(x)

    def work() -> None:
        run(x)
        done.set()

    ticks, began = 0, THREADS.submit(work)
    while not done.wait(0.002):
        ticks += 1
    began.result()
    assert ticks > 20


def test_a_kernel_that_fails_gives_the_lock_back() -> None:
    def look_up(table: Tensor, places: Tensor) -> Tensor:
        return table[places] * 1

    run = compiled(look_up, "it")
    table = torch.arange(5.0)
    assert run(table, torch.tensor([0, 4])).tolist() == [0, 4]
    for _ in range(2):
        with pytest.raises((RuntimeError, IndexError), match="out of bounds"):
            run(table, torch.tensor([0, 9]))
    assert run(table, torch.tensor([1, 2])).tolist() == [1, 2]


def test_two_that_compile_at_once_are_both_beside_python() -> None:
    from torch._inductor.codecache import CppPythonBindingsCodeCache as Bindings

    before, first = Bindings.call_entry_function, threading.Event()
    seen: list[str] = []

    def one() -> None:
        with compilation._beside_python():
            first.set()
            time.sleep(0.05)

    def other() -> None:
        first.wait()
        with compilation._beside_python():
            done.result()
            seen.append(Bindings.call_entry_function)

    done = THREADS.submit(one)
    THREADS.submit(other).result()
    assert seen == [compilation._CALL_UNLOCKED] and Bindings.call_entry_function == before
