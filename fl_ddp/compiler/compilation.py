"""Compiled functions that do not count against each other."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sysconfig
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from threading import Lock, RLock, Timer
from types import FunctionType
from typing import ParamSpec, TypeVar, cast

import torch
from torch import Tensor

from fl_ddp.compiler.repeated import repeatedly
from fl_ddp.compiler.waiting_users import with_waiting_users
from fl_ddp.errors import CompilerError, ConfigError, first_line, is_users, place_of
from fl_ddp.host.device_errors import out_of_memory
from fl_ddp.host.stopwatch import while_compiling

F = TypeVar("F", bound=Callable[..., object])
P = ParamSpec("P")
Made = TypeVar("Made")

_CALL = "kernel({}); Py_RETURN_NONE;"
"""How Inductor's C++ calls a kernel, with what stands for arguments that it takes out of Python's objects."""
_CALL_UNLOCKED = """[](auto... given) {{
    struct Unlocked {{
        PyThreadState* state = PyEval_SaveThread();
        ~Unlocked() {{ PyEval_RestoreThread(state); }}  // also where the kernel throws
    }} unlocked;
    kernel(given...);
}}({}); Py_RETURN_NONE;"""
_UNLOCKING = RLock()

_ON_A_GPU: dict[str, str | int | bool | Callable[..., object]] = {
    # rather hashes a key again than keeps 64 bits of each number that dropout draws
    "realize_opcount_threshold": 300,
    # a * b + c is rounded twice, and bfloat16 wherever its type says so, whatever else a kernel does
    "emulate_precision_casts": True,
}
"""What the compiler is told beside; it makes other kernels of a step that is recorded than of one that is not."""

SILENCE = 5.0
"""Seconds of compiling after which somebody should be told."""

_PLACES = re.compile(r'File "([^"]+)", line (\d+)')
"""Lines of code in what an error says."""

_log = logging.getLogger(__name__)


def compiled(
    function: F,
    what: str,
    *,
    products: bool | None = None,
    repeats: bool = False,
    channels_last: bool = True,
    half_vectors: bool = False,
    few_summands: bool = False,
) -> F:
    """Compile a function into one graph per call of this, with a cache of its own; on a CPU it uses one thread.

    Args:
        function: of tensors.
        what: it is, for messages.
        products: whether a GPU convolves lanes by matrix products; None where all is as torch does it, on a CPU, too.
        repeats: whether it can be called in_a_row(), on a CPU alone; it must give nothing.
        channels_last: whether the compiler may order channels so around convolutions.
        half_vectors: whether a CPU with vectors of 512 bits uses those of 256: in the longer ones, torch turns float32
            into float64 one number at a time.
        few_summands: whether it has sums of few numbers, but many such: a GPU would have a block of threads for each.

    Returns:
        the compiled function, which must be called with tensors of one layout only, and never with one tensor twice: it
        checks neither. It sees globals as they were in its first call.
    """
    with while_compiling():  # imports the compiler, which takes a second that eager runs can spare
        from fl_ddp.compiler.dense_layers import DenseLayers
        from fl_ddp.compiler.fused_update import FuseUpdate
        from fl_ddp.compiler.late_masks import LateMasks
        from fl_ddp.compiler.merge_equal import MergeEqual
        from fl_ddp.compiler.stored_keys import StoreKeys
        from fl_ddp.convolutions.choice import ChooseForms

    assert isinstance(function, FunctionType)
    # torch keeps graphs by code object and fails at the ninth: without a copy, all models would share eight
    own = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    options: dict[str, str | int | bool | Callable[..., object]] = {
        "guard_filter_fn": torch.compiler.skip_all_guards_unsafe,
        "cpp.threads": 1,
        # torch 2.11 moves the writing of a parameter before a reading of it
        "reorder_for_peak_memory": False,
        "post_grad_custom_post_pass": MergeEqual(LateMasks(), FuseUpdate(), DenseLayers(), StoreKeys()),
        "cpp_wrapper": repeats,
        "layout_optimization": channels_last,
        "triton.persistent_reductions": not few_summands,
    }
    if half_vectors and torch.backends.cpu.get_cpu_capability() == "AVX512":
        options["cpp.simdlen"] = 256
    if products is not None:
        options["post_grad_custom_pre_pass"] = ChooseForms(products)

    def begun(given: tuple[object, ...]) -> Callable[..., object]:
        more = _ON_A_GPU if holds_cuda(given) else {}
        return torch.compile(own, dynamic=False, fullgraph=True, options={**options, **more})

    run: Callable[..., object] = function
    lock, ready = Lock(), False

    def call(*given: object) -> object:
        nonlocal run, ready
        if ready:
            return run(*given)
        with lock:  # the first call compiles; other threads wait for it
            if ready:
                return run(*given)
            try:
                with _told(what), with_waiting_users(), repeatedly() if repeats else _beside_python():
                    run = begun(given)
                    result = run(*given)
            except Exception as error:
                if out_of_memory(error):  # what is not compiled may need less, and has room
                    raise
                function(*given)  # a mistake of a user's shows itself better without the compiler
                why, line = first_line(getattr(error, "inner_exception", error)), _users_line(error)
                cannot = f"{what} cannot be compiled ({why}); {_instead(why, line)}--compile false runs it as it is"
                raise CompilerError(f"{line}: {cannot}" if line else cannot) from error
            run, ready = _found(own) or run, True
            run = _telling(run, function) if repeats else run
        return result

    return cast(F, call)


def _users_line(error: Exception) -> str | None:
    """The innermost line of a user's code that the compiler stopped at, if it says so."""
    stack = [(at.filename, at.lineno) for at in getattr(error, "real_stack", None) or ()]
    told = [(file, int(line)) for file, line in _PLACES.findall(str(error))]
    return next((place_of(*at) for at in reversed(stack or told) if is_users(at[0])), None)


def _instead(why: str, line: str | None) -> str:
    """What a user's line may do in the place of what cannot be compiled, if that is known."""
    if line and "branching" in why:
        return "torch.where does what a branch is to do, and "
    if line and ("SymFloat" in why or "data-dependent" in why):
        return "a tensor, such as what a class names in coefficients, may become no number of Python's there, and "
    return ""


def _telling(run: Callable[..., object], function: Callable[..., object]) -> Callable[..., object]:
    """What was compiled by Inductor's C++ wrapper, which says of an operator's error only that there was one."""

    def call(*given: object) -> object:
        try:
            return run(*given)
        except RuntimeError:
            function(*given)  # fails of the same, and says why
            raise

    return call


def holds_cuda(given: object) -> bool:
    """Whether there is a tensor of a GPU in a nest of tuples and dictionaries."""
    if isinstance(given, Tensor):
        return given.is_cuda
    inner = given.values() if isinstance(given, dict) else given if isinstance(given, tuple) else ()
    return any(map(holds_cuda, inner))


@contextmanager
def _beside_python() -> Iterator[None]:
    """What is compiled for a CPU in a block runs without Python's lock, as torch's own operations do.

    Inductor's kernels hold it, so that workers would take turns. A torch that calls them otherwise is left as it is.
    """
    from torch._inductor.codecache import CppPythonBindingsCodeCache as Bindings  # as above

    with _UNLOCKING:
        before = Bindings.call_entry_function
        if before == _CALL:
            Bindings.call_entry_function = _CALL_UNLOCKED
        try:
            yield
        finally:
            Bindings.call_entry_function = before


def _found(function: FunctionType) -> Callable[..., object] | None:
    """What torch has compiled a function to, without the search for it, 35 us of Python in each call; None if unsure.

    Its code and globals are copies, because torch takes apart its own when the compiler is reset, or Python ends.
    """
    from torch._dynamo import eval_frame  # as above

    entries = eval_frame._debug_get_cache_entry_list(function.__code__)
    if len(entries) != 1:
        return None
    code, names = entries[0].code.replace(), dict(function.__globals__)
    return FunctionType(code, names, function.__name__, function.__defaults__, function.__closure__)


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Say that something is being compiled, if it takes long, and how long it took; it counts as compiling."""
    start = time.monotonic()
    timer = Timer(SILENCE, lambda: _log.info("compiling %s ...", what))
    timer.daemon = True
    timer.start()
    try:
        with while_compiling():
            yield
    finally:
        timer.cancel()
    if (seconds := time.monotonic() - start) >= SILENCE:
        _log.info("%s is compiled (%.0f s; less where a later run has the same)", what, seconds)


def made_once(make: Callable[P, Made]) -> Callable[P, Made]:
    """What a function makes of the same arguments, for the same arithmetic(), is made once, whoever asks."""
    lock = Lock()

    @lru_cache(maxsize=64)
    def cached(_: Hashable, *args: P.args, **kwargs: P.kwargs) -> Made:
        return make(*args, **kwargs)

    @wraps(make)
    def one_at_a_time(*args: P.args, **kwargs: P.kwargs) -> Made:
        with lock:
            return cached(arithmetic(), *args, **kwargs)  # type: ignore[arg-type]

    return one_at_a_time


def arithmetic() -> Hashable:
    """The settings of the process that compiled and recorded work has in it: under others it is another work."""
    return torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.fp32_precision


def require_compiler(device_type: str) -> None:
    """Refuse a machine without what torch compiles with: a C++ compiler for a CPU, Triton for a GPU.

    Raises:
        ConfigError: it is not there, or something that it needs.
    """
    if device_type == "cuda":
        _require_triton()
    else:
        _require_cpp()


def _require_triton() -> None:
    from torch.utils import _triton  # as above

    header, compiler = _header(), os.environ.get("CC")
    if not _triton.has_triton_package():
        lacks, install = "Triton, which this build of torch came without", "pip install triton"
    elif not any(map(shutil.which, [compiler] if compiler else ["gcc", "clang"])):
        looked_for = f"{compiler} (the environment variable CC names it)" if compiler else "gcc or clang"
        lacks, install = f"a C compiler for Triton, and {looked_for} is not here", "install gcc"
    elif not header.is_file():
        lacks, install = f"Python's headers for Triton, and {header} is not here", "install python3-dev or the like"
    else:
        return
    raise ConfigError("--compile", f"true needs {lacks}; {install}, or give --compile false")


def _header() -> Path:
    """That of Python's own C functions, where both compilers look for it."""
    scheme = sysconfig.get_default_scheme()
    return Path(sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"], "Python.h")


def _require_cpp() -> None:
    from torch._inductor import config  # as above
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, OSError) as error:
        cxx = config.cpp.cxx
        looked_for = " or ".join(filter(None, cxx if isinstance(cxx, tuple) else (cxx,)))
        raise ConfigError(
            "--compile",
            (
                f"true needs a C++ compiler, and {looked_for} (the environment variable CXX names it) "
                "does not work here; install g++, or give --compile false"
            ),
        ) from error
    if not (header := _header()).is_file():
        what = f"true needs Python's headers for C++, and {header} is not here; install python3-dev or the like"
        raise ConfigError("--compile", f"{what}, or give --compile false")


def layout(given: object) -> Hashable:
    """Shape, strides, type and place of all tensors in a nest of tuples and dictionaries."""
    if isinstance(given, Tensor):
        return given.shape, given.stride(), given.dtype, given.device
    if isinstance(given, dict):
        return tuple((name, layout(given[name])) for name in given)
    return tuple(layout(item) for item in given) if isinstance(given, tuple) else given
