"""The runs that the checks compare, and how they compare them, bit for bit."""

from __future__ import annotations

import csv
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch._dynamo.utils import counters

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.config.command_line import from_layers, mapping_layer
from fl_ddp.config.settings import Config
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import Federation, build_federation
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.protocol import Indices, Tensors, listed
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.memory import ClientMemory
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.records import Records
from fl_ddp.results.metrics import Record, is_of_time
from fl_ddp.run_tables import OfClients
from fl_ddp.simulation import Simulation

Settings = Mapping[str, object]

ROUNDS = 3
# 1,437 real images, dealt to eight clients of unlike sizes; six of them fill two groups of three lanes, whose 150
# samples leave a part of a vector over
SETTINGS: Settings = {
    "data": "digits", "partition": "Dirichlet", "partition.alpha": 1.0, "model": "MLP", "model.hidden": 16,
    "clients": 8, "cohort": 6, "rounds": ROUNDS, "batch_size": 50, "lr_decay": 0.9, "momentum": 0.5, "lanes": 3,
    "compile": False, "local_test": 0.2, "forgetting_every": 2,
    "checkpoint_every": 1, "keep_checkpoints": ROUNDS, "figures": False, "seed": 3, "device": "cpu",
}  # fmt: skip
TABLES = ("cohorts.csv", "clients.csv", "forgetting.csv", "tasks.csv", "own_tasks.csv")
SOLO = Ranks(0, 1, torch.device("cpu"))
_PATIENCE = 60.0
"""Seconds to wait for a checkpoint, which gets to the disk while the next round trains."""

Cut = Callable[[Indices], list[Indices]]


@dataclass
class State:
    """What a run knows after a round: the server's tensors, the clients' (with their ids)."""

    server: Tensors
    memory: Tensors

    @classmethod
    def stored(cls, folder: Path) -> State:
        """Read a checkpoint of any number of ranks."""
        parts = [load_file(file) for file in sorted(folder.glob("memory.*.safetensors"))]
        names = dict.fromkeys(name for part in parts for name in part)  # a rank without clients so far has ids alone
        memory = {name: torch.cat([part[name] for part in parts if name in part]) for name in names}
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
        a, b = ours[name].cpu(), theirs[name].cpu()
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            lines.append(f"{name} is {a.dtype} {list(a.shape)} or {b.dtype} {list(b.shape)}")
        elif not torch.equal(a, b):
            gap = (a.double() - b.double()).abs()
            lines.append(f"{name} differs in {int((gap > 0).sum())} of {gap.numel()} places, by up to {gap.max():.1e}")
    return lines


def course(run_folder: Path) -> list[State]:
    """The states after each round of a run, all of whose checkpoints were kept."""
    return [State.stored(folder) for folder in sorted((run_folder / "checkpoints").glob("round_*"))]


def unlike(ours: Sequence[State], theirs: Sequence[State]) -> str:
    """The first round after which the states of two runs are not the same, and what is not."""
    if len(ours) != len(theirs):
        return f"one has {len(ours)} rounds, the other {len(theirs)}"
    gaps = (f"round {i + 1}: {gap}" for i, (a, b) in enumerate(zip(ours, theirs, strict=True)) if (gap := a.unlike(b)))
    return next(gaps, "")


class Unwritten(Records):
    """Records in memory in place of a run's folder.

    Attributes:
        first: the state before the first round.
        states: after each finished round.
        graphs: compiled graphs so far, after each finished round.
        touched: what a round changed in the state it was given.
        records: of the finished rounds.
    """

    def __init__(self, federation: Federation) -> None:
        self._federation, self.start, self.may_end_early, self.stopped = federation, None, False, None
        self.first = State({}, {})
        self.states: list[State] = []
        self.graphs: list[int] = []
        self.touched = ""
        self.records: list[Record] = []
        self._given: Tensors = {}

    @property
    def state(self) -> State:
        """After the last finished round."""
        return self.states[-1]

    def round(self, record: Record, scores: Scores | None, clients: OfClients, theta: Tensor) -> None:
        """Nothing is written."""
        self.records.append(record)

    def write(self) -> None:
        """Nothing is."""

    def ends_early(self) -> bool:
        """A check plays all rounds."""
        return False

    def save(self, finished: int, server: Tensors, memory: ClientMemory, *, wait: bool) -> None:
        """Keep copies, and compare the state before the round with the copy that was made of it."""
        before = self.states[-1] if self.states else self.first
        if finished == 0:
            self.first = State(_copied(server), _copied(memory.initial))
        else:
            if gaps := differences(self._given, before.server):
                self.touched = self.touched or f"round {finished} wrote in the state it was given: {gaps[0]}"
            self.states.append(State(_copied(server), _copied(memory.stacked()) if memory.initial else {}))
        self._given = server
        self.graphs.append(counters["stats"]["unique_graphs"])


def _copied(tensors: Tensors) -> Tensors:
    return {name: t.cpu().clone() for name, t in tensors.items()}


class Regrouped(Simulation):
    """A simulation that puts clients into groups its own way."""

    def regroup(self, cut: Cut) -> None:
        """Cut each rank's clients before they are put into lanes."""
        parts = self._exchange.parts
        self._exchange.parts = lambda ids: (group for part in cut(ids) for group in parts(part))  # type: ignore[method-assign]


def config_of(settings: Settings) -> Config:
    """A run of the checks with some settings of its own; of another class it has that one's options."""
    return from_layers([mapping_layer(SETTINGS), mapping_layer(settings)])


def play(settings: Settings, cut: Cut | None = None) -> Unwritten:
    """Run on one rank, without files."""
    config = config_of(settings)
    federation = build_federation(config, SOLO)
    kept = Unwritten(federation)
    tf32 = config.precision == "tf32"
    with repeatable(SOLO.device.type, tf32=tf32), one_torch_thread(SOLO.device.type):
        simulation = Regrouped(config, SOLO, StopRequest(), federation, kept)
        if cut:
            simulation.regroup(cut)
        first = federation.first_memory(federation.method.init_client())
        kept.save(0, simulation.server, ClientMemory(first, SOLO.device), wait=True)
        for _ in simulation.rounds():
            pass
    return kept


def unlike_plays(ours: Unwritten, theirs: Unwritten) -> str:
    """The same of runs without files, or else the first round whose clients have reported other numbers."""
    pairs = [(a.round, a.reported, b.reported) for a, b in zip(ours.records, theirs.records, strict=True)]
    told = (
        f"round {index}: {listed({n for n, _ in a.items() ^ b.items()})} of those reported"
        for index, a, b in pairs
        if a != b
    )
    return unlike(ours.states, theirs.states) or next(told, "")


class Photograph(StopRequest):
    """Never asks to stop, but copies the run's folder in round 2, as a kill -9 leaves it with round 1 on the disk."""

    def __init__(self, folder: Path, copy: Path) -> None:
        super().__init__()
        self._folder, self._copy, self._one = folder, copy, Lock()

    def check(self) -> None:
        """Called before every local step, in any thread."""
        with self._one:
            if self._copy.exists() or not self._is_round_two():
                return
            latest, end = self._folder / "checkpoints" / "latest", time.monotonic() + _PATIENCE
            while not latest.exists() and time.monotonic() < end:
                time.sleep(0.005)
            shutil.copytree(self._folder, self._copy)

    def _is_round_two(self) -> bool:
        table = self._folder / "metrics.csv"
        return table.exists() and "\n1," in table.read_text()


def metrics(run_folder: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv without the columns of time."""
    with (run_folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not is_of_time(k)} for row in csv.DictReader(file)]


def _bytes_of(table: Path) -> bytes | None:
    return table.read_bytes() if table.exists() else None


def unlike_runs(one: Path, other: Path) -> str:
    """What two runs' checkpoints, metrics and tables of clients do not have in common."""
    cells = sorted({k for a, b in zip(metrics(one), metrics(other), strict=True) for k in a if a[k] != b[k]})
    tables = [name for name in TABLES if _bytes_of(one / name) != _bytes_of(other / name)]
    files = [f"metrics.csv: {', '.join(cells)}"] * bool(cells) + tables
    return unlike(course(one), course(other)) or "; ".join(files)
