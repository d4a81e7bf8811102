"""Fisher-weighted averaging, EWC and RWalk against their closed forms."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import numpy as np
import pytest
import torch
from given import GivenRounds, Weights, round_of_one_task
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import (
    LR,
    OPTIMUM,
    THETA_0,
    A,
    B,
    OneWeight,
    Rounds,
    approx,
    assert_order_of_clients_does_not_matter,
    assert_same_bits,
    descend,
    epoch_of_single_samples,
    networks_after,
    quadratic,
    small_network,
)
from torch import Tensor

from fl_ddp.errors import RunError
from fl_ddp.importance.scale import of_largest
from fl_ddp.methods import fisheravg
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fisheravg import FisherAvg

COHORTS = [[0, 1, 2, 3, 4], [1, 2, 4]]
THETA, FISHER = [[1.0, 2.0], [3.0, 6.0]], [[3.0, 4.0], [1.0, 0.0]]


def averaged(
    monkeypatch: pytest.MonkeyPatch, theta: list[list[float]], fisher: list[list[float]], **options: Any
) -> Tensor:
    """The server's model after one round of clients that end at theta with this Fisher; all coordinates one tensor."""
    method = FisherAvg(Weights([0.5] * len(theta[0])), **options)
    return GivenRounds(method, fisheravg, monkeypatch).play(theta, fisher)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [2.25, 2.0]),
        ({"layer_norm": "none"}, [1.5, 2.0]),
        ({"layer_norm": "l1"}, [2.4, 2.0]),
        # max: g = (.75, 1) and (1, 0)
        ({"layer_norm": "max"}, [(0.75 * 1 + 3) / 1.75, 2.0]),
        ({"compat_eps": 1e-8}, [2.2499999859375, 1.99999997500000031]),
        ({"weighted": False}, [2.0, 4.0]),
        # ten and twenty samples
        ({"weights": "data"}, [(0.6 * 1 + 2 * 3) / 2.6, 2.0]),
        ({"weights": "data", "weighted": False}, [(1 + 2 * 3) / 3, (2 + 2 * 6) / 3]),
    ],
)
def test_the_average_of_two_clients(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: list[float]
) -> None:
    """l2: g = (.6, .8) and (1, 0), so (.6 * 1 + 1 * 3) / 1.6; Algorithm 1's further 1/m would give half of it."""
    assert averaged(monkeypatch, THETA, FISHER, **options).tolist() == approx(expected)


def test_weights_too_small_for_exact_sums_count_as_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """1e-18 would survive in the sum of weights, but not times a small change: the plain mean counts."""
    new = averaged(monkeypatch, [[0.51], [0.52]], [[1e-18], [2e-18]], layer_norm="none")
    assert new.item() == approx(0.515)


def test_each_tensor_has_a_norm_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alone in its tensor, a coordinate weighs 1 in every client."""
    rounds = GivenRounds(FisherAvg(Weights([0.0], [0.0])), fisheravg, monkeypatch)
    assert rounds.play(THETA, [[3.0, 4.0], [1.0, 2.0]]).tolist() == approx([2.0, 4.0])


def test_a_client_that_knows_nothing_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    assert averaged(monkeypatch, THETA, [[3.0, 4.0], [0.0, 0.0]]).tolist() == approx(THETA[0])


def test_where_no_client_knows_anything_the_plain_mean_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert averaged(monkeypatch, THETA, [[0.0, 0.0], [0.0, 0.0]]).tolist() == approx([2.0, 4.0])
    assert averaged(monkeypatch, THETA, [[1.0, 0.0], [2.0, 0.0]]).tolist() == approx([2.0, 4.0])


def test_the_codes_eps_loses_unknown_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    assert averaged(monkeypatch, THETA, [[1.0, 0.0], [2.0, 0.0]], compat_eps=1e-8)[1] == 0


POSITIVE = st.floats(0.01, 100)


@settings(deadline=None, max_examples=30)
@given(st.lists(POSITIVE, min_size=3, max_size=3), st.lists(POSITIVE, min_size=4, max_size=4))
def test_the_scale_of_a_clients_fisher_does_not_matter_and_equal_fishers_give_the_mean(
    fisher: list[float], scales: list[float]
) -> None:
    theta = np.random.default_rng(0).normal(size=(4, 3)).tolist()
    with pytest.MonkeyPatch.context() as monkeypatch:
        new = averaged(monkeypatch, theta, [[scale * f for f in fisher] for scale in scales])
    assert new.tolist() == pytest.approx(np.mean(theta, 0).tolist(), rel=1e-9, abs=1e-9)


def test_fisher_of_exact_optima_leads_to_the_optimum_of_the_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients at b_k with curvature a_k: sum a_k b_k / sum a_k minimises the sum of a_k / 2 (theta - b_k)^2."""
    new = averaged(monkeypatch, [[b] for b in B], [[a] for a in A], layer_norm="none")
    assert new.item() == approx(OPTIMUM)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, 1.1), ({"gamma": 0.0}, 2.0), ({"gamma": 1.0}, 1.0), ({"fisher_update": "sum"}, 3.0)],
)
def test_the_global_fisher_is_the_mean_of_the_clients_mixed_ones(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: float
) -> None:
    """First F = 1 for all; then f = 2: Eq. 4 weighs the old one by gamma."""
    rounds = GivenRounds(FisherAvg(Weights([0.0]), **options), fisheravg, monkeypatch)
    rounds.play([[0.0], [1.0]], [[0.5], [1.5]])
    assert rounds.server["fisher"].item() == approx(1.0)
    rounds.play([[0.0], [1.0]], [[2.0], [2.0]])
    assert rounds.server["fisher"].item() == approx(expected)


def test_the_average_is_weighted_by_the_mixed_fisher_or_by_the_fresh_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for agg_fisher, weights in (("ema", (0.9 + 0.1, 0.9 + 0.3)), ("fresh", (1.0, 3.0))):
        method = FisherAvg(Weights([0.0]), layer_norm="none", agg_fisher=agg_fisher)  # type: ignore[arg-type]
        rounds = GivenRounds(method, fisheravg, monkeypatch)
        rounds.play([[0.0], [0.0]], [[1.0], [1.0]])
        new = rounds.play([[1.0], [5.0]], [[1.0], [3.0]])
        assert new.item() == approx((weights[0] * 1 + weights[1] * 5) / sum(weights))


@pytest.mark.parametrize("step", ["explicit", "proximal"])
def test_ewc_holds_clients_where_the_global_fisher_is_large(step: str) -> None:
    """Client 1, lam 3, F .4, from the second round on: A = a + lam F,
    B = (a b + lam F theta) / A; 1.57152 after 3 steps.

    The proximal step is (theta - lr a (theta - b) + lr lam F theta_t) / (1 + lr lam F).
    """
    method = FisherAvg(OneWeight(), lam=3.0, penalty_step=step)  # type: ignore[arg-type]
    rounds = Rounds(method, quadratic(), epoch_of_single_samples())
    rounds.finished, rounds.server = 1, rounds.server | {"fisher": torch.tensor([0.4], dtype=torch.float64)}
    rounds.play([1])
    stiff = 3.0 * 0.4
    if step == "explicit":
        expected = descend(A[1] + stiff, (A[1] * B[1] + stiff * THETA_0) / (A[1] + stiff), THETA_0, 3)
        assert expected == approx(1.57152)
    else:
        expected = THETA_0
        for _ in range(3):
            expected = (expected - LR * A[1] * (expected - B[1]) + LR * stiff * THETA_0) / (1 + LR * stiff)
    assert rounds.local_scalars() == approx([expected])


def test_the_first_round_has_no_penalty() -> None:
    stiff = networks_after(FisherAvg(small_network(), lam=1e3), [[0, 1, 2]])
    assert_same_bits(stiff, networks_after(FisherAvg(small_network(), lam=0.0), [[0, 1, 2]]))


def test_the_proximal_step_is_stable_where_the_explicit_one_is_not() -> None:
    def play(step: str) -> Rounds:
        rounds = Rounds(
            FisherAvg(OneWeight(), lam=1e5, penalty_step=step),  # type: ignore[arg-type]
            quadratic(),
            epoch_of_single_samples(),
        )
        rounds.finished, rounds.server = 1, rounds.server | {"fisher": torch.tensor([0.4], dtype=torch.float64)}
        rounds.play()
        return rounds

    assert (np.abs(play("proximal").local_scalars() - THETA_0) < 0.1).all()
    with pytest.raises(RunError, match="'delta' is out of range"):
        play("explicit")


def test_without_penalty_and_weights_it_is_fedavg_bit_for_bit() -> None:
    theta = networks_after(FedAvg(small_network(), weights="uniform"), COHORTS)["theta"]
    kinds: tuple[Literal["fisher", "rwalk"], ...] = ("fisher", "rwalk")
    steps: tuple[Literal["explicit", "proximal"], ...] = ("explicit", "proximal")
    for importance, step in product(kinds, steps):
        method = FisherAvg(small_network(), lam=0.0, weighted=False, importance=importance, penalty_step=step)
        assert theta.equal(networks_after(method, COHORTS)["theta"]), (importance, step)


def test_clients_that_end_at_the_same_model_leave_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no client knows anything."""
    same = averaged(monkeypatch, [[1.0, -2.0, 0.3]] * 3, [[3.0, 0.0, 0.0], [0.1, 0.0, 0.0], [7.0, 1e-3, 0.0]])
    assert same.tolist() == approx([1.0, -2.0, 0.3])


def test_score_of_one_window_is_the_path_integral_over_the_change() -> None:
    """Descent on A / 2 (theta - B)^2, A = 2, B = 1, from 2, 7 steps of .1: w = 1.0622; F .3, eps 1e-3: 11.219."""
    method = FisherAvg(OneWeight(), importance="rwalk", interval=8, eps=1e-3)
    old = torch.tensor(2.0, dtype=torch.float64)
    trace = {"w": old * 0, "score": old * 0, "f": old * 0 + 0.3, "start": old}
    # step 0 would take its gradient for the Fisher
    for step in range(1, 8):
        g = 2 * (old - 1)
        trace = method.track(trace, old, old - 0.1 * g, g, torch.tensor(step))
        old = old - 0.1 * g
    assert trace["score"].item() == approx(11.219008983520698)
    assert trace["w"].item() == 0 and trace["start"].equal(old)
    # the Fisher of the next window: alpha weighs the newest gradient
    assert trace["f"].item() == approx(0.9 * g.item() ** 2 + 0.1 * 0.3)


def test_rwalk_sums_windows_of_local_training_and_starts_from_the_first_gradient() -> None:
    """Two windows of two steps, and the fifth step's, which the end of the training cuts short."""
    method = FisherAvg(OneWeight(), importance="rwalk", interval=2, lam=0.0)
    rounds = Rounds(method, quadratic(), epoch_of_single_samples())
    rounds.play([0])
    theta, start, score, w, f = THETA_0, THETA_0, 0.0, 0.0, 0.0
    for step in range(5):
        g = A[0] * (theta - B[0])
        f = g**2 if step == 0 else f
        w, theta = w + LR * g**2, theta - LR * g
        if step % 2 or step == 4:
            score += w / (f * (theta - start) ** 2 / 2 + 1e-3)
            w, start, f = 0.0, theta, 0.9 * g**2 + 0.1 * f
    assert rounds.server["score"].item() == approx(score)


def test_rwalk_adds_scores_to_weights_and_halves_the_old_score(monkeypatch: pytest.MonkeyPatch) -> None:
    method = FisherAvg(Weights([0.0]), importance="rwalk", layer_norm="none")
    rounds = GivenRounds(method, fisheravg, monkeypatch)
    ended = {key: [[0.0], [0.0]] for key in ("w", "f", "start")}
    new = rounds.play([[1.0], [5.0]], [[1.0], [1.0]], trace={"score": [[1.0], [3.0]], **ended})
    assert new.item() == approx((2 * 1 + 4 * 5) / 6)
    assert rounds.server["score"].item() == approx(2.0)
    rounds.play([[1.0], [5.0]], [[1.0], [1.0]], trace={"score": [[2.0], [2.0]], **ended})
    assert rounds.server["score"].item() == approx((2 + 2) / 2)


def test_rwalks_penalty_takes_fisher_and_score_by_their_largest_entries() -> None:
    method = FisherAvg(small_network(), importance="rwalk", lam=7.0)
    omega = of_largest(torch.tensor([1.0, 4.0])) + of_largest(torch.tensor([3.0, 0.0]))
    assert omega.tolist() == [1.25, 1.0]
    assert of_largest(torch.zeros(2)).tolist() == [0, 0]
    (prior,) = method.priors({"omega": omega, "theta": omega}, {})
    assert prior.curvature.tolist() == [8.75, 7.0]


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FisherAvg(small_network(), lam=10.0))
    assert_order_of_clients_does_not_matter(FisherAvg(small_network(), lam=0.1, importance="rwalk", interval=2))


def test_what_travels() -> None:
    """theta and F both ways, F not yet in the first round; with RWalk the score too."""
    network = small_network()
    fisher, rwalk = FisherAvg(network), FisherAvg(network, importance="rwalk")
    assert [m.sent(round_of_one_task(t)) for m in (fisher, rwalk) for t in (0, 1)] == [
        ("theta",), ("theta", "fisher"), ("theta",), ("theta", "fisher", "score"),
    ]  # fmt: skip
