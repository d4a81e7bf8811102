"""What clients remember between rounds, kept by the rank that owns them: on its device, or in host memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from fl_ddp.engine.transfer import upload
from fl_ddp.guards.room import memory_of
from fl_ddp.protocol import Indices, Tensors

_SHARE = 0.4
"""Of a GPU's memory that clients' may take; training needs the rest."""
_SLAB = 32
"""Clients whose memory is pinned, or read for a checkpoint, at once; pinned memory is rounded up to powers of two."""


class ClientMemory:
    """Tensors by client id.

    Attributes:
        initial: one client's memory before its first round; empty for methods without client memory.
    """

    def __init__(
        self, initial: Tensors, device: torch.device, stored: Mapping[int, Tensors] | None = None, most: int = 0
    ) -> None:
        """Begin with what a checkpoint has stored.

        Args:
            initial: one client's memory before its first round.
            device: where it is taken to.
            stored: by client.
            most: clients that this rank owns; where the memory of so many has room on a GPU it stays there.
        """
        self.initial = initial
        size = sum(t.nbytes for t in initial.values())
        # of a round in which all of them take part, what was and what comes of it
        on_device = device.type != "cpu" and most > 0 and 2 * (most + 1) * size <= room_on(device)
        beside = Beside(device) if device.type == "cuda" and not on_device else None
        self._kept: _Kept = OnDevice(initial, device, most) if on_device else OnHost(initial, device, beside)
        for client, memory in (stored or {}).items():
            self.put(np.array([client]), {name: upload(t[None], device) for name, t in memory.items()})

    def take(self, clients: Indices) -> Tensors:
        """Memory [G, ...] of a group on the device; padded lanes (id -1) get an unused client's."""
        return self._kept.take([int(c) for c in clients])

    def make_room(self, clients: Indices) -> None:
        """Take what memory of the machine put() needs for them, which may fail where it leaves all as it was."""
        if self.initial:
            self._kept.make_room([int(c) for c in clients])

    def put(self, clients: Indices, memory: Tensors) -> None:
        """Keep a group's memory [G, ...] but for padded lanes; called only when the whole round is done."""
        if self.initial:
            self.make_room(clients)
            self._kept.put([int(c) for c in clients], {name: t.detach() for name, t in memory.items()})

    def stacked(self) -> Tensors:
        """All clients' memory [clients, ...] and their ids, ascending, as a checkpoint stores them."""
        ids = self._kept.clients()
        return {"ids": torch.tensor(ids, dtype=torch.int64)} | (self._kept.stacked(ids) if ids else {})


def room_on(device: torch.device) -> int:
    """Bytes that clients' memory may take on a device that is no CPU."""
    if device.type != "cuda":
        return 2**62
    return int(_SHARE * memory_of(device))


class _Kept(Protocol):
    """Where clients' memory is."""

    def take(self, clients: Sequence[int]) -> Tensors: ...

    def make_room(self, clients: Sequence[int]) -> None: ...

    def put(self, clients: Sequence[int], memory: Tensors) -> None: ...

    def clients(self) -> list[int]: ...

    def stacked(self, ids: Sequence[int]) -> Tensors: ...


class OnDevice:
    """One row [2 + most, ...] a client on the device, in the order of their first rounds.

    The first row is initial, and the last is what padded lanes put.
    """

    def __init__(self, initial: Tensors, device: torch.device, most: int) -> None:
        """Make room for so many clients."""
        self._device = device
        self._rows = {
            name: torch.empty(most + 2, *t.shape, dtype=t.dtype, device=device) for name, t in initial.items()
        }
        self._padded = most + 1
        for name, t in initial.items():
            self._rows[name][0].copy_(upload(t, device))
        self._row_of: dict[int, int] = {}

    def take(self, clients: Sequence[int]) -> Tensors:
        """Memory [G, ...] on the device."""
        if not self._rows:
            return {}
        rows = self._index([self._row_of.get(client, 0) for client in clients])
        return {name: t.index_select(0, rows) for name, t in self._rows.items()}

    def make_room(self, clients: Sequence[int]) -> None:
        """Nothing; it is there."""

    def put(self, clients: Sequence[int], memory: Tensors) -> None:
        """Keep a group's memory."""
        own = [self._row_of.setdefault(c, len(self._row_of) + 1) if c >= 0 else self._padded for c in clients]
        if self._rows:
            rows = self._index(own)
            for name, t in self._rows.items():
                t.index_copy_(0, rows, memory[name])

    def clients(self) -> list[int]:
        """Ids, ascending."""
        return sorted(self._row_of)

    def stacked(self, ids: Sequence[int]) -> Tensors:
        """Memory [clients, ...] on the host."""
        host = {name: t.new_empty(len(ids), *t.shape[1:], device="cpu") for name, t in self._rows.items()}
        for first in range(0, len(ids), _SLAB):  # no second copy of all of it on the device
            for name, t in self.take(ids[first : first + _SLAB]).items():
                host[name][first : first + _SLAB] = t
        return host

    def _index(self, places: Sequence[int]) -> Tensor:
        return upload(torch.tensor(places, dtype=torch.int64), self._device)


class OnHost:
    """Rows in host memory; beside the training they are pinned and copied by a stream of their own."""

    def __init__(self, initial: Tensors, device: torch.device, beside: Beside | None) -> None:
        """Begin with nothing."""
        self._initial, self._device, self._beside = initial, device, beside
        self._of: dict[int, Tensors] = {}
        self._free: list[Tensors] = []

    def take(self, clients: Sequence[int]) -> Tensors:
        """Memory [G, ...] on the device."""
        rows = [self._of.get(client, self._initial) for client in clients]
        if self._beside is None:
            return {name: torch.stack([row[name].to(self._device) for row in rows]) for name in self._initial}
        with self._beside.taking() as taken:
            for name, first in self._initial.items():
                taken[name] = torch.empty(len(rows), *first.shape, dtype=first.dtype, device=self._device)
                for lane, row in enumerate(rows):
                    taken[name][lane].copy_(row[name], non_blocking=True)
        return taken

    def make_room(self, clients: Sequence[int]) -> None:
        """Rows for clients that have none."""
        new = {client for client in clients if client >= 0} - self._of.keys()
        while len(self._free) < len(new):
            self._free += self.fresh()

    def put(self, clients: Sequence[int], memory: Tensors) -> None:
        """Keep a group's memory."""
        with self._beside.putting(memory) if self._beside else nullcontext():
            for lane, client in enumerate(clients):
                if client < 0:
                    continue
                if client not in self._of:
                    self._of[client] = self._free.pop()
                for name, t in memory.items():
                    self._of[client][name].copy_(t[lane], non_blocking=True)

    def clients(self) -> list[int]:
        """Ids, ascending."""
        return sorted(self._of)

    def stacked(self, ids: Sequence[int]) -> Tensors:
        """Memory [clients, ...] on the host."""
        if self._beside:
            self._beside.finish()
        return {name: torch.stack([self._of[client][name] for client in ids]) for name in self._initial}

    def fresh(self) -> list[Tensors]:
        """Rows that nobody has: one, or those of a slab."""
        if self._beside is None:
            return [{name: torch.empty_like(t, device="cpu") for name, t in self._initial.items()}]
        pinned, initial = self._beside.pinned, self._initial
        slab = {name: pinned((_SLAB, *t.shape), t.dtype) for name, t in initial.items()}
        return [{name: t[row] for name, t in slab.items()} for row in reversed(range(_SLAB))]


class Beside:
    """Copies between pinned memory and a GPU, by a stream of their own, so that training goes on meanwhile."""

    def __init__(self, device: torch.device) -> None:
        """Copy nothing before what the device was asked for so far."""
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Memory of the host that the GPU copies from and to by itself."""
        return torch.empty(*shape, dtype=dtype, pin_memory=True)

    @contextmanager
    def taking(self) -> Iterator[Tensors]:
        """Copy to the device within the block, into tensors that are put into what it is given; then they are used."""
        taken: Tensors = {}
        with torch.cuda.stream(self._stream):
            yield taken
        now = torch.cuda.current_stream()
        now.wait_stream(self._stream)
        for t in taken.values():
            t.record_stream(now)

    @contextmanager
    def putting(self, memory: Tensors) -> Iterator[None]:
        """Copy from these tensors within the block, once they are computed."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        for t in memory.values():
            t.record_stream(self._stream)

    def finish(self) -> None:
        """Wait until all is copied."""
        self._stream.synchronize()
