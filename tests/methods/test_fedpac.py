"""FedPAC's mixture of heads against other solvers, and its two trainings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from given import round_of_one_task
from hypothesis import given
from hypothesis import strategies as st
from quadratic import Clients, Rounds, approx, small_network, uneven_clients
from scipy.optimize import minimize
from table import of_rows, reading, table
from torch.func import grad_and_value

from fl_ddp.clients.simplex import Floats, least_on_simplex
from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedpac import FedPAC

PLAN = Plan(3, 1.0, None, 0.05)


def test_two_weights_by_hand() -> None:
    """w' A w with A = ((.5, .1), (.1, 1)) is least where .5 w + .1 (1 - w) = .1 w + 1 - w."""
    assert least_on_simplex(np.array([[0.5, 0.1], [0.1, 1.0]]))[0] == approx(9 / 13)


@given(st.integers(1, 12), st.integers(0, 14), st.integers(0, 2**31 - 1))
def test_no_other_weights_are_better(size: int, rank: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(rank, size)) + 0.5
    form: Floats = root.T @ root
    w = least_on_simplex(form)
    assert np.min(w) >= 0 and w.sum() == pytest.approx(1, abs=1e-12)
    # at the minimum the slope in no coordinate is less than the mean over those in use
    assert (form @ w >= w @ form @ w - 1e-8).all()


def test_a_general_solver_does_not_do_better() -> None:
    generator = np.random.default_rng(0)
    for rank in (3, 20):
        root = generator.normal(size=(rank, 12)) + 0.5
        form = root.T @ root
        slow = minimize(lambda v, a=form: v @ a @ v, np.full(12, 1 / 12), jac=lambda v, a=form: 2 * a @ v,
                        bounds=[(0, 1)] * 12, constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
                        options={"ftol": 1e-14, "maxiter": 1000})  # fmt: skip
        w = least_on_simplex(form)
        assert w @ form @ w <= slow.fun + 1e-9


@pytest.mark.parametrize(
    ("h", "variance", "weights"),
    [
        # diag(V) alone: w as 1 / V
        ([5, 5, 5], [1, 2, 4], [[4 / 7, 2 / 7, 1 / 7]] * 3),
        # the first: least (1 - 2a)^2 + 2a^2 + (2a)^2, at a = 1/5; the others: least 2a^2 + 2((1 - a) / 2)^2, at 1/5
        ([0, 1, 1], [1, 1, 1], [[3 / 5, 1 / 5, 1 / 5], [1 / 5, 2 / 5, 2 / 5], [1 / 5, 2 / 5, 2 / 5]]),
    ],
)
def test_weights_of_three_clients_by_hand(h: list[float], variance: list[float], weights: list[list[float]]) -> None:
    """Heads are unit vectors, so that mixtures are the weights themselves."""
    rows = {"h": torch.tensor(h).double().view(3, 1, 1), "variance": torch.tensor(variance), "head": torch.eye(3)}
    mixed = FedPAC(small_network(), num_clients=3).mixed(rows)
    torch.testing.assert_close(mixed, torch.tensor(weights))


def test_heads_are_mixed_as_the_quadratic_form_says() -> None:
    generator = torch.Generator().manual_seed(0)
    h, head = torch.randn(5, 3, 4, generator=generator).double(), torch.randn(5, 2, generator=generator).double()
    variance = torch.rand(5, generator=generator).double()
    mixed = FedPAC(small_network(), num_clients=5, least=0.0).mixed({"h": h, "variance": variance, "head": head})
    for k in range(5):
        gap = h[k] - h
        w = least_on_simplex((variance.diag() + torch.einsum("icd,jcd->ij", gap, gap)).numpy())
        torch.testing.assert_close(mixed[k], torch.from_numpy(w) @ head)


def test_small_weights_are_cut() -> None:
    """Two clients with equal features and variances 1 and 99: weights .99 and .01."""
    rows = {"h": torch.zeros(2, 1, 1), "variance": torch.tensor([1.0, 99.0]), "head": torch.tensor([[1.0], [101.0]])}
    mixed = [FedPAC(small_network(), num_clients=2, least=least).mixed(rows) for least in (0.0, 0.02)]
    assert mixed[0].flatten().tolist() == pytest.approx([2.0, 2.0], rel=1e-6)
    assert mixed[1].flatten().tolist() == [1.0, 1.0]


def test_features_are_drawn_to_their_class_means() -> None:
    """lam / D ||z - m||^2 for one sample, D = 2."""
    model = table([[1.0, -2.0]])
    mine = {"means": torch.tensor([[5.0, 5.0], [0.0, 1.0]], dtype=torch.float64)}
    given = (model.leaves(model.init()), reading([1], 1))
    loss = FedPAC(model, num_clients=1).loss
    (g, value), (plain_g, plain) = (
        grad_and_value(loss)(*given, {"pull": torch.tensor(pull)}, mine) for pull in (3.0, 0.0)
    )
    assert (value - plain).item() == approx(3 * (1 + 9) / 2)
    assert (of_rows(g, model) - of_rows(plain_g, model))[0].tolist() == approx([3 * 1.0, 3 * -3.0])


def test_statistics_by_a_loop() -> None:
    """What clients say at the received body: h, the variance of its estimate, and class sums after training."""
    method = FedPAC(small_network(), num_clients=5)
    model, clients = method.model, uneven_clients()
    rounds = Rounds(method, clients, PLAN, lanes=5)
    rounds.play()
    theta, rows = method.init()["theta"], rounds.total.rows
    count, sums = torch.zeros(3), torch.zeros(3, model.num_features)
    for k, part in enumerate(clients.parts):
        x, y = clients.samples.x[part], clients.samples.y[part]
        z, n = model.features(theta, x).double(), len(part)
        of_class = [z[y == c] for c in range(3)]
        share = [len(own) / n for own in of_class]
        mean = [own.mean(0) if len(own) else torch.zeros(model.num_features).double() for own in of_class]
        h = torch.stack([p * m for p, m in zip(share, mean, strict=True)])
        square = sum(p * own.square().sum(1).mean() for p, own in zip(share, of_class, strict=True) if len(own))
        variance = (square - sum(p**2 * m.square().sum() for p, m in zip(share, mean, strict=True))) / n
        torch.testing.assert_close(rows["h"][k].double(), h, rtol=1e-5, atol=1e-6)
        assert rows["variance"][k].item() == pytest.approx(float(variance), rel=1e-4, abs=1e-6)
        trained = model.features(rounds.local[k], x)
        count += torch.bincount(y, minlength=3)
        sums += torch.stack([trained[y == c].sum(0) for c in range(3)])
    torch.testing.assert_close(rounds.server["means"], sums / count[:, None], rtol=1e-5, atol=1e-6)
    assert rounds.server["known"].tolist() == [1, 1, 1]


def test_the_mean_of_a_class_is_known_as_long_as_nobody_has_another() -> None:
    samples = uneven_clients().samples
    of_class = [torch.nonzero(samples.y == label).flatten().numpy() for label in range(2)]
    rounds = Rounds(FedPAC(small_network(), num_clients=2), Clients(samples, of_class), PLAN)
    first = rounds.play([0])
    assert first["known"].tolist() == [1, 0, 0]
    second = rounds.play([1])
    assert second["known"].tolist() == [1, 1, 0]
    assert torch.equal(second["means"][0], first["means"][0]) and second["means"][1].any()


def test_the_head_is_trained_first_and_the_body_after_it() -> None:
    ours, longer = (Rounds(FedPAC(small_network(), num_clients=5), uneven_clients(), PLAN) for _ in range(2))
    longer.plan = replace(PLAN, epochs=3.0)
    model = ours.method.model
    ours.play()
    longer.play()
    for k in range(5):
        head, body = (model.take(ours.local[k], part) for part in (model.head, model.body))
        assert torch.equal(head, model.take(longer.local[k], model.head)), "the head does not see the body's training"
        assert not torch.equal(body, model.take(longer.local[k], model.body))
        assert not torch.equal(body, model.take(model.init(), model.body))


def test_the_pull_begins_in_the_second_round() -> None:
    plain, pulled = (
        Rounds(FedPAC(small_network(), num_clients=5, lam=lam), uneven_clients(), PLAN) for lam in (0.0, 9.0)
    )
    assert torch.equal(plain.play()["theta"], pulled.play()["theta"])
    assert not torch.equal(plain.play()["theta"], pulled.play()["theta"])


def test_clients_that_stay_away_keep_their_heads() -> None:
    rounds = Rounds(FedPAC(small_network(), num_clients=5), uneven_clients(), PLAN)
    first = rounds.server["heads"]
    second = rounds.play([1, 3])["heads"]
    assert torch.equal(first[[0, 2, 4]], second[[0, 2, 4]])
    assert not torch.equal(first[1], second[1])


def test_traffic() -> None:
    """A body with one head; once there are any, three class means of eight features, too."""
    method = FedPAC(small_network(), num_clients=5)
    server = method.init()
    assert method.sent_bytes(server, round_of_one_task(0)) == server["theta"].nbytes
    assert method.sent_bytes(server, round_of_one_task(1)) == server["theta"].nbytes + 3 * 8 * 4
