"""How far an optimizer's step goes, and where steps end beside a prior that they solve."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from quadratic import THETA_0, A, B, OneWeight, Rounds, linear, quadratic, steps

from fl_ddp.methods.fedcl import FedCL
from fl_ddp.methods.fedprox import FedProx
from fl_ddp.optimizers.adagrad import Adagrad
from fl_ddp.optimizers.adam import Adam
from fl_ddp.optimizers.rmsprop import RMSprop
from fl_ddp.optimizers.rule import Rates
from fl_ddp.optimizers.sgd import SGD

NOTHING = torch.zeros((), dtype=torch.float64)
NEVER = 10**6


def rates(momentum: float) -> Rates:
    return Rates(torch.tensor(0.25, dtype=torch.float64), NOTHING + momentum, NOTHING, NOTHING)


@given(st.floats(0.01, 0.99), st.floats(0, 1), st.booleans(), st.integers(1, 12))
def test_it_is_the_way_of_torchs_sgd_along_a_gradient_of_1(rho: float, dampening: float, ahead: bool, n: int) -> None:
    options = {"nesterov": True} if ahead else {"dampening": dampening}
    theta = torch.zeros((), dtype=torch.float64, requires_grad=True)
    along = torch.optim.SGD([theta], lr=0.25, momentum=rho, **options)
    for count in range(n):
        before, theta.grad = theta.item(), torch.ones_like(theta)
        along.step()
        found = SGD(**options).reach({"momentum_buffer": NOTHING}, torch.tensor(count), rates(rho))
        assert before - theta.item() == approx(found.item())


def test_without_momentum_it_is_the_learning_rate() -> None:
    for optimizer in (SGD(), RMSprop(), Adam()):
        state = dict.fromkeys(optimizer.remembers(momentum=False), NOTHING)
        assert optimizer.reach(state, torch.tensor(3), rates(0.0)).item() == 0.25


def test_adagrads_falls_with_its_learning_rate() -> None:
    found = [Adagrad(lr_decay=0.5).reach({"sum": NOTHING}, torch.tensor(n), rates(0.0)).item() for n in range(4)]
    assert found == approx([0.25, 0.25 / 1.5, 0.25 / 2, 0.25 / 2.5])


@pytest.mark.parametrize("step", ["explicit", "proximal"])
@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_steps_end_where_loss_and_prior_balance_with_any_momentum(step: str, momentum: float) -> None:
    """A / 2 (theta - B)^2 + lam (theta - theta_t)^2 is least at (A B + 2 lam theta_t) / (A + 2 lam)."""
    method = FedCL(OneWeight(), lam=0.5, every=NEVER, penalty_step=step)  # type: ignore[arg-type]
    rounds = Rounds(method, quadratic(), steps(400, momentum=momentum))
    rounds.finished = 1
    rounds.play()
    assert rounds.local_scalars() == approx((A * B + THETA_0) / (A + 1))


def test_few_steps_with_momentum_go_nearly_the_same_way_whether_a_weak_prior_is_followed_or_solved() -> None:
    """Also before the momentum is charged."""

    def ends(step: str) -> list[float]:
        method = FedCL(OneWeight(), lam=0.01, every=NEVER, penalty_step=step)  # type: ignore[arg-type]
        rounds = Rounds(method, linear([1.0, -2.0, 0.5]), steps(4, momentum=0.9))
        rounds.finished = 1
        rounds.play()
        return [float(x) for x in rounds.local_scalars()]

    free = Rounds(FedProx(OneWeight(), mu=0.0), linear([1.0, -2.0, 0.5]), steps(4, momentum=0.9))
    free.play()
    for followed, solved, without in zip(ends("explicit"), ends("proximal"), free.local_scalars(), strict=True):
        assert 0.2 < (solved - without) / (followed - without) < 5
