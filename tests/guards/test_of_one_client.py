"""What a method's functions of one client give: sound forms come through as they are, all others name the function."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from fl_ddp.errors import ConfigError, place_of_code
from fl_ddp.guards import of_one_client
from fl_ddp.protocol import Quadratic

LEAF, OTHER, NUMBER = torch.ones(2, 3), torch.ones(4), torch.tensor(0.5)
OF_SHAPE = "for a leaf [2, 3]; accepted: a tensor of its shape"


class Mine:
    """A function that gives what it is told to."""

    def __init__(self, given: object) -> None:
        self.given = given

    def f(self) -> Any:
        return self.given


GUARDS: dict[str, Callable[[Mine], Callable[..., object]]] = {
    "number": lambda mine: of_one_client.number(mine.f),
    "loss": lambda mine: of_one_client.loss(mine.f),
    "leaf": lambda mine: of_one_client.leaf(mine.f, LEAF),
    "priors": lambda mine: of_one_client.priors(mine.f),
    "trace": lambda mine: of_one_client.trace(mine.f, {"a": LEAF, "b": OTHER}),
    "gradient": lambda mine: of_one_client.gradient(mine.f, (LEAF, OTHER)),
}


def nothing(_: object) -> Any:
    """A class may have a function of a module's as its own, by another name."""


class Aliased:
    """A class that has, maybe with something around it."""

    g = nothing
    h = torch.no_grad()(nothing)


def test_a_function_of_another_name_than_its_own_is_named() -> None:
    place = place_of_code(nothing.__code__)
    with pytest.raises(ConfigError, match=re.escape(f"{place}: nothing of Aliased: gives NoneType for one client")):
        of_one_client.number(Aliased().h)()
    with pytest.raises(ConfigError, match=re.escape(f"{place}: nothing of Aliased: gives NoneType for one client")):
        of_one_client.number(Aliased().g)()


@pytest.mark.parametrize(
    ("guard", "given"),
    [
        ("number", NUMBER),
        ("loss", NUMBER.clone().requires_grad_()),
        ("leaf", LEAF),
        ("priors", ()),
        ("priors", (Quadratic(LEAF, LEAF), Quadratic(LEAF, LEAF, exact=True))),
        ("trace", {"b": OTHER, "a": LEAF}),
        ("gradient", ((LEAF, OTHER), NUMBER)),
        ("gradient", ([LEAF, OTHER], NUMBER)),
    ],
)
def test_what_is_sound_comes_through(guard: str, given: object) -> None:
    assert GUARDS[guard](Mine(given))() is given


@pytest.mark.parametrize(
    ("guard", "given", "words"),
    [
        ("number", 0.0, "gives float for one client; accepted: a tensor [] of floats"),
        ("number", LEAF, "gives a tensor [2, 3] for one client; accepted: a tensor [] of floats"),
        ("number", NUMBER.long(), "gives a tensor [] of torch.int64 for one client; accepted: a tensor [] of floats"),
        ("loss", LEAF, "gives a tensor [2, 3] for one client; accepted: a tensor [] of floats"),
        ("loss", NUMBER, "gives a number that no parameter has a part in; accepted: one made of theta"),
        ("leaf", None, f"gives NoneType {OF_SHAPE}"),
        ("leaf", LEAF.T, f"gives a tensor [3, 2] {OF_SHAPE}"),
        ("leaf", NUMBER, f"gives a tensor [] {OF_SHAPE}"),
        ("priors", Quadratic(LEAF, LEAF), "gives Quadratic; accepted: a tuple of Quadratic"),
        ("priors", (LEAF,), "gives tuple; accepted: a tuple of Quadratic"),
        ("priors", None, "gives NoneType; accepted: a tuple of Quadratic"),
        ("trace", None, "gives NoneType; accepted: a dict of a, b"),
        ("trace", {}, "gives a dict of nothing; accepted: a dict of a, b"),
        ("trace", {"a": LEAF}, "gives a dict of a; accepted: a dict of a, b"),
        ("trace", {"a": LEAF, "b": OTHER, "c": LEAF}, "gives a dict of a, b, c; accepted: a dict of a, b"),
        ("trace", {"a": NUMBER, "b": OTHER}, f"gives a tensor [] {OF_SHAPE}"),
        ("gradient", (LEAF, OTHER), "gives tuple; accepted: a tuple of leaves, and the loss"),
        ("gradient", LEAF, "gives a tensor [2, 3]; accepted: a tuple of leaves, and the loss"),
        ("gradient", ((LEAF,), NUMBER), "gives 1 leaves; accepted: 2"),
        ("gradient", ((OTHER, OTHER), NUMBER), f"gives a tensor [4] {OF_SHAPE}"),
        (
            "gradient",
            ((LEAF, OTHER), OTHER),
            "gives a tensor [4] as one client's loss; accepted: a tensor [] of floats",
        ),
    ],
)
def test_what_nobody_can_use_is_refused(guard: str, given: object, words: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{place_of_code(Mine.f.__code__)}: f of Mine: {words}") + "$"):
        GUARDS[guard](Mine(given))()


def test_a_loss_has_its_gradient_for_each_lane() -> None:
    class Method:
        def loss(self, theta: Tensor) -> Tensor:
            return theta.square().sum()

    found = vmap(grad(of_one_client.loss(Method().loss)))(LEAF)
    assert torch.equal(found, 2 * LEAF)
