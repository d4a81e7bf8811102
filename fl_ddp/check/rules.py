"""The worker of test_every_method.py: every method through the same checks, in one group of two gloo ranks.

torchrun --standalone --nproc_per_node=2 tests/support/conformance.py FOLDER reads FOLDER/wanted.json, the names of
checks by method, and writes FOLDER/findings.<rank>.json: for each of them what is wrong, or nothing. Both ranks first
run each method together, then each takes half of the methods for itself.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Literal
from unittest.mock import patch

import broken_methods
import torch
from conformance_runs import SETTINGS, SOLO, Cut, Photograph, State, Unwritten, differences, play, unlike_runs
from matplotlib.figure import Figure
from torch import Tensor
from torch._dynamo.utils import counters

from fl_ddp import run_files
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.settings import Config
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest, die_with_launcher
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.ranks.collectives import Ranks, join
from fl_ddp.results import checkpoint
from fl_ddp.run import run

COMPILED_TOLERANCE = 1e-6

Weights = Literal["data", "uniform"]

GROUPINGS: Mapping[str, Cut] = {
    "other company": lambda ids: [ids[0::2], ids[1::2]],
    "one client a group": lambda ids: [ids[i : i + 1] for i in range(len(ids))],
}
PADDINGS: Mapping[str, Cut] = {
    "groups of 3, 2 and 1": lambda ids: [ids[:3], ids[3:5], ids[5:]],
    "an empty group": lambda ids: [ids[:0], ids[:3], ids[3:]],
}
ORDERS: Mapping[str, Cut] = {
    "turned round": lambda ids: [ids[:2:-1], ids[2::-1]],
    "groups swapped": lambda ids: [ids[3:], ids[:3]],
}


def offered() -> dict[str, type[FedAvg]]:
    """All methods of the package, by name."""
    return {name: owner for name, owner in registry.known("method").items() if issubclass(owner, FedAvg)}


def broken() -> dict[str, type[FedAvg]]:
    """All methods with a mistake, by name."""
    classes = (each for each in vars(broken_methods).values() if isinstance(each, type) and issubclass(each, FedAvg))
    return {owner.__name__: owner for owner in classes if owner is not FedAvg}


@cache
def fedavg(weights: Weights) -> Unwritten:
    """FedAvg, what other methods are compared with."""
    return play({"method": "FedAvg", "method.weights": weights})


class Candidate:
    """A method under test, and the runs it is judged by; each is made when a check first asks for it.

    Attributes:
        name: of its class.
        owner: its class.
        settings: that choose it.
        together: folder of its run on two ranks.
        photograph: copy of that folder in the middle of round 2.
    """

    def __init__(self, name: str, owner: type[FedAvg], folder: Path) -> None:
        self.name, self.owner, self._folder = name, owner, folder
        self.settings: dict[str, object] = {"method": f"{owner.__module__}.{owner.__qualname__}"}
        self.together, self.photograph = folder / f"{name}-together", folder / f"{name}-photograph"

    def run_together(self, ranks: Ranks) -> None:
        """The run on two ranks."""
        stop = Photograph(self.together, self.photograph) if ranks.is_main else StopRequest()
        run(self._config(self.together), ranks, stop)

    @cached_property
    def alone(self) -> Path:
        """Folder of the run on one rank."""
        folder = self._folder / f"{self.name}-alone"
        run(self._config(folder), SOLO, StopRequest())
        return folder

    @cached_property
    def reference(self) -> Unwritten:
        """The run on one rank, without files."""
        return play(self.settings)

    @cached_property
    def compiled(self) -> Unwritten:
        """Two compiled rounds, at the neutral coefficients where there are any."""
        return play(self.neutral | {"compile": True, "rounds": 2})

    @property
    def neutral(self) -> dict[str, object]:
        """Settings at which the method is FedAvg, if it can be; else its defaults."""
        coefficients = self.owner.neutral or {}
        return self.settings | {f"method.{name}": value for name, value in coefficients.items()}

    def _config(self, folder: Path) -> Config:
        return from_mapping(SETTINGS | self.settings | {"out": str(folder.parent), "name": folder.name})


def neutral_is_fedavg(it: Candidate) -> str:
    """With its neutral coefficients the method ends at FedAvg's model, bit for bit."""
    theta = {"theta": play(it.neutral).state.server["theta"]}
    return "; ".join(differences(theta, {"theta": fedavg(it.owner.weights).state.server["theta"]}))


def default_is_not_fedavg(it: Candidate) -> str:
    """With its default coefficients it does not, so that what equals FedAvg is the method's own code."""
    same = torch.equal(it.reference.state.server["theta"], fedavg(it.owner.weights).state.server["theta"])
    return "ends at FedAvg's model with its default coefficients too" if same else ""


def any_grouping(it: Candidate) -> str:
    """Which clients share a group changes nothing."""
    return _regrouped(it, GROUPINGS)


def padded_lanes(it: Candidate) -> str:
    """Lanes without a client change nothing."""
    return _regrouped(it, PADDINGS)


def any_order(it: Candidate) -> str:
    """The order of groups, and of clients in a group, changes nothing."""
    return _regrouped(it, ORDERS)


def two_ranks(it: Candidate) -> str:
    """Two ranks end with one rank's server state, client memory and metrics."""
    return unlike_runs(it.alone, it.together)


def kill_and_resume(it: Candidate) -> str:
    """What a kill in round 2 leaves of two ranks ends on one rank as if nothing had happened."""
    left = checkpoint.newest(it.photograph).checkpoint
    assert left is not None and left.round == 1
    run(from_mapping({"resume": str(it.photograph)}), SOLO, StopRequest())
    return unlike_runs(it.alone, it.photograph)


def checkpoint_round_trip(it: Candidate) -> str:
    """Files hold the state as it was in memory."""
    return State.stored(it.alone).unlike(it.reference.state)


def state_keeps_its_shapes(it: Candidate) -> str:
    """Names, shapes and types are always those of init() and init_client(), and all that clients receive is there."""
    first, last = it.reference.first, it.reference.state
    memory = {name: t[0] for name, t in last.memory.items() if name != "ids"}
    lines = [
        f"{name} begins as {_kind(a[name])} and ends as {_kind(b[name])}"
        for a, b in ((first.server, last.server), (first.memory, memory))
        for name in sorted(a.keys() | b.keys())
        if _kind(a.get(name)) != _kind(b.get(name))
    ]
    lines += [f"broadcast names {name}, init() does not" for name in it.owner.broadcast if name not in first.server]
    return "; ".join(lines)


def state_is_not_written_in_place(it: Candidate) -> str:
    """A round leaves the state it was given as it was, so that a round that fails can be dropped."""
    return it.reference.touched


def no_recompilation(it: Candidate) -> str:
    """Round 2 compiles nothing."""
    before, first, second = it.compiled.graphs
    if counters["graph_break"]:
        return f"graph breaks: {dict(counters['graph_break'])}"
    return "" if before < first == second else f"{first - before} graphs in round 1, {second - first} more in round 2"


def compiled_is_close(it: Candidate) -> str:
    """Compiled rounds end at the eager model, at neutral coefficients FedAvg's, up to rounding."""
    eager = play({"rounds": 2} | ({"method.weights": it.owner.weights} if it.owner.neutral else it.settings))
    gap = (it.compiled.state.server["theta"] - eager.state.server["theta"]).abs().max().item()
    return "" if gap <= COMPILED_TOLERANCE else f"theta is {gap:.1e} away"


def _regrouped(it: Candidate, cuts: Mapping[str, Cut]) -> str:
    gaps = {name: play(it.settings, cut).state.unlike(it.reference.state) for name, cut in cuts.items()}
    return "; ".join(f"{name}: {gap}" for name, gap in gaps.items() if gap)


def _kind(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


Check = Callable[[Candidate], str]
EAGER: tuple[Check, ...] = (
    neutral_is_fedavg, default_is_not_fedavg, any_grouping, padded_lanes, any_order, two_ranks, kill_and_resume,
    checkpoint_round_trip, state_keeps_its_shapes, state_is_not_written_in_place,
)  # fmt: skip
COMPILED: tuple[Check, ...] = (no_recompilation, compiled_is_close)


def checks_of(owner: type[FedAvg]) -> list[Check]:
    """The checks that a method has to pass; of those with a mistake, compiling is worth its seconds only for one."""
    checks = [*EAGER, *COMPILED] if owner not in broken().values() or owner is broken_methods.Grows else [*EAGER]
    if owner is FedAvg:
        return [check for check in checks if check not in (neutral_is_fedavg, default_is_not_fedavg)]
    return [check for check in checks if check is not neutral_is_fedavg or owner.neutral is not None]


def main() -> None:
    """Run the checks that are wanted and write down what they find."""
    die_with_launcher()
    prepare()
    folder, ranks = Path(sys.argv[1]), join("cpu")
    wanted: dict[str, list[str]] = json.loads((folder / "wanted.json").read_text(encoding="utf-8"))
    owners = offered() | broken()
    candidates = [Candidate(name, owners[name], folder) for name in wanted]
    # the pictures of a run's folder take longer than its rounds, and none is looked at here
    with (
        patch.object(run_files, "partition_figure", _no_figure),
        patch.object(run_files, "confusion_figure", _no_figure),
    ):
        for candidate in candidates:
            candidate.run_together(ranks)
        findings = {
            candidate.name: {
                check.__name__: _found(check, candidate)
                for check in checks_of(candidate.owner)
                if check.__name__ in wanted[candidate.name]
            }
            for candidate in candidates[ranks.index :: ranks.size]
        }
    (folder / f"findings.{ranks.index}.json").write_text(json.dumps(findings), encoding="utf-8")
    ranks.wait()
    ranks.close()


def _found(check: Check, candidate: Candidate) -> str:
    """What a check finds; an error is a finding too, so that the other checks go on."""
    try:
        return check(candidate)
    except Exception:
        return traceback.format_exc()


def _no_figure(*_: object) -> Figure:
    return Figure()


if __name__ == "__main__":
    main()
