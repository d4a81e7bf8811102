"""Clients that never meet: each goes on from its own model on the quadratic federation Q."""

from __future__ import annotations

import torch
from given import round_of_one_task
from quadratic import TAU, THETA_0, A, B, OneWeight, P, Rounds, approx, descend, epoch_of_single_samples, quadratic

from fl_ddp.methods.localonly import LocalOnly


def test_each_client_goes_on_from_its_own_model() -> None:
    rounds = Rounds(LocalOnly(OneWeight()), quadratic(), epoch_of_single_samples())
    for finished in (1, 2):
        rounds.play()
        own = [descend(a, b, THETA_0, finished * tau) for a, b, tau in zip(A, B, TAU, strict=True)]
        assert rounds.local_scalars() == approx(own)
        assert rounds.remembered("theta")[:, 0].tolist() == approx(own)
        assert rounds.server["theta"].item() == approx(float(P @ own)), "the mean that is reported"


def test_a_client_that_stays_away_stays_where_it_is() -> None:
    rounds = Rounds(LocalOnly(OneWeight()), quadratic(), epoch_of_single_samples())
    rounds.play([0, 1])
    rounds.play([2])
    third = descend(A[2], B[2], THETA_0, TAU[2])
    assert rounds.local_scalars() == approx([third])
    assert rounds.remembered("theta")[0].item() == approx(descend(A[0], B[0], THETA_0, TAU[0]))


def test_nothing_travels() -> None:
    method = LocalOnly(OneWeight())
    rounds = Rounds(method, quadratic(), epoch_of_single_samples())
    group = next(rounds.groups(torch.arange(2).numpy()))
    upload = method.client_update(group, method.init(), rounds.memory.take(group.client))
    assert upload.on_the_wire == {}
    assert method.sent_bytes(method.init(), round_of_one_task(3)) == 0
