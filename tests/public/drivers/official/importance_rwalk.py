"""Runs the path score of "importance from agent", RWalk, on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE/src python tests/public/drivers/official/importance_rwalk.py CLONE

CLONE is a checkout of the branch rwalk of https://github.com/mjmjeong/AML-XAI-Project, which needs torchvision and
tqdm. Its script and its three local updates run unchanged, with what importance_ewc.py gives. The second and the third
update have a score of the last step alone, have none in the first two rounds, and set it against the received Fisher
information, not against a running one of the client's own steps. So rounds have the numbers from the third on here, and
clients of the first one take one step and receive the Fisher information of their own samples at the received model, as
the update measures it, and a score of zero. The first update has another score, so its first round is the second
update's.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import torch
from federation import LATER
from importance_ewc import NORMED, Case, rounds_of, surround, updates
from public_numbers import Found, Round, write

LATE = 2
"""Rounds that the script believes to have had."""
STATE = {"fisher": "global_fisher", "score": "global_scores"}
ONCE: Sequence[Sequence[int]] = ((0, 1, 2, 3),)


def weighted(local: str) -> Case:
    """The average by Fisher information and score."""
    return Case(updates(local, NORMED, "own"), ONCE, (1,), state=STATE)


def penalised(local: str) -> Case:
    """A round with a penalty by both, after one that makes them."""
    return Case(updates(local, "avg", "summation", ewc_lambda=0.02), LATER[:2], (1, 3), state=STATE)


CASES = {
    "weighted average": weighted("rwalk_v2"),
    "weighted average, third update": weighted("rwalk_v3"),
    "penalty": penalised("rwalk_v2"),
    "penalty, third update": penalised("rwalk_v3"),
    "penalty, first update": penalised("rwalk"),
}


def begin(update: Any, second: Any) -> None:
    """Let an update's first round be the second one's, with the Fisher information that it starts from."""
    later, first, measured = update.update_weights, second.update_weights, second.compute_diag_fisher

    def update_weights(self: Any, model: Any, fisher: Any, score: Any, global_round: int) -> Any:
        if fisher is not None:
            return later(self, model, fisher, score, global_round)
        fisher = measured(self, model, model)
        none = {name: torch.zeros_like(own) for name, own in fisher.items()}
        return first(self, model, fisher, none, global_round)

    update.update_weights = update_weights


def each_round(main: Any, t: int) -> None:
    """In the first one nothing is kept of the Fisher information, which nobody else has."""
    main.args.fisher_update_type = "own" if t == 0 else "summation"


def comparable(rounds: Sequence[Round]) -> list[Round]:
    """Without scores of several steps."""
    return [{name: own for name, own in each.items() if t == 0 or name != "score"} for t, each in enumerate(rounds)]


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    surround()
    progress: Any = importlib.import_module("tqdm")
    progress.tqdm = lambda rounds: range(LATE, LATE + len(rounds))
    names = ("rwalk", "rwalk_v3", "rwalk_v2")
    local: list[Any] = [importlib.import_module(f"local_update_set.{name}").LocalUpdate for name in names]
    for update in local:
        begin(update, local[-1])
    clone = sys.argv[1]
    found = {name: Found(case.settings, comparable(rounds_of(clone, case, each_round))) for name, case in CASES.items()}
    write("importance_rwalk", "https://github.com/mjmjeong/AML-XAI-Project, branch rwalk", clone, found)
