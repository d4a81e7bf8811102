"""FedCurv against the double sum over clients it stands for."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from given import GivenRounds, Weights
from quadratic import (
    TAU,
    A,
    B,
    OneWeight,
    Rounds,
    approx,
    assert_order_of_clients_does_not_matter,
    assert_same_bits,
    descend,
    local_models,
    networks_after,
    quadratic,
    small_network,
    steps,
)
from torch import Tensor

from fl_ddp.methods import fedcurv
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedcurv import FedCurv
from fl_ddp.methods.fedprox import FedProx
from fl_ddp.protocol import Term

COHORTS = [[0, 1, 2, 3, 4], [1, 2, 4], [0, 2, 3]]
GENERATOR = np.random.default_rng(3)
THETA, FISHER = GENERATOR.normal(size=(4, 3)), GENERATOR.uniform(0.1, 2, (4, 3))


def penalty_gradient(method: FedCurv, server: dict[str, Tensor], mine: dict[str, Tensor], theta: Tensor) -> Tensor:
    (prior,) = method.priors(server, mine)
    return prior.added_to(torch.zeros_like(theta), theta)


def test_u_and_v_are_the_double_sum_without_ones_own_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eq. 3: the gradient is 2 lam sum over j != s of I_j (theta - theta_j)."""
    method = FedCurv(Weights([0.0, 0.0, 0.0]), lam=0.7)
    rounds = GivenRounds(method, fedcurv, monkeypatch)
    rounds.play(THETA.tolist(), FISHER.tolist())
    theta = torch.tensor(GENERATOR.normal(size=3))
    for s in range(4):
        mine = {name: t[0] for name, t in rounds.memory.take(np.array([s])).items()}
        expected = sum(2 * 0.7 * FISHER[j] * (theta.numpy() - THETA[j]) for j in range(4) if j != s)
        found = penalty_gradient(method, rounds.server, mine, theta)
        assert found.numpy() == pytest.approx(expected, rel=0, abs=1e-10)


def test_local_training_descends_the_penalised_objective() -> None:
    """F = (.2, .5, 1) around the plain local models, client 0 from their mean, 4 steps: u = 1.5, v = .836, .4836."""
    fisher, hat = np.array([0.2, 0.5, 1.0]), local_models(2.0, TAU)
    method = FedCurv(OneWeight(hat.mean()), lam=1.0)
    rounds = Rounds(method, quadratic(), steps(4))
    both = {"u": fisher, "v": fisher * hat}
    rounds.server |= {name: torch.tensor([t.sum()]) for name, t in both.items()}
    rounds.memory.put(
        np.arange(3), {name: torch.tensor(t)[:, None] for name, t in both.items()} | {"round": torch.zeros(3)}
    )
    rounds.finished = 1
    rounds.play([0])
    stiff = A[0] + 2 * 1.5
    assert rounds.local_scalars() == approx([0.483619936])
    assert rounds.local_scalars() == approx([descend(stiff, (A[0] * B[0] + 2 * 0.836) / stiff, hat.mean(), 4)])


def test_latest_keeps_every_clients_last_contribution(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = GivenRounds(FedCurv(Weights([0.0, 0.0, 0.0])), fedcurv, monkeypatch)
    rounds.play(THETA.tolist(), FISHER.tolist())
    rounds.play((THETA[:2] + 1).tolist(), (2 * FISHER[:2]).tolist(), clients=[3, 1])
    last_fisher, last_theta = FISHER.copy(), THETA.copy()
    last_fisher[[3, 1]], last_theta[[3, 1]] = 2 * FISHER[:2], THETA[:2] + 1
    assert rounds.server["u"].numpy() == approx(last_fisher.sum(0))
    assert rounds.server["v"].numpy() == approx((last_fisher * last_theta).sum(0))


def test_last_round_keeps_the_last_cohort_and_takes_off_only_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    method = FedCurv(Weights([0.0, 0.0, 0.0]), partial="last_round")
    rounds = GivenRounds(method, fedcurv, monkeypatch)
    rounds.play(THETA.tolist(), FISHER.tolist())
    rounds.play(THETA[:2].tolist(), FISHER[:2].tolist(), clients=[0, 1])
    assert rounds.server["u"].numpy() == approx(FISHER[:2].sum(0))
    seen = {}

    def train(start: Tensor, objective: object, server: dict[str, Tensor], memory: dict[str, Tensor], **_: object):  # type: ignore[no-untyped-def]
        seen.update(memory)
        raise StopIteration

    monkeypatch.setattr("given.GivenGroup.train", lambda self, *given, **options: train(*given, **options))
    with pytest.raises(StopIteration):
        rounds.play(THETA[:2].tolist(), FISHER[:2].tolist(), clients=[1, 3])
    assert seen["u"][0].numpy() == approx(FISHER[1])
    assert not seen["u"][1].any() and not seen["v"][1].any()


def test_with_all_clients_last_round_is_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    states = []
    for partial in ("latest", "last_round"):
        rounds = GivenRounds(FedCurv(Weights([0.0, 0.0, 0.0]), partial=partial), fedcurv, monkeypatch)
        for shift in (0.0, 1.0, 2.0):
            rounds.play((THETA + shift).tolist(), (FISHER * (1 + shift)).tolist())
        states.append(rounds.server)
    for name in ("u", "v"):
        assert states[0][name].numpy() == approx(states[1][name].numpy())


def test_curvature_is_never_negative() -> None:
    """Rounding can leave the sum a little below a client's own part."""
    method = FedCurv(small_network())
    (prior,) = method.priors(
        {"u": torch.tensor([1.0, 0.0]), "v": torch.tensor([1.0, 0.0])},
        {"u": torch.tensor([1.0 + 1e-7, 0.0]), "v": torch.tensor([1.0, 0.0])},
    )
    assert prior.curvature.tolist() == [0, 0] and prior.anchor.isfinite().all()


def test_alike_clients_are_held_like_fedprox() -> None:
    """All I_j = f around t: FedProx with mu = 2 lam (N - 1) f, here f = .3, N = 3, t = theta_0."""
    method = FedCurv(OneWeight(), lam=0.5)
    rounds = Rounds(method, quadratic(), steps(4))
    f, t = torch.tensor([0.3], dtype=torch.float64), rounds.server["theta"]
    rounds.server |= {"u": 3 * f, "v": 3 * f * t}
    rounds.memory.put(np.arange(3), {"u": f.expand(3, 1), "v": (f * t).expand(3, 1), "round": torch.zeros(3)})
    rounds.finished = 1
    rounds.play()
    proximal = Rounds(FedProx(OneWeight(), mu=2 * 0.5 * 2 * 0.3), quadratic(), steps(4))
    proximal.play()
    assert rounds.local_scalars() == approx(proximal.local_scalars())


@pytest.mark.parametrize("step", ["explicit", "proximal"])
def test_lam_0_is_fedavg_bit_for_bit(step: str) -> None:
    theta = networks_after(FedCurv(small_network(), lam=0.0, penalty_step=step), COHORTS)["theta"]  # type: ignore[arg-type]
    assert theta.equal(networks_after(FedAvg(small_network()), COHORTS)["theta"])


def test_the_first_round_is_fedavg_and_the_second_is_not() -> None:
    for cohorts, same in ((COHORTS[:1], True), (COHORTS[:2], False)):
        theta = networks_after(FedCurv(small_network()), cohorts)["theta"]
        assert theta.equal(networks_after(FedAvg(small_network()), cohorts)["theta"]) == same


def test_a_lone_client_trains_as_in_fedavg() -> None:
    theta = networks_after(FedCurv(small_network()), [[2], [2], [2]])["theta"]
    assert theta.equal(networks_after(FedAvg(small_network()), [[2], [2], [2]])["theta"])


def test_all_coordinates_sent_sparsely_are_the_dense_sum() -> None:
    dense = networks_after(FedCurv(small_network()), COHORTS)
    assert_same_bits(dense, networks_after(FedCurv(small_network(), top_q=1 - 1e-9), COHORTS))


@pytest.mark.parametrize("partial", ["latest", "last_round"])
def test_order_of_clients_does_not_matter(partial: str) -> None:
    assert_order_of_clients_does_not_matter(FedCurv(small_network(), partial=partial))  # type: ignore[arg-type]
    assert_order_of_clients_does_not_matter(FedCurv(small_network(), partial=partial, top_q=0.2))  # type: ignore[arg-type]


def test_top_q_sends_the_largest_entries_and_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = GivenRounds(FedCurv(Weights([0.0] * 5), top_q=0.3), fedcurv, monkeypatch)
    rounds.play([[1.0, 2.0, 3.0, 4.0, 5.0]], [[0.1, 9.0, 0.2, 7.0, 0.3]])
    assert rounds.server["u"].tolist() == approx([0, 9.0, 0, 7.0, 0])
    assert rounds.server["v"].tolist() == approx([0, 18.0, 0, 28.0, 0])
    assert rounds.upload is not None and rounds.upload.sent is not None
    values = {k: t.value if isinstance(t, Term) else t for k, t in rounds.upload.sent.items()}
    assert values["index"].dtype == torch.int32
    assert {k: v.shape[1:].numel() for k, v in values.items() if k in ("u", "v", "index")} == {
        "u": 2,
        "v": 2,
        "index": 2,
    }


def test_a_share_that_is_a_whole_number_but_for_rounding_is_that_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.07 * 100 is 7.000000000000001."""
    rounds = GivenRounds(FedCurv(Weights([0.0] * 100), top_q=0.07), fedcurv, monkeypatch)
    rounds.play([[1.0] * 100], [[float(i) for i in range(100)]])
    assert rounds.server["u"].nonzero().flatten().tolist() == [*range(93, 100)]


def test_a_sparse_change_moves_the_same_coordinates_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Section 3.1; clients of 10 and 20 samples that send coordinates 1, 3 and 0, 3."""
    method = FedCurv(Weights([0.0] * 5), top_q=0.4, sparse_delta=True)
    rounds = GivenRounds(method, fedcurv, monkeypatch)
    theta = [[1.0, 2.0, 3.0, 4.0, 5.0], [-1.0, -2.0, -3.0, -4.0, -5.0]]
    after = rounds.play(theta, [[0.1, 9.0, 0.2, 7.0, 0.3], [8.0, 0.1, 0.2, 6.0, 0.3]])
    assert after.tolist() == approx([-20 / 30, 20 / 30, 0, (40 - 80) / 30, 0])
    assert rounds.server["v"].tolist() == approx([-8.0, 18.0, 0, 28.0 - 24.0, 0])


@pytest.mark.parametrize(("top_q", "sent"), [(0.25, 1), (0.5, 2), (0.9, None)])
def test_running_statistics_go_whole_beside_a_sparse_change(
    monkeypatch: pytest.MonkeyPatch, top_q: float, sent: int | None
) -> None:
    """They have no Fisher, so that top_q is of the others; 4 places and 2 of them are not less than 6 numbers dense."""
    model = Weights([0.0] * 4, [0.0] * 2)
    model.running = (1,)
    rounds = GivenRounds(FedCurv(model, top_q=top_q, sparse_delta=True), fedcurv, monkeypatch)
    after = rounds.play([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]], [[0.1, 9.0, 0.2, 7.0, 0.0, 0.0]])
    changed = {1: [0, 2, 0, 0], 2: [0, 2, 0, 4], None: [1, 2, 3, 4]}[sent]
    assert after.tolist() == approx([*changed, 5, 6])
    assert rounds.upload is not None
    sizes = {name: t.shape[1] for name, t in (rounds.upload.sent or {}).items() if isinstance(t, Tensor) and t.ndim > 1}
    expected = {"u": sent, "v": sent, "delta": sent, "index": sent, "running": 2} if sent else {}
    assert sizes == expected


def test_all_coordinates_of_a_sparse_change_are_the_dense_one() -> None:
    dense = networks_after(FedCurv(small_network()), COHORTS)
    assert_same_bits(dense, networks_after(FedCurv(small_network(), top_q=1 - 1e-9, sparse_delta=True), COHORTS))
