"""What libraries of continual learning ran, as options of this program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pooled
from public_case import Case, of


def tasks(
    options: Mapping[str, object],
    count: int = 3,
    turns: Sequence[Sequence[int]] = pooled.TURNS,
    network: str = "Network",
) -> Case:
    """A method on so many tasks one after the other, each in as many rounds as there are turns."""
    stream = {
        "stream": "ClassGroups", "stream.tasks": pooled.CLASSES // pooled.OF_TASK, "stream.size": pooled.OF_TASK,
        "stream.task_rounds": len(turns), "local_epochs": 1,
    }  # fmt: skip
    return Case({**stream, **options}, tuple(turns) * count, network, pooled.samples)


def lwf(lam: float = 1.5, classes: str = "new", heads: str = "one", **run: object) -> Mapping[str, object]:
    """With options of the run."""
    return {**of("LwF", lam=lam, tau=3.0, classes=classes, heads=heads), **run}


def ewc(lam: float = 4.0, scenario: str = "class", **options: object) -> Mapping[str, object]:
    """With gradients of the penalty, as public code has them."""
    return {**of("OnlineEWC", lam=lam, penalty_step="explicit", **options), "stream.scenario": scenario}


SI = of("FedCL", lam=0.4, omega="si", xi=0.02, every=0, missing="local")
CONTINUAL = {
    "facil: lwf": tasks(lwf()),
    "facil: lwf, alone": tasks(lwf(local_epochs=2), turns=pooled.ALONE),
    "facil: lwf, BatchNorm": tasks(lwf(local_epochs=2), turns=pooled.ALONE, network="Normed"),
    # no head is trained, so none is left out
    "facil: lwf, fixed heads": tasks(lwf(), network="Fixed"),
    "facil: lwf, exemplars": tasks({**lwf(classes="all"), "stream.keep": True}),
    "facil: ewc": tasks(ewc(4 * 0.6, "task"), 2),
    "facil: ewc, alone": tasks({**ewc(4 * 0.6, "task"), "local_epochs": 2}, 2, pooled.ALONE),
    # a later task's is there of all heads so far, though it trains its own alone, and holds none; so heads are fixed
    "facil: ewc, fixed heads": tasks(ewc(4 * 0.6, decay=0.4), network="Fixed"),
    "pycil: lwf": tasks(lwf(local_epochs=5, momentum=0.9), turns=[[0]]),
    "pycil: lwf, BatchNorm": tasks(lwf(local_epochs=5, momentum=0.9), turns=[[0]], network="Normed"),
    "continual_learning: ewc": tasks(ewc(scenario="task", centre="each")),
    "continual_learning: ewc, one head": tasks(ewc(centre="each", kind="exact")),
    "continual_learning: online ewc": tasks(ewc(4 * 0.6, "task", decay=0.6, kind="exact")),
    "continual_learning: online ewc, one head": tasks(ewc(4 * 0.6, decay=0.6)),
    "continual_learning: lwf": tasks(lwf(lam=1.0, heads="each")),
    "continual_learning_si: si": Case(SI),
    "continual_learning_si: si with momentum": Case({**SI, "momentum": 0.4, "weight_decay": 5e-3}),
}
