"""What hooks give of all lanes: sums, rows and models have them in their first dimension, and names are known."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager

import numpy as np
import pytest
import torch
from torch import Tensor

from fl_ddp.errors import ConfigError
from fl_ddp.guards.hooks import Hooks
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Term, Upload

HOOKS, LANES = Hooks(FedAvg(), "MLP"), 3
THETA, NUMBERS, VECTOR = torch.ones(LANES, 5), torch.ones(LANES), torch.ones(5)
OF_EACH = "accepted: a tensor [3, ...], of each of 3 lanes"


def refused(words: str) -> AbstractContextManager[object]:
    return pytest.raises(ConfigError, match=re.escape(words) + "$")


@pytest.mark.parametrize(
    "summand",
    [
        THETA,
        NUMBERS,
        NUMBERS.long(),
        Term(THETA),
        Term(THETA, minus=THETA, weight=NUMBERS),
        Term(THETA, minus=VECTOR, weight=NUMBERS[:, None]),
        Term(THETA, minus=torch.ones(()), weight=THETA),
        Term(NUMBERS, minus=NUMBERS, weight=NUMBERS),
        Term(torch.ones(LANES, 2, 4), minus=torch.ones(2, 4), weight=torch.ones(LANES, 1, 1)),
    ],
)
def test_what_is_of_each_lane_is_summed(summand: Tensor | Term) -> None:
    sums: dict[str, Tensor | Term] = {"s": summand}
    assert HOOKS.sums("client_update", sums, LANES) is sums


@pytest.mark.parametrize(
    ("summand", "words"),
    [
        (1.0, f"client_update of FedAvg: gives s as float; {OF_EACH}"),
        (VECTOR, f"gives s as float32 [5]; {OF_EACH}"),
        (torch.ones(()), f"gives s as float32 []; {OF_EACH}"),
        (Term(THETA[:2]), f"gives s as float32 [2, 5]; {OF_EACH}"),
        (Term(None), f"gives s as NoneType; {OF_EACH}"),  # type: ignore[arg-type]
        (Term(THETA, minus=THETA[:, :2]), "gives minus of s as float32 [3, 2]; accepted: [3, 5] or [5] or []"),
        (Term(THETA, minus=1.0), "gives minus of s as float; accepted: [3, 5] or [5] or []"),  # type: ignore[arg-type]
        (Term(THETA, weight=VECTOR), "gives weight of s as float32 [5]; accepted: [3, 5] or [3] or [3, 1]"),
        (Term(NUMBERS, weight=torch.ones(())), "gives weight of s as float32 []; accepted: [3] or [3, 1]"),
    ],
)
def test_what_is_not_is_refused(summand: Tensor | Term, words: str) -> None:
    with refused(words):
        HOOKS.sums("client_update", {"s": summand}, LANES)
    with refused(words):
        HOOKS.upload(Upload({"s": summand}, THETA), {}, LANES)
    with refused(words):
        HOOKS.upload(Upload({}, THETA, sent={"s": summand}), {}, LANES)


def test_sums_are_named() -> None:
    with refused("client_update of FedAvg: gives sums as NoneType; accepted: tensors or Terms by name"):
        HOOKS.upload(Upload(None, THETA), {}, LANES)  # type: ignore[arg-type]


def test_rows_and_models_are_of_each_lane() -> None:
    given = Upload({}, THETA, rows={"r": NUMBERS})
    found = HOOKS.upload(given, {}, LANES)
    assert found.theta.equal(THETA) and found.rows["r"].equal(NUMBERS)
    with refused(f"gives r as float32 [5]; {OF_EACH}"):
        HOOKS.upload(Upload({}, THETA, rows={"r": VECTOR}), {}, LANES)
    with refused(f"gives theta as float32 [5]; {OF_EACH}"):
        HOOKS.upload(Upload({}, VECTOR), {}, LANES)


@pytest.mark.parametrize(
    "other",
    [
        Upload({"a": NUMBERS}, THETA),
        Upload({"b": THETA, "a": NUMBERS}, THETA),
        Upload({"a": NUMBERS, "b": NUMBERS}, THETA),
        Upload({"a": NUMBERS, "b": THETA}, THETA, rows={"r": NUMBERS}),
    ],
)
def test_all_groups_hand_over_the_same(other: Upload) -> None:
    form = HOOKS.alike("client_update", Upload({"a": NUMBERS, "b": Term(THETA)}, THETA), "")
    assert HOOKS.alike("client_update", Upload({"a": NUMBERS[:2], "b": THETA[:2]}, THETA), form) == form
    with refused(
        "gives a [], b [5] for some clients, and something else for others; "
        "accepted: the same names and shapes, in one order, for all"
    ):
        raise HOOKS.unlike("client_update", form)
    with pytest.raises(ConfigError, match="for some clients"):
        HOOKS.alike("client_update", other, form)


def test_nothing_that_is_handed_over_has_a_gradient() -> None:
    """What it was made of would stay with it until the round is over."""
    theta, numbers = THETA.clone().requires_grad_(), NUMBERS.clone().requires_grad_()
    term = Term(theta, minus=theta[0], weight=numbers)
    given = Upload(
        {"delta": term, "weight": numbers}, theta, {"own": theta}, {"sent": term, "n": numbers}, {"row": theta}
    )
    found = HOOKS.upload(given, {"own": VECTOR}, LANES)
    assert found.sent is not None
    terms = [each for each in (*found.sums.values(), *found.sent.values()) if isinstance(each, Term)]
    assert len(terms) == 2
    parts = [part for each in terms for part in (each.value, each.minus, each.weight)]
    plain = [found.theta, found.memory["own"], found.rows["row"], found.sums["weight"], found.sent["n"]]
    assert all(isinstance(t, Tensor) and not t.requires_grad for t in (*parts, *plain))


def test_groups_give_the_same_shapes_though_a_row_has_a_sums_name() -> None:
    first = HOOKS.alike("client_update", Upload({"a": NUMBERS}, THETA, rows={"a": THETA}), "")
    assert first == "a [], a [5]"
    with pytest.raises(ConfigError, match="the same names and shapes"):
        HOOKS.alike("client_update", Upload({"a": THETA}, THETA, rows={"a": THETA}), first)


def test_names_of_what_is_sent_are_known() -> None:
    assert HOOKS.sent(("theta",), ("theta", "c")) == ("theta",)
    assert HOOKS.sent((), ("theta",)) == ()
    for given, form in (("theta", "str"), (["theta"], "list"), ((name for name in ("theta",)), "generator")):
        with refused(f"sent of FedAvg: gives {form}; accepted: a tuple of names among c, theta"):
            HOOKS.sent(given, ("theta", "c"))
    with refused("sent of FedAvg: gives d, theta; accepted: a tuple of names among c, theta"):
        HOOKS.sent(("theta", "d"), ("theta", "c"))


@pytest.mark.parametrize("given", [1.0, None, THETA, torch.ones(4, 11), torch.ones(4, 10).long(), torch.ones(4, 10, 1)])
def test_predictions_are_logits(given: Tensor) -> None:
    sound = torch.ones(4, 10)
    assert HOOKS.predicted(sound, (4, 10)) is sound
    with pytest.raises(ConfigError, match=r"predict of FedAvg: gives .* for 4 samples; accepted: logits \[4, 10\]$"):
        HOOKS.predicted(given, (4, 10))


def test_bytes_are_whole_numbers_from_0_up() -> None:
    assert HOOKS.bytes("sent_bytes", 3) == 3 and type(HOOKS.bytes("sent_bytes", np.int64(3))) is int
    for given in (-1, 0.5, float("nan"), None, "3"):
        with refused(f"sent_bytes of FedAvg: gives {given!r}; accepted: a whole number of bytes, 0 or more"):
            HOOKS.bytes("sent_bytes", given)


def test_the_first_theta_is_like_a_models() -> None:
    found = HOOKS.initial({"theta": VECTOR.clone().requires_grad_(), "c": NUMBERS}, ("theta", "c"), VECTOR)
    assert not found["theta"].requires_grad and found["c"] is not None
    with refused("init of FedAvg: gives theta as float32 [3]; accepted: float32 [5], as the model has it"):
        HOOKS.initial({"theta": NUMBERS}, ("theta",), VECTOR)
    with refused("init of FedAvg: gives theta as float64 [5]; accepted: float32 [5], as the model has it"):
        HOOKS.initial({"theta": VECTOR.double()}, ("theta",), VECTOR)
    with refused("--method: broadcast: is 'theta' in FedAvg; accepted: a tuple of names of the server's tensors"):
        HOOKS.initial({"theta": VECTOR}, "theta", VECTOR)  # type: ignore[arg-type]
