"""Online EWC: what is kept of a task, and what it does in the next ones."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from fl_ddp.check.runs import SETTINGS, SOLO, Unwritten, play
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import build_federation
from fl_ddp.methods.onlineewc import OnlineEWC
from fl_ddp.protocol import Info, Total

THREE: dict[str, object] = {
    "method": "OnlineEWC", "stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2,
    "rounds": 6, "forgetting_every": 0,
}  # fmt: skip


def played(**options: object) -> Unwritten:
    return play({**THREE, **{f"method.{name}": value for name, value in options.items()}})


def method(**options: object) -> OnlineEWC:
    built = build_federation(from_mapping({**SETTINGS, "method": "OnlineEWC"}), SOLO)
    return OnlineEWC(built.model, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run() -> Unwritten:
    return played(lam=50.0)


def test_the_centre_is_the_model_at_the_end_of_the_last_task(run: Unwritten) -> None:
    servers = [run.first.server, *(state.server for state in run.states)]
    for index, server in enumerate(servers):
        over = min(2 * (index // 2), 4)  # rounds at which a task was over; the third has no end
        assert torch.equal(server["anchor"], servers[over]["theta"]), index


def test_the_fisher_changes_at_the_ends_of_tasks_alone(run: Unwritten) -> None:
    fishers = [run.first.server["fisher"], *(state.server["fisher"] for state in run.states)]
    changed = [not torch.equal(a, b) for a, b in pairwise(fishers)]
    assert changed == [False, True, False, True, False, False]
    assert bool((fishers[2] >= 0).all()) and fishers[2].any()
    assert bool((fishers[4] >= fishers[2]).all())  # decay 1 keeps what there was


def test_the_first_task_is_fedavg_s_and_the_second_is_not() -> None:
    ours, theirs = played(lam=50.0), play({**THREE, "method": "FedAvg"})
    pairs = zip(ours.states, theirs.states, strict=True)
    same = [torch.equal(a.server["theta"], b.server["theta"]) for a, b in pairs]
    assert same == [True, True, False, False, False, False]


def test_a_strong_penalty_holds_what_the_first_task_has_shown() -> None:
    weak, strong = played(lam=1e-3), played(lam=1e6)

    def moved(run: Unwritten) -> Tensor:
        first, last = run.states[1].server, run.states[3].server
        known = first["fisher"] > first["fisher"].max() / 100
        return (last["theta"] - first["theta"])[known].abs().mean()

    assert moved(strong) < 0.05 * moved(weak)


@pytest.mark.parametrize(("decay", "expected"), [(1.0, [3.0, 5.0]), (0.5, [2.0, 3.0]), (0.0, [1.0, 1.0])])
def test_the_next_fisher_is_the_decayed_one_and_the_clients_mean(decay: float, expected: list[float]) -> None:
    ewc = method(decay=decay)
    size = ewc.model.num_params
    old = torch.cat([torch.tensor([2.0, 4.0]), torch.zeros(size - 2)])
    server = ewc.init() | {"fisher": old}
    sums = {"weight": torch.tensor(8.0), "delta": torch.zeros(size), "fisher": torch.full((size,), 8.0)}
    info = Info(0, torch.arange(8), 8, torch.tensor(0))
    assert ewc.server_update(server, Total(sums), info)["fisher"][:2].tolist() == expected
    del sums["fisher"]
    assert torch.equal(ewc.server_update(server, Total(sums), info)["fisher"], old)


def test_the_terms_of_all_tasks_are_one_around_the_mean_of_their_centres() -> None:
    """f_1 (x - a)^2 + f_2 (x - b)^2 is (f_1 + f_2) (x - m)^2 and a constant, m = (f_1 a + f_2 b) / (f_1 + f_2)."""
    ewc = method(centre="each", decay=0.5)
    size = ewc.model.num_params
    server = ewc.init() | {"anchor": torch.full((size,), 3.0), "fisher": torch.zeros(size)}
    server["fisher"][:2] = torch.tensor([2.0, 6.0])
    fresh = torch.ones(size)
    fresh[2] = 0.0
    sums = {"weight": torch.tensor(8.0), "delta": torch.zeros(size), "fisher": 8 * fresh}
    after = ewc.server_update(server, Total(sums), Info(0, torch.arange(8), 8, torch.tensor(0)))
    theta = server["theta"]
    expected = torch.cat([(torch.tensor([1.0, 3.0, 0.0]) * 3 + fresh[:3] * theta[:3]), theta[3:]])
    expected[:3] /= torch.tensor([2.0, 4.0, 1.0])
    expected[2] = 3.0  # of which nothing is known
    torch.testing.assert_close(after["anchor"], expected)
    assert after["fisher"][:4].tolist() == [2.0, 4.0, 0.0, 1.0]
    assert ewc.end_of_task(after, 0) is after
    del sums["fisher"]
    assert (
        ewc.server_update(server, Total(sums), Info(1, torch.arange(8), 8, torch.tensor(0)))["anchor"]
        is server["anchor"]
    )


def test_the_penalty_is_a_quadratic_around_the_centre() -> None:
    (prior,) = method(lam=3.0).priors({"fisher": torch.tensor([2.0]), "anchor": torch.tensor([1.0])}, {})
    assert prior.exact and prior.curvature.tolist() == [6.0] and prior.anchor.tolist() == [1.0]
    # (x - 2)^2 / 2 + 0.5 * 6 / 2 (x - 1)^2 is least at (2 + 3) / 4
    assert prior.solved_from(torch.tensor([2.0]), torch.tensor(0.5)).tolist() == [1.25]
