"""The runs that the conformance table compares, and how it compares them, bit for bit."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch._dynamo.utils import counters

from fl_ddp.config.command_line import from_mapping
from fl_ddp.evaluation import Scores
from fl_ddp.federation import Federation, build_federation
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.protocol import Indices, Tensors
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.records import Records
from fl_ddp.results.metrics import Record
from fl_ddp.simulation import Simulation

ROUNDS = 3
# 1,437 real images, dealt to eight clients of unlike sizes; six of them fill two groups of three lanes
SETTINGS: dict[str, object] = {
    "data": "digits", "partition": "Dirichlet", "partition.alpha": 1.0, "model": "MLP", "model.hidden": 16,
    "clients": 8, "cohort": 6, "rounds": ROUNDS, "batch_size": 64, "lr_decay": 0.9, "momentum": 0.5, "lanes": 3,
    "compile": False, "local_test": 0.2, "checkpoint_every": 1, "keep_checkpoints": ROUNDS, "seed": 3, "device": "cpu",
}  # fmt: skip
SOLO = Ranks(0, 1, torch.device("cpu"))

Cut = Callable[[Indices], list[Indices]]


@dataclass
class State:
    """What a run knows after a round: the server's tensors, the clients' (with their ids)."""

    server: Tensors
    memory: Tensors

    @classmethod
    def stored(cls, run_folder: Path) -> State:
        """Read the last checkpoint of a run of any number of ranks."""
        folder = run_folder / "checkpoints" / f"round_{ROUNDS:06d}"
        parts = [load_file(file) for file in sorted(folder.glob("memory.*.safetensors"))]
        memory = {name: torch.cat([part[name] for part in parts]) for name in (parts[0] if parts else {})}
        order = memory["ids"].argsort() if parts else None
        return cls(load_file(folder / "server.safetensors"), {name: t[order] for name, t in memory.items()})

    def unlike(self, other: State) -> str:
        """What is not the same, bit for bit."""
        return "; ".join(
            f"{where} {line}"
            for where, ours, theirs in (
                ("server:", self.server, other.server),
                ("client memory:", self.memory, other.memory),
            )
            for line in differences(ours, theirs)
        )


def differences(ours: Tensors, theirs: Tensors) -> list[str]:
    """The tensors that are not the same, bit for bit."""
    lines = [f"{name} is only on one side" for name in sorted(ours.keys() ^ theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        a, b = ours[name], theirs[name]
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            lines.append(f"{name} is {a.dtype} {list(a.shape)} or {b.dtype} {list(b.shape)}")
        elif not torch.equal(a, b):
            gap = (a.double() - b.double()).abs()
            lines.append(f"{name} differs in {int((gap > 0).sum())} of {gap.numel()} places, by up to {gap.max():.1e}")
    return lines


class Unwritten(Records):
    """Records in memory in place of a run's folder.

    Attributes:
        state: after the last finished round.
        first: the state before the first round.
        graphs: compiled graphs so far, after each finished round.
        touched: what a round changed in the state it was given.
        records: of the finished rounds.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation, self.start = federation, None
        self.state = self.first = State({}, {})
        self.graphs: list[int] = []
        self.touched = ""
        self.records: list[Record] = []
        self._given: Tensors = {}

    def round(self, record: Record, scores: Scores | None) -> None:
        """Nothing is written."""
        self.records.append(record)

    def save(self, finished: int, server: Tensors, memory: ClientMemory) -> None:
        """Keep copies, and compare the state before the round with the copy that was made of it."""
        if finished == 0:
            self.first = State(_copied(server), _copied(memory.initial))
        elif gaps := differences(self._given, self.state.server):
            self.touched = f"round {finished} wrote in the state it was given: {gaps[0]}"
        remembered = _copied(memory.stacked()) if memory.initial else {}
        self._given, self.state = server, State(_copied(server), remembered)
        self.graphs.append(counters["stats"]["unique_graphs"])


def _copied(tensors: Tensors) -> Tensors:
    return {name: t.clone() for name, t in tensors.items()}


class Regrouped(Simulation):
    """A simulation that puts clients into groups its own way."""

    cut: Cut | None = None

    def _parts(self, ids: Indices) -> Iterator[list[Indices]]:
        for part in [ids] if self.cut is None else self.cut(ids):
            yield from super()._parts(part)


def play(settings: dict[str, object], cut: Cut | None = None) -> Unwritten:
    """Run on one rank, without files."""
    config = from_mapping(SETTINGS | settings)
    federation = build_federation(config, SOLO)
    kept = Unwritten(federation)
    simulation = Regrouped(config, SOLO, StopRequest(), federation, kept)
    simulation.cut = cut
    method = federation.method
    kept.save(0, simulation.server, ClientMemory(method.init_client(), SOLO.device))
    for _ in simulation.rounds():
        pass
    return kept


class Photograph(StopRequest):
    """Never asks to stop, but copies the run's folder in the middle of round 2: what a kill -9 would leave of it.

    Attributes:
        taken: whether the copy was made.
    """

    def __init__(self, folder: Path, copy: Path) -> None:
        super().__init__()
        self._folder, self._copy = folder, copy
        self._steps, self.taken = 0, False

    def check(self) -> None:
        """Called before every local step."""
        if not self.taken and (self._folder / "checkpoints" / "round_000001").is_dir():
            self._steps += 1
            if self._steps == 3:
                shutil.copytree(self._folder, self._copy)
                self.taken = True


def metrics(run_folder: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv without the columns of time."""
    with (run_folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not k.startswith("time")} for row in csv.DictReader(file)]


def unlike_runs(one: Path, other: Path) -> str:
    """What two runs' checkpoints and metrics do not have in common."""
    rows = zip(metrics(one), metrics(other), strict=True)
    cells = sorted({k for a, b in rows for k in a if a[k] != b[k]})
    states = State.stored(one).unlike(State.stored(other))
    return "; ".join(filter(None, [states, f"metrics.csv: {', '.join(cells)}" if cells else ""]))
