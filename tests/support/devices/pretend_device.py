"""A device that is only pretended, to find on a CPU what would break or wait on a GPU.

Tensors of the device `pretend:0` are wrappers of CPU tensors. All arithmetic is real, so whole runs go through, but

- an operator that mixes host and device raises, as CUDA would (a number [] of the host may be among the operands of a
  pointwise operator, as on CUDA, and is counted);
- so does one that has no form with the same bits each time;
- whatever would make the host wait is counted with the line that asked for it: item(), bool(), .cpu(), tolist(),
  nonzero, boolean masks as indices, bincount, equal, blocking uploads and tensors of the host as indices;
- uploads are counted with their bytes, operators that would launch at least one kernel as launches.

    with pretending() as seen:
        ranks = Ranks(0, 1, DEVICE)  # whatever takes a torch.device
        ...
    print(seen.table())

torch.compile does not see the device: run with compile off. Needs a PrivateUse1 backend in Python, torch 2.10 or newer.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import torch
from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "pretend"
KNOWN_TO_TORCH = hasattr(backend_registration, "_setup_privateuseone_for_python_backend")
# beside a GPU it would be torch's first accelerator, to which the host's pinned memory belongs
POSSIBLE = KNOWN_TO_TORCH and not torch.cuda.is_available()
needed = pytest.mark.skipif(
    not POSSIBLE, reason=f"torch {torch.__version__} has no device backends in Python, or this machine has a GPU"
)
"""The mark of tests that pretend."""

# operators whose CUDA kernels read a result back, and how often
_WAITING = {
    "aten::_local_scalar_dense": 1, "aten::item": 1, "aten::is_nonzero": 1, "aten::equal": 1, "aten::nonzero": 1,
    "aten::masked_select": 1, "aten::_unique": 1, "aten::_unique2": 1, "aten::unique_dim": 1,
    "aten::unique_consecutive": 1, "aten::bincount": 2, "aten::histc": 1, "aten::allclose": 1, "aten::linalg_eigh": 1,
}  # fmt: skip
# operators that CUDA refuses where the same bits are asked for each time, by torch's list of them
_UNREPEATABLE = {
    "aten::median.dim", "aten::nanmedian.dim", "aten::kthvalue", "aten::put_", "aten::histc", "aten::max_unpool2d",
    "aten::max_unpool3d", "aten::_adaptive_avg_pool2d_backward",
    "aten::_adaptive_avg_pool3d_backward", "aten::adaptive_max_pool2d_backward", "aten::avg_pool3d_backward",
    "aten::reflection_pad1d_backward", "aten::reflection_pad2d_backward", "aten::upsample_linear1d_backward",
    "aten::upsample_bilinear2d_backward", "aten::upsample_bicubic2d_backward", "aten::_ctc_loss_backward",
}  # fmt: skip
_INDEXING = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_", "aten::_unsafe_index"}
_COPIES = {"aten::_to_copy", "aten::copy_", "aten::copy"}
# no kernel behind these, though they are not all marked as views
_FREE = {
    "aten::detach", "aten::alias", "aten::lift_fresh", "aten::empty", "aten::empty_like", "aten::empty_strided",
    "aten::new_empty", "aten::new_empty_strided", "aten::_unsafe_view", "aten::sym_size", "aten::set_", "aten::view",
    "aten::_local_scalar_dense", "aten::split_with_sizes", "aten::unbind", "aten::split", "aten::_reshape_alias",
    "aten::is_pinned",
}  # fmt: skip

Named = dict[str, object]


class MixedDevicesError(RuntimeError):
    """An operator was given tensors of host and device."""


class Event(NamedTuple):
    """Something that CUDA would do: what, the operator, and the line of the watched package that asked for it."""

    kind: str
    operator: str
    where: str


class Seen:
    """What happened on the pretended device.

    Attributes:
        events: how often each event was seen.
        bytes: of the uploads and downloads, by event.
        launches: operators that launch at least one kernel, by line.
        mixed: messages of mixed devices, if they are not raised.
    """

    def __init__(self, package: str, *, strict: bool) -> None:
        """Look at lines of files whose names have the package in them."""
        self._package, self.strict = package, strict
        self.events: Counter[Event] = Counter()
        self.bytes: Counter[Event] = Counter()
        self.launches: Counter[str] = Counter()
        self.mixed: Counter[str] = Counter()

    def waits(self, where: str = "") -> int:
        """Times that the host would have waited, in lines whose names have these words."""
        found = (n for event, n in self.events.items() if event.kind.startswith("wait") and where in event.where)
        return sum(found)

    def uploads(self) -> int:
        """Copies to the device."""
        return sum(n for event, n in self.events.items() if "upload" in event.kind)

    def clear(self) -> None:
        """Forget all, between a warm-up and what is measured."""
        for counter in (self.events, self.bytes, self.launches, self.mixed):
            counter.clear()

    def note(self, kind: str, operator: str, number: int = 1, size: int = 0) -> None:
        """Count an event."""
        event = Event(kind, operator, self.where())
        self.events[event] += number
        self.bytes[event] += size

    def where(self) -> str:
        """The innermost line of the watched package."""
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if self._package in name and name != __file__:
                return f"{Path(name).name}:{frame.f_lineno} {frame.f_code.co_name}"
            frame = frame.f_back  # type: ignore[assignment]
        return "(a caller outside)"

    def table(self) -> str:
        """Events by kind, most frequent first."""
        lines = [f"{'kind':18} {'operator':24} {'n':>6} {'bytes':>12}  where"]
        for event, n in sorted(self.events.items(), key=lambda item: (item[0].kind, -item[1], item[0].where)):
            lines.append(f"{event.kind:18} {event.operator:24} {n:6d} {self.bytes[event]:12d}  {event.where}")
        return "\n".join(lines)


_seen = [Seen("fl_ddp", strict=True)]


class OnDevice(torch.Tensor):
    """A tensor of the pretended device; `host` holds its numbers."""

    host: Tensor
    __slots__ = ["host"]

    @staticmethod
    def __new__(cls, host: Tensor) -> OnDevice:
        made = torch.Tensor._make_wrapper_subclass(
            cls, host.size(), strides=host.stride(), storage_offset=host.storage_offset(), dtype=host.dtype,
            device=torch.device(NAME, 0), requires_grad=False,
        )  # fmt: skip
        made.host = host
        return made

    def __init__(self, host: Tensor) -> None:
        pass

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"OnDevice({list(self.shape)}, {self.dtype})"

    def tolist(self) -> list[Any]:
        """As CUDA does: a copy to the host first."""
        return self.cpu().tolist()

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _run(func, args, kwargs or {})


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees factories and operators of host tensors alone, too."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class Call(NamedTuple):
    """An operator that touches the device, with what it is given of either place."""

    func: Callable[..., object]
    name: str
    args: Sequence[object]
    named: Named
    ours: list[OnDevice]
    theirs: list[Tensor]
    to_device: bool
    to_host: bool


def _call(func: Callable[..., object], args: Sequence[object], named: Named) -> Call:
    flat = [leaf for leaf in pytree.tree_leaves((args, named)) if isinstance(leaf, Tensor)]
    ours = [t for t in flat if isinstance(t, OnDevice)]
    theirs = [t for t in flat if not isinstance(t, OnDevice)]
    place = named.get("device")
    to_device = isinstance(place, torch.device) and place.type == NAME
    to_host = isinstance(place, torch.device) and place.type == "cpu" and bool(ours)
    name = cast(str, func._schema.name)  # type: ignore[attr-defined]
    return Call(func, name, args, named, ours, theirs, to_device, to_host)


def _run(func: Callable[..., object], args: Sequence[object], named: Named) -> object:
    """An operator on the numbers behind the wrappers."""
    call = _call(func, args, named)
    if not call.ours and not call.to_device:
        return func(*args, **named)
    sums = call.name == "aten::nll_loss2d_forward" and args[3] != 0  # beside the losses themselves
    if sums or func.name() in _UNREPEATABLE:  # type: ignore[attr-defined]
        raise RuntimeError(f"{call.name} does not have a deterministic implementation")
    _count(_seen[-1], call)
    wrappers = {id(t.host): t for t in call.ours}
    given, options = pytree.tree_map(lambda t: t.host if isinstance(t, OnDevice) else t, (tuple(args), named))
    if call.to_device or call.to_host:
        options["device"] = torch.device("cpu")
    if call.name == "aten::_to_copy":
        options["non_blocking"] = False
    out = func(*given, **options)
    if call.to_host:
        return out
    lands = call.to_device or call.name != "aten::copy_" or isinstance(args[0], OnDevice)

    def wrapped(t: object) -> object:
        if not isinstance(t, Tensor) or isinstance(t, OnDevice):
            return t
        if id(t) in wrappers:  # written in place
            return wrappers[id(t)]
        return OnDevice(t) if lands else t

    return pytree.tree_map(wrapped, out)


def _count(seen: Seen, call: Call) -> None:
    """Note what CUDA would do."""
    name, ours, theirs = call.name, call.ours, call.theirs
    if name in _COPIES:
        _count_copy(seen, call)
        return
    if name in _WAITING:
        seen.note("wait: value", name, _WAITING[name])
    if name in _INDEXING:
        indices = [t for t in pytree.tree_leaves(call.args[1]) if isinstance(t, Tensor)]
        if any(t.dtype in (torch.bool, torch.uint8) for t in indices):
            seen.note("wait: mask index", name)
        if isinstance(call.args[0], OnDevice) and any(not isinstance(t, OnDevice) for t in indices):
            seen.note("wait: host index", name)
        theirs = [t for t in theirs if not any(t is i for i in indices)]
        if not isinstance(call.args[0], OnDevice):
            _mixed(seen, name, ours, [cast(Tensor, call.args[0])])
    if theirs and ours:
        numbers = all(t.dim() == 0 for t in theirs)
        tags = call.func.tags  # type: ignore[attr-defined]
        pointwise = torch.Tag.pointwise in tags or name in ("aten::where", "aten::masked_fill", "aten::fill_")
        if pointwise and numbers and name not in _INDEXING:
            seen.note("host number", name)
        elif not (numbers and name in _INDEXING):
            _mixed(seen, name, ours, theirs)
    if not getattr(call.func, "is_view", False):
        _launch(seen, name)


def _count_copy(seen: Seen, call: Call) -> None:
    name, ours, theirs = call.name, call.ours, call.theirs
    size = max((t.nbytes for t in (*ours, *theirs)), default=0)
    blocking = not call.named.get("non_blocking", False) and not (len(call.args) > 2 and call.args[2])
    if call.to_host or (name == "aten::copy_" and not isinstance(call.args[0], OnDevice)):
        seen.note("wait: download", name, size=size)
    elif not theirs or not (call.to_device or ours):
        _launch(seen, name)
    elif name == "aten::copy_" and theirs[-1].dim() == 0:
        seen.note("upload of a number", name, size=size)
    else:
        seen.note("wait: upload" if blocking else "upload", name, size=size)


def _launch(seen: Seen, name: str) -> None:
    if name not in _FREE:
        seen.launches[seen.where()] += 1


def _mixed(seen: Seen, name: str, ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> None:
    told = (
        f"{name} at {seen.where()}: device {[list(t.shape) for t in ours]} and host {[list(t.shape) for t in theirs]}"
    )
    seen.mixed[told] += 1
    if seen.strict:
        raise MixedDevicesError(told)


class _Module:
    """What torch.pretend has to be."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


_libraries: list[torch.library.Library] = []


def _registered() -> torch.device:
    """The device, once torch knows of it."""
    if not POSSIBLE:
        return torch.device("meta")
    if not hasattr(torch, NAME):
        backend_registration._setup_privateuseone_for_python_backend(NAME, backend_module=_Module())
        # autocast changes no type here, but what runs under it runs
        _libraries.append(torch.library.Library("_", "IMPL", "AutocastPrivateUse1"))  # type: ignore[no-untyped-call]
        _libraries[-1].fallback(torch.library.fallthrough_kernel)  # type: ignore[no-untyped-call]
    return torch.device(NAME, 0)


DEVICE = _registered()


def note_wait(what: str) -> None:
    """Count a wait of the host that no operator stands for."""
    _seen[-1].note(f"wait: {what}", "")


def on_host(t: Tensor) -> Tensor:
    """A tensor's numbers, without waiting for them."""
    return t.host if isinstance(t, OnDevice) else t


@contextmanager
def pretending(package: str = "/fl_ddp/", *, strict: bool = True) -> Iterator[Seen]:
    """Pretend within a block.

    Args:
        package: part of the file names whose lines are reported.
        strict: raise at mixed devices; if not, they are listed.
    """
    seen = Seen(package, strict=strict)
    before, overwrite = torch._C._only_lift_cpu_tensors(), torch.__future__.get_overwrite_module_params_on_conversion()
    # module.to() must not write into a wrapper's outer tensor alone
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=) goes through the mode, too
    _seen.append(seen)
    try:
        with _Mode():  # type: ignore[no-untyped-call]
            yield seen
    finally:
        _seen.pop()
        torch._C._set_only_lift_cpu_tensors(before)
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
