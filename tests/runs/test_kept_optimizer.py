"""Clients' optimizers that go on: as one of torch's per client, on any ranks and groups, and after a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from launching import simulated
from torch.nn import functional as F

from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.check.runs import course
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.ranks.collectives import Ranks

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
KEPT: dict[str, object] = {"momentum": 0.9, "optimizer.keep": True}
ADAM: dict[str, object] = {"momentum": 0.0, "optimizer": "Adam", "lr": 0.01, "optimizer.keep": True, "clip_norm": 1.0}
TINY = {
    **KEPT, "model": "MLP", "model.hidden": 16, "clients": 4, "rounds": 3,
    "compile": False, "figures": False, "device": "cpu",
    "checkpoint_every": 1, "keep_checkpoints": 9, "name": "run", "lr": 0.05, "weight_decay": 0.01,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [pytest.param("MOON", KEPT, marks=pytest.mark.slow), ("FedAvg", KEPT), ("FedDyn", ADAM)],
    ids=["MOON with momentum", "FedAvg with momentum", "FedDyn with Adam"],
)
def test_runs_have_the_same_bits_in_any_groups_on_any_ranks_and_after_a_kill(
    method: str, settings: dict[str, object], tmp_path: Path
) -> None:
    with Judge() as judge:
        found = list(judge.findings(Case(method, {"method": method, **settings}, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


def test_each_client_has_one_optimizer_for_the_whole_run(tmp_path: Path) -> None:
    """Whole batches of all samples, so that no order of them matters; clients of one and of many batches of steps."""
    settings = {**TINY, "batch_size": 10_000, "local_epochs": 3}
    states = course(simulated(settings, tmp_path))
    federation = build_federation(from_mapping(settings), Ranks(0, 1, torch.device("cpu")))
    x = (train := federation.worlds.at(0).train).inputs(train.x, torch.float32)
    theta = federation.model.init()
    weights = [theta.clone().requires_grad_() for _ in federation.clients]
    optimizers = [torch.optim.SGD([w], lr=0.05, momentum=0.9, weight_decay=0.01) for w in weights]
    sizes = np.array([len(part) for part in federation.clients])
    for state in states:
        for own, optimizer, part in zip(weights, optimizers, federation.clients, strict=True):
            own.data.copy_(theta)
            for _ in range(3):
                optimizer.zero_grad()
                index = torch.from_numpy(part)
                F.cross_entropy(federation.model.logits(own, x[index]), train.y[index]).backward()  # type: ignore[no-untyped-call]
                optimizer.step()
        shares = torch.from_numpy(sizes / sizes.sum())
        theta = sum(p * own.detach() for p, own in zip(shares, weights, strict=True)).float()
        torch.testing.assert_close(state.server["theta"], theta, rtol=1e-4, atol=1e-6)
    kept = states[-1].memory
    buffers = torch.stack(
        [optimizer.state[w]["momentum_buffer"] for optimizer, w in zip(optimizers, weights, strict=True)]
    )
    torch.testing.assert_close(kept["optimizer_momentum_buffer"][kept["ids"].argsort()], buffers, rtol=1e-3, atol=1e-5)


def test_each_client_has_one_adam_for_the_whole_run(tmp_path: Path) -> None:
    settings = {**TINY, **ADAM, "batch_size": 10_000, "local_epochs": 3, "clients": 2, "model.hidden": 4}
    kept = course(simulated(settings, tmp_path))[-1].memory
    assert {name for name in kept if name.startswith("optimizer_")} == {
        "optimizer_exp_avg", "optimizer_exp_avg_sq", "optimizer_steps",
    }  # fmt: skip
    assert kept["optimizer_steps"].tolist() == [9, 9]


def test_a_client_without_a_step_and_one_out_of_the_cohort_keep_theirs(tmp_path: Path) -> None:
    settings = {**TINY, "clients": 6, "cohort": 3, "lanes": 4, "batch_size": 40, "partition": "Dirichlet"}
    before, after = (
        dict(zip(state.memory["ids"].tolist(), state.memory["optimizer_momentum_buffer"], strict=True))
        for state in course(simulated(settings, tmp_path))[1:]
    )
    assert sum(torch.equal(own, after[k]) for k, own in before.items()) == len(before.keys() | after.keys()) - 3
    assert all(own.any() for own in after.values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"momentum": 0.0},
            "--optimizer.keep: true, but there is nothing to keep; accepted: --momentum above 0 beside it",
        ),
        (
            {"method": "FedRep"},
            "--optimizer.keep: true, but FedRep needs an optimizer that begins anew; accepted: false",
        ),
        (
            {"method": "FedCL", "method.omega": "si", "method.missing": "local"},
            "--optimizer.keep: true, but FedCL needs an optimizer that begins anew; accepted: false",
        ),
        ({"optimizer": "Adam"}, "--momentum: 0.9, but Adam has none; accepted: 0"),
        (
            {"optimizer": "AdamW", "momentum": 0.0},
            "--weight_decay: 0.01, but AdamW has one of its own; accepted: --optimizer.weight_decay",
        ),
        (
            {"momentum": 0.0, "optimizer.nesterov": True},
            "--optimizer.nesterov: true, but there is no momentum; accepted: --momentum above 0 beside it",
        ),
        (
            {"optimizer.nesterov": True, "optimizer.dampening": 0.5},
            "--optimizer.dampening: 0.5, but Nesterov momentum has none; accepted: 0",
        ),
        *(
            (
                {"method": method, "optimizer": "Adam", "momentum": 0.0},
                f"--optimizer: Adam, but {method} reckons with steps of plain SGD or SGD with momentum; accepted: SGD",
            )
            for method in ("FedNova", "Scaffold")
        ),
        *(
            (
                {"method": "Scaffold", **one},
                f"--optimizer.{of}, but Scaffold reckons with steps of plain SGD or SGD with momentum; "
                f"accepted: {other}",
            )
            for one, of, other in (
                ({"optimizer.nesterov": True}, "nesterov: true", "false"),
                ({"optimizer.dampening": 0.5}, "dampening: 0.5", "0"),
            )
        ),
        ({"clip_norm": 0.0}, "--clip_norm: 0.0 is impossible; accepted: numbers above 0"),
        (
            {"optimizer.nesterov": True, "optimizer.keep": 2},
            "optimizer.keep: 2 has the wrong type; accepted: true or false",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        simulated({**TINY, **settings}, tmp_path)
    assert str(error.value) == message


def test_a_method_that_trains_a_longer_vector_is_refused(tmp_path: Path) -> None:
    own = tmp_path / "trains_more.py"
    own.write_text("from fl_ddp.methods.fedrod import FedRoD\n\nclass More(FedRoD):\n    keeps_optimizer = True\n")
    with pytest.raises(ConfigError, match="but the method trains a vector of 1380, not the model's 1210"):
        simulated({**TINY, "method": f"{own}:More"}, tmp_path)
