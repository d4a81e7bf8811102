"""What each client does in a round, and at what rate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fl_ddp.building.idle_clients import num_idle
from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.check.runs import SOLO, play
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.plan import Plan
from fl_ddp.federation import Federation, build_federation
from fl_ddp.tasks.pace import factors_of

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
PLAN = Plan(10, 20.0, None, 0.1)


def founded(**settings: object) -> Federation:
    given = {"model.hidden": 4, "compile": False, "device": "cpu", "local_epochs": 20, **settings}
    return build_federation(from_mapping(given), SOLO)


@pytest.mark.parametrize("method", ["FedAvg", "Scaffold", "FedNova", "FedCurv", "FedPAC"])
def test_half_the_rate_of_all_clients_is_half_the_rate(method: str) -> None:
    """Bit for bit, as a half is exact."""
    settings = {"method": method, "rounds": 2, "local_test": 0.0, "forgetting_every": 0}
    more = {"method.head_lr": 0.1} if method == "FedPAC" else {}
    half = play({**settings, "lr": 0.2, "client_lr": "uniform(0.5,0.5)", **more})
    less = {"method.head_lr": 0.05} if method == "FedPAC" else {}
    assert half.state.unlike(play({**settings, "lr": 0.1, **less}).state) == ""


@pytest.mark.parametrize("amount", [{"local_epochs": 3}, {"local_steps": 6}])
def test_half_the_work_of_all_clients_is_half_the_work(amount: dict[str, float]) -> None:
    settings = {"method": "FedNova", "rounds": 2, "local_test": 0.0, "forgetting_every": 0}
    half = play({**settings, **amount, "client_work": "uniform(0.5,0.5)"})
    less = {name: value / 2 if name == "local_epochs" else value // 2 for name, value in amount.items()}
    assert half.state.unlike(play({**settings, **less}).state) == ""


def test_rates_and_work_are_drawn_once_for_each_client_by_the_run_s_seed() -> None:
    given = {"client_lr": "uniform(1,3)", "client_work": "loguniform(0.1,10)"}
    few, many, other = (founded(clients=n, seed=seed, **given).pace for n, seed in ((20, 0), (60, 0), (20, 1)))
    ids = np.arange(20)
    first = few.of(PLAN, 0, ids)
    lr, epochs = first.lr_factor, first.epochs
    assert lr is not None and epochs is not None and len(set(lr)) == len(set(np.asarray(epochs))) == 20
    assert abs(np.corrcoef(lr, np.log(np.asarray(epochs, np.float64)))[0, 1]) < 0.6, "they are drawn apart"
    for again in (few.of(PLAN, 7, ids), many.of(PLAN, 0, ids)):
        assert again.lr_factor is not None and again.epochs is not None
        assert np.array_equal(again.lr_factor, lr) and np.array_equal(again.epochs, epochs)
    theirs = other.of(PLAN, 0, ids).lr_factor
    assert theirs is not None and not np.isin(theirs, lr).any()
    some = few.of(PLAN, 0, np.array([4, 2, -1]))
    assert some.lr_factor is not None and some.lr_factor[:2].tolist() == lr[[4, 2]].tolist()
    assert 1 < np.min(lr) < 1.4 and 2.6 < np.max(lr) < 3


def test_stragglers_are_a_share_of_the_cohort_and_do_whole_epochs_evenly() -> None:
    """Li et al. 2020, section 5.2: x epochs, uniformly from 1 to E."""
    federation = founded(clients=30, cohort=10, stragglers=0.9)
    done: list[float] = []
    times = np.zeros(30)
    for index in range(300):
        ids = federation.turnout.of_round(index)
        late = federation.turnout.stragglers(index)
        assert len(ids) == 10 and len(late) == 9 and set(late) <= set(ids)
        times[late] += 1
        epochs = np.asarray(federation.pace.of(PLAN, index, ids).epochs)
        assert epochs[~np.isin(ids, late)].tolist() == [20.0]
        done += epochs[np.isin(ids, late)].tolist()
    assert set(done) == set(range(1, 21))
    counts = np.bincount(np.array(done, np.int64))[1:]
    assert np.abs(counts - 135).max() < 5 * np.sqrt(135)
    assert np.abs(times - 90).max() < 5 * np.sqrt(90)
    assert federation.pace.of(PLAN, 0, np.array([-1])).epochs == np.array([20.0]), "padding does nothing of it"


@pytest.mark.parametrize(("share", "number"), [(0.3, 2), (0.2, 1), (0.05, 0)])
def test_the_number_of_stragglers_is_rounded(share: float, number: int) -> None:
    assert len(founded(clients=6, stragglers=share).turnout.stragglers(0)) == number


def test_stragglers_may_be_dropped() -> None:
    federation = founded(cohort=10, stragglers=0.5, drop_stragglers=True, local_epochs=1)
    for index in range(20):
        drawn, late = federation.turnout.drawn(index), federation.turnout.stragglers(index)
        assert federation.turnout.of_round(index).tolist() == np.setdiff1d(drawn, late).tolist() and len(late) == 5
    assert founded(stragglers=1.0, drop_stragglers=True).turnout.previous(9) == -1


def test_clients_with_little_work_may_have_no_full_batch() -> None:
    """Of 10 clients with 143 or 144 samples, a hundredth of an epoch is one sample."""
    config = from_mapping({"clients": 10, "partition": "IID", "drop_last": True, "client_work": "uniform(0.01,0.01)"})
    more = config.with_changes(client_work="uniform(0.1,0.1)")
    assert num_idle(config, [np.arange(143)] * 9 + [np.arange(0)], factors_of(config, "client_work")) == 9
    assert num_idle(more, [np.arange(143)] * 10, factors_of(more, "client_work")) == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FedNova", pytest.param("Scaffold", marks=pytest.mark.slow)])
def test_bits_are_the_same_in_any_groups_on_any_ranks_and_after_a_kill(method: str, tmp_path: Path) -> None:
    given = {"client_lr": "uniform(0.5,1.5)", "client_work": "uniform(0.5,2)", "stragglers": 0.5, "local_epochs": 2}
    with Judge() as judge:
        found = list(judge.findings(Case(method, {"method": method, **given}, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []
