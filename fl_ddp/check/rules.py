"""The checks: what must hold for every method, and what is wrong where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from fl_ddp.check.candidate import Candidate
from fl_ddp.check.runs import SOLO, Cut, course, differences, play, unlike, unlike_plays, unlike_runs
from fl_ddp.compiler.compilation import require_compiler
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import form_of
from fl_ddp.results import checkpoint
from fl_ddp.run import run

RANKS = (2, 3)
"""Numbers of ranks that are compared with one."""
COMPILED_TOLERANCE = 1e-6

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


@dataclass(frozen=True)
class Rule:
    """Something that must hold for every method.

    Attributes:
        name: a word.
        meaning: what must hold, in a few words.
        gap: what is wrong with a method; empty where nothing is. Its docstring is the rule's help.
        needless: why the rule asks nothing of a method; empty where it does.
        together: whether it needs the runs on several ranks.
    """

    name: str
    meaning: str
    gap: Callable[[Candidate], str]
    needless: Callable[[Candidate], str] = lambda _: ""
    together: bool = False


def neutral(it: Candidate) -> str:
    """At the coefficients that `neutral` names the method ends at FedAvg's model, bit for bit.

    It fails where the method does more than its coefficients switch off: another order of operations, a forgotten term.
    """
    theirs = it.fedavg.state.server["theta"]
    return "; ".join(differences({"theta": play(it.neutral).state.server["theta"]}, {"theta": theirs}))


def effect(it: Candidate) -> str:
    """With the options given it does not end there, so that what equals FedAvg is the method's own code.

    It fails where a coefficient is never used, or a hook is misspelt and never called; a method may only report.
    """
    same = torch.equal(it.reference.state.server["theta"], it.fedavg.state.server["theta"])
    reports = any(record.reported for record in it.reference.records)
    if not same or reports:
        return ""
    hint = "" if it.has_tasks else "; what acts after a task needs some: --stream ClassGroups --stream.size 5"
    return f"ends at FedAvg's model, as if its own code were not called{hint}"


def lanes(it: Candidate) -> str:
    """Which clients share a group changes no bit.

    It fails where a client looks at others: a mean over lanes, the first lane's value for all.
    """
    return _regrouped(it, GROUPINGS)


def padding(it: Candidate) -> str:
    """Lanes without a client change no bit.

    It fails where something is summed over all lanes; group.real is 0 for those that are padded.
    """
    return _regrouped(it, PADDINGS)


def order(it: Candidate) -> str:
    """The order of groups, and of clients in a group, changes no bit.

    It fails where something is carried from one group to the next, such as a counter that the method keeps for itself.
    """
    return _regrouped(it, ORDERS)


def again(it: Candidate) -> str:
    """A second run ends like the first, and its checkpoints hold what the first had in memory.

    It fails where something outlives a run: a list in the module, a cache that never forgets.
    """
    return unlike(course(it.alone), it.reference.states)


def shapes(it: Candidate) -> str:
    """Names, shapes and types are always those of init() and init_client(), and all that clients receive is there.

    It fails where init() or init_client() gives something else when it is called again, or `broadcast` names a tensor
    that is not there. A state that grows or changes its type (float64 for float32) ends every run.
    """
    first, last = it.reference.first, it.reference.state
    memory = {name: t[0] for name, t in last.memory.items() if name != "ids"}
    lines = [
        f"{name} begins as {_kind(a.get(name))} and ends as {_kind(b.get(name))}"
        for a, b in ((first.server, last.server), (first.memory, memory))
        for name in sorted(a.keys() | b.keys())
        if _kind(a.get(name)) != _kind(b.get(name))
    ]
    lines += [f"broadcast names {name}, init() does not" for name in it.owner.broadcast if name not in first.server]
    return "; ".join(lines)


def intact(it: Candidate) -> str:
    """A round leaves the state it was given as it was, so that a round that fails can be dropped.

    It fails where client_update writes through NumPy or `.data`, which torch does not count: what it counts (add_(), an
    index on the left) ends every run. The server's steps get copies.
    """
    return it.reference.touched


def once(it: Candidate) -> str:
    """Round 2 compiles nothing.

    It fails where the step is another one in every round: a tensor that grows, a Python number that changes.
    """
    before, first, second = it.compiled.graphs
    if counters["graph_break"]:
        return f"graph breaks: {dict(counters['graph_break'])}"
    return "" if before < first == second else f"{first - before} graphs in round 1, {second - first} more in round 2"


def compiled(it: Candidate) -> str:
    """Two compiled rounds end at the eager model, up to rounding.

    It fails where the code does something else while it is traced: a branch that is decided once, a value kept outside.
    """
    eager, theta = it.reference.states[1].server["theta"], it.compiled.state.server["theta"]
    gap = float((theta - eager).abs().max())
    return "" if gap <= COMPILED_TOLERANCE * max(1.0, float(eager.abs().max())) else f"theta is {gap:.1e} away"


def ranks(it: Candidate) -> str:
    """Two and three ranks end with one rank's server state, client memory and metrics, bit for bit.

    It fails where the method knows how many ranks there are, or sums by itself what belongs into Upload.sums.
    """
    gaps = {size: unlike_runs(it.alone, it.together(size)) for size in RANKS}
    return "; ".join(f"{size} ranks: {gap}" for size, gap in gaps.items() if gap)


def resume(it: Candidate) -> str:
    """What a kill in round 2 leaves of several ranks ends on one rank as if nothing had happened.

    It fails where the method keeps something outside the server's state and the clients' memory.
    """
    left = checkpoint.newest(it.photograph(RANKS[-1])).checkpoint
    if left is None or left.round != 1:
        return f"the run on {RANKS[-1]} ranks had no round 1 to go on with"
    run(from_mapping({"resume": str(it.photograph(RANKS[-1]))}), SOLO, StopRequest())
    return unlike_runs(it.alone, it.photograph(RANKS[-1]))


def _regrouped(it: Candidate, cuts: Mapping[str, Cut]) -> str:
    gaps = {name: unlike_plays(play(it.case.settings, cut), it.reference) for name, cut in cuts.items()}
    return "; ".join(f"{name}: {gap}" for name, gap in gaps.items() if gap)


def _kind(tensor: Tensor | None) -> str:
    return "nothing" if tensor is None else form_of(tensor)


def _no_neutral(it: Candidate) -> str:
    if it.owner is FedAvg:
        return "it is FedAvg itself"
    return "" if it.names_neutral else "the method names no neutral coefficients"


def _is_fedavg(it: Candidate) -> str:
    if it.owner is FedAvg:
        return "it is FedAvg itself"
    same = it.names_neutral and from_mapping(it.neutral) == from_mapping(it.case.settings)
    return "the options given are its neutral coefficients" if same else ""


def _no_compiler(_: Candidate) -> str:
    try:
        require_compiler("cpu")
    except ConfigError:
        return "there is no C++ compiler here"
    return ""


RULES = (
    Rule("neutral", "at its neutral coefficients it is FedAvg", neutral, _no_neutral),
    Rule("effect", "with the options given it is not FedAvg", effect, _is_fedavg),
    Rule("lanes", "any clients may share a group", lanes),
    Rule("padding", "lanes without a client change nothing", padding),
    Rule("order", "clients may come in any order", order),
    Rule("again", "a second run, with files, ends the same", again),
    Rule("shapes", "the state keeps its names, shapes and types", shapes),
    Rule("intact", "a round leaves the state before it as it was", intact),
    Rule("once", "only round 1 compiles", once, _no_compiler),
    Rule("compiled", "compiled rounds end where eager ones do", compiled, _no_compiler),
    Rule("ranks", "2 and 3 ranks end as one does", ranks, together=True),
    Rule("resume", "killed and resumed, it ends the same", resume, together=True),
)
"""All checks, in the order of the table."""
