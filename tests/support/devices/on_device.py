"""Runs on the pretended device, and what happens there in each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from pretend_device import DEVICE, Seen, on_host, pretending

from fl_ddp.check.runs import SETTINGS, Unwritten, differences
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import build_federation
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.results.metrics import Record
from fl_ddp.simulation import Simulation

CPU = torch.device("cpu")
Settings = Mapping[str, object]


class Round(NamedTuple):
    """What happened in a round: waits of the host, its uploads, launching operators, and all of it as a table."""

    waits: int
    uploads: int
    launches: int
    told: str


class Played(NamedTuple):
    """A run: the server's tensors and the clients' memory on the host, records without times, and its rounds."""

    server: Tensors
    memory: Tensors
    records: list[Record]
    rounds: list[Round]

    def unlike(self, other: Played) -> list[str]:
        """What is not the same in two runs, bit for bit."""
        lines = differences(self.server, other.server) + differences(self.memory, other.memory)
        return lines + ["records"] * (repr(self.records) != repr(other.records))


class Kept(Unwritten):
    """Records in memory, of the last state alone."""

    memory: ClientMemory

    def save(self, finished: int, server: Tensors, memory: ClientMemory, *, wait: bool) -> None:
        """Keep where clients' memory is."""
        self.memory = memory


def played(
    settings: Settings,
    device: torch.device = DEVICE,
    ranks: Ranks | None = None,
    between: Callable[[], object] = lambda: None,
) -> Played:
    """Run on one rank, without files, each round watched; something may be done before the first and after each."""
    pretends = device != CPU
    with pretending() if pretends else nullcontext(Seen("", strict=False)) as seen, one_torch_thread("cpu"):
        given = {**SETTINGS, **settings}
        config = from_mapping({key: value for key, value in given.items() if value is not None})
        federation = build_federation(config, ranks or Ranks(0, 1, device))
        kept, rounds = Kept(federation), list[Round]()
        simulation = Simulation(config, ranks or Ranks(0, 1, device), StopRequest(), federation, kept)
        between()
        seen.clear()
        for _ in simulation.rounds():
            between()
            rounds.append(Round(seen.waits(), seen.uploads(), sum(seen.launches.values()), seen.table()))
            seen.clear()
        memory = kept.memory.stacked()
    server, memory = ({name: on_host(t) for name, t in tensors.items()} for tensors in (simulation.server, memory))
    records = [replace(record, seconds={}, wall=0.0) for record in kept.records]
    return Played(server, memory, records, rounds)
