"""What clients remember between rounds, kept by the rank that owns them."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fl_ddp.protocol import Indices, Tensors


class ClientMemory:
    """Tensors by client id, in host memory; a client costs memory from when it first takes part.

    Attributes:
        initial: one client's memory before its first round; empty for methods without client memory.
    """

    def __init__(self, initial: Tensors, device: torch.device, stored: Mapping[int, Tensors] | None = None) -> None:
        self.initial, self._device = initial, device
        self._of: dict[int, Tensors] = dict(stored or {})

    def take(self, clients: Indices) -> Tensors:
        """Memory [G, ...] of a group on the device; padded lanes (id -1) get an unused client's."""
        rows = [self._of.get(int(c), self.initial) for c in clients]
        return {
            name: torch.stack([row[name].to(self._device, non_blocking=True) for row in rows]) for name in self.initial
        }

    def put(self, clients: Indices, memory: Tensors) -> None:
        """Keep a group's memory [G, ...]; called only when the whole round is done."""
        host = {name: t.to("cpu") for name, t in memory.items()}
        for lane, client in enumerate(clients):
            if client >= 0:
                self._of[int(client)] = {name: t[lane].clone() for name, t in host.items()}

    def stacked(self) -> Tensors:
        """All clients' memory [clients, ...] and their ids, ascending, as a checkpoint stores them."""
        ids = sorted(self._of)
        stacks = {name: torch.stack([self._of[c][name] for c in ids]) for name in self.initial} if ids else {}
        return {"ids": torch.tensor(ids, dtype=torch.int64)} | stacks
