"""Whether a model and its lanes fit a device's memory, all of which counts: what is free decides nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fl_ddp.convolutions.products import FEW_FILTERS
from fl_ddp.errors import ConfigError
from fl_ddp.guards.allocations import AtMost, NewBytes
from fl_ddp.host.device_errors import out_of_memory
from fl_ddp.protocol import Tensors

_CPU = torch.device("cpu")
_GIB = 2**30
_COPIES = 5
"""Of a model that the smallest run holds: the module's, the server's state, a client's start, place and gradient."""
_SHARE = 0.8
"""Of a GPU's memory; the rest is torch's, of what is not counted here, and lost between blocks."""


_AT_ONCE = 3
"""Tensors that lie there at a time on a way through a model that nobody goes back: one made of one, and one beside."""
_STATES = 4
"""Of the server that lie there at a time: the first, that before a round, the method's copy, and what it makes."""


class Activations(NamedTuple):
    """Bytes of one sample on its way through a model.

    Attributes:
        kept: left behind for the way back.
        passing: at a time, where there is no way back.
    """

    kept: int
    passing: int


class Need(NamedTuple):
    """Bytes of a run on a rank.

    Attributes:
        fixed: whatever the number of lanes.
        lane: of each client in a group.
    """

    fixed: int
    lane: int


def memory_of(device: torch.device) -> int:
    """Bytes of a GPU, in whole GiB as of all of its kind, or that this process may have of the machine."""
    if device.type == "cuda":
        total: int = torch.cuda.get_device_properties(device).total_memory
        return total // _GIB * _GIB
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    given = Path("/sys/fs/cgroup/memory.max")
    text = given.read_text().strip() if given.exists() else ""
    return min(machine, int(text)) if text.isdigit() else machine


def with_room(
    make: Callable[[], nn.Module], name: str, options: Mapping[str, object], device: torch.device
) -> nn.Module:
    """A model, if the device holds what the smallest run needs of it.

    Args:
        make: makes it, on the host.
        name: of its class, for the message.
        options: given to it, for the message.
        device: to train on.

    Raises:
        ConfigError: it does not, or the machine does not hold the module, which is told before its memory is taken.
    """
    host = memory_of(_CPU)
    try:
        with AtMost(host) as asked:
            module = make()
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise _too_large(name, options, asked.bytes, _CPU, host) from error
    parameters = sum(p.nbytes for p in module.parameters() if not nn.parameter.is_lazy(p))
    memory = memory_of(device)
    if _COPIES * parameters > memory:
        raise _too_large(name, options, _COPIES * parameters, device, memory)
    return module


def _too_large(name: str, options: Mapping[str, object], asked: int, device: torch.device, memory: int) -> ConfigError:
    sizes = ", ".join(f"{key} {value}" for key, value in options.items() if isinstance(value, int | list | tuple))
    whose = "the GPU" if device.type == "cuda" else "this machine"
    needs = f"needs {_gib(asked)} of memory or more, and {whose} has {_gib(memory)}"
    return ConfigError("--model", f"{name}{f' with {sizes}' if sizes else ''} {needs}", "a smaller one")


def activation_bytes(module: nn.Module, example: Tensor, products: bool = False) -> Activations:
    """What one input takes on its way through a module; 0 of one that cannot be a model, which others tell.

    Args:
        module: still on the host.
        example: [1, ...] the input.
        products: whether a GPU makes convolutions of patches, which then lie there, and those of one layer's gradient
            beside them.
    """
    if any(nn.parameter.is_lazy(p) for p in module.parameters()):
        return Activations(0, 0)
    trains = module.training
    try:
        with torch.no_grad(), NewBytes() as new:
            module.eval()(example.cpu())
    except Exception:
        return Activations(0, 0)
    finally:
        module.train(trains)
    patches = [size for filters, size in new.patches if filters >= FEW_FILTERS and products]
    kept = new.count + sum(patches) + max(patches, default=0)
    return Activations(int(kept), _AT_ONCE * max(new.largest, example.nbytes))


def need(server: Tensors, slots: int, activations: int, remembered: Tensors, beside: int, *, recorded: bool) -> Need:
    """What a run needs.

    Args:
        server: its state, theta [P] the model among it.
        slots: vectors like theta that the optimizer remembers.
        activations: bytes that the samples of a step leave behind.
        remembered: by a client between rounds.
        beside: bytes of all samples, and of those of a test pass on their way.
        recorded: whether steps are, one of them on tensors of its own.
    """
    theta = server["theta"]
    # start, place, gradient, update; of a recording its state, and two that are tracked in it or of an importance pass
    vectors = 4 + slots + (3 + slots if recorded else 0)
    summed = 3 * 8 * theta.numel()  # in float64 and its two bins
    memory = sum(each.nbytes for each in remembered.values())
    state = sum(each.nbytes for name, each in server.items() if name != "theta")
    copies = 3 if recorded else 2  # before a round, after it, and in a recording
    fixed = _COPIES * theta.nbytes + _STATES * state + beside
    return Need(fixed, vectors * theta.nbytes + summed + 2 * activations + copies * memory)


def lanes_with_room(lanes: int, need: Need, memory: int) -> int:
    """As many lanes as asked for, or fewer that a GPU's memory holds; at least one, which may try."""
    return max(min(lanes, int(_SHARE * memory - need.fixed) // need.lane), 1)


def _gib(size: int) -> str:
    """A number of bytes as people read it."""
    return f"{size / _GIB:.3g} GiB"
