"""A method's strengths are numbers that a local step is given, so that a sweep over them compiles one step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import get_args, get_type_hints
from unittest import mock

import pytest
import torch
from method_settings import FOR_METHODS
from step_bench import PLANS, Bench, Penalised, bench
from torch import Tensor
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache
from torch.fx.experimental.proxy_tensor import make_fx

from fl_ddp.bounds import Real
from fl_ddp.check.runs import SETTINGS, play, unlike_plays
from fl_ddp.config import registry
from fl_ddp.engine import group as group_module
from fl_ddp.engine.step import Objective, Step, StepKind, cloned, local_step
from fl_ddp.errors import ConfigError
from fl_ddp.guards.coefficients import coefficients_of
from fl_ddp.guards.hooks import refuse_unusable
from fl_ddp.main import main
from fl_ddp.methods.ditto import _Held
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedprox import FedProx
from fl_ddp.methods.fisheravg import FisherAvg
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.threads import in_this_thread

METHODS = {name: owner for name, owner in registry.known("method").items() if issubclass(owner, FedAvg)}
STRENGTHS = {name: owner.coefficients for name, owner in METHODS.items() if owner.coefficients} | {"Ditto": ("lam",)}
SHORT = {**SETTINGS, "model.hidden": 3, "rounds": 2, "cohort": 2, "lanes": 2, "local_steps": 2, "momentum": 0.0}
WITH = {**FOR_METHODS, "FisherAvg": {"method.importance": "rwalk"}}
COMPILED_IN = {
    "FedRoD": {"gamma": "at 0 there are no counts to take the logarithm of"},
    "FilVer": {"beta": "at 0 nothing is measured of the embeddings"},
    "FisherAvg": {"alpha": "1 - alpha is rounded once", "eps": "beside alpha, in the same quotient"},
}
"""Options of real numbers that are constants of a compiled step, and why."""
AT_ONCE = ("FedProx", "LwF")
"""Methods whose steps are compared in the default suite: with a penalty, and with a loss of its own."""
VALUES = (0.3, 0.7, 1.7)
OF_A_USER = """
from dataclasses import dataclass
import math, torch
from fl_ddp.api import FedAvg
from fl_ddp.methods.fedprox import FedProx
@dataclass(frozen=True)
class Branching(FedAvg):
    mu: float = 0.1
    coefficients = ("mu",)
    def penalty(self, theta, server, mine):
        return self.mu * theta.square().sum() if self.mu else theta.new_zeros(())
@dataclass(frozen=True)
class Converting(FedAvg):
    mu: float = 0.1
    coefficients = ("mu",)
    def penalty(self, theta, server, mine):
        return float(self.mu) * theta.square().sum()
@dataclass(frozen=True)
class Rooting(FedAvg):
    mu: float = 0.1
    coefficients = ("mu",)
    def penalty(self, theta, server, mine):
        return math.sqrt(self.mu) * theta.square().sum()
class Inheriting(FedProx):
    def penalty(self, theta, server, mine):
        return self.mu * theta.square().sum() if self.mu else theta.new_zeros(())
@dataclass(frozen=True)
class OfTensors(FedAvg):
    mu: float = 0.1
    coefficients = ("mu",)
    def loss(self, theta, batch, server, mine):
        return torch.where(self.mu > 0, 1 + self.mu, 1.0) * self.model.loss(theta, batch)
"""


def accepted(owner: type[FedAvg]) -> dict[str, list[float]]:
    """Of VALUES, those that each option of a method that is a real number accepts."""
    hints = get_type_hints(owner, include_extras=True)
    bounds = {each.name: bound for each in fields(owner) for bound in get_args(hints[each.name])[1:]}
    return {
        option: [value for value in VALUES if bound.refused(option, value) is None]
        for option, bound in bounds.items()
        if isinstance(bound, Real)
    }


def compiled_steps(name: str, options: Mapping[str, float]) -> list[str]:
    """What a method's run would compile into its local steps."""
    found: list[str] = []

    def told(objective: Objective, kind: StepKind, shapes: object) -> Step:
        step, seen = local_step(objective, kind, shapes), list[bool]()

        def once(*given: object) -> None:
            if not seen:
                seen.append(True)
                found.append(make_fx(step)(*cloned(given)).code)
            step(*given)  # type: ignore[arg-type]

        return once

    given = {f"method.{option}": value for option, value in options.items()}
    with mock.patch.object(group_module, "local_step", told):
        # one step is traced at a time
        in_this_thread(play, {**SHORT, **WITH.get(name, {}), "method": name, **given})
    assert found
    return found


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.slow) for name in METHODS]
)
def test_other_strengths_are_the_same_step(name: str) -> None:
    options, constant = accepted(METHODS[name]), COMPILED_IN.get(name, {})
    first, second = ({option: values[i] for option, values in options.items()} for i in (0, -1))
    one = compiled_steps(name, first)
    assert one == compiled_steps(name, {**second, **{option: first[option] for option in constant}})
    for option in constant:
        assert one != compiled_steps(name, {**first, option: second[option]}), f"{option} need not be named"


@pytest.mark.parametrize("name", STRENGTHS)
def test_bits_are_those_of_a_constant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one number: FedNTD's temperature is a power of 2 here, as its product with beta is rounded once more."""
    tau = 2.0 if name == "FedNTD" else 0.7
    given = {f"method.{each}": tau if each == "tau" else 0.37 for each in STRENGTHS[name]}
    settings = {**SHORT, **FOR_METHODS.get(name, {}), "method": name, **given}
    as_number = play(settings)
    monkeypatch.setattr(_Held if name == "Ditto" else METHODS[name], "coefficients", ())
    assert unlike_plays(as_number, play(settings)) == ""


@pytest.mark.slow
def test_another_strength_takes_what_was_compiled_for_the_first() -> None:
    """In one process that very step; in another one, which another model stands for, what the compiler has stored."""
    first, other, plain = (
        bench(method=Penalised, dtype=torch.float32, compile=compile) for compile in (True, True, False)
    )
    with fresh_cache():
        for mu, fast, has_looked in (
            (0.3, first, (True, False)),
            (0.9, first, (False, False)),
            (0.6, other, (False, True)),
        ):
            counters.clear()
            found, expected = (trained(b, replace(b.method, mu=mu)) for b in (fast, plain))  # type: ignore[call-arg]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
            of_cache = counters["inductor"]
            assert (of_cache["fxgraph_cache_miss"] > 0, of_cache["fxgraph_cache_hit"] > 0) == has_looked


def trained(of: Bench, method: FedAvg) -> Tensor:
    """The models of three clients."""
    return of._replace(method=method).train(PLANS["momentum"], [0, 1, 3]).theta


@dataclass(frozen=True)
class Halved(Penalised):
    """What keeps a number that comes of its coefficient."""

    coefficients = ("mu",)

    @cached_property
    def half(self) -> float:
        return self.mu / 2

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return self.half * (theta - server["theta"]).square().sum()


@dataclass(frozen=True, slots=True)
class Slotted(Penalised):
    """What has its coefficient in a slot."""

    nu: float = 0.3

    coefficients = ("nu",)

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return self.nu / 2 * (theta - server["theta"]).square().sum()


@dataclass(frozen=True, eq=False)
class Single(Penalised):
    """What is equal to nothing else."""

    coefficients = ("mu",)

    __eq__, __hash__ = object.__eq__, object.__hash__


@dataclass(frozen=True)
class Derived(Penalised):
    """What keeps such a number as a field by which nothing is told apart."""

    half: float = field(init=False, compare=False, default=0.0)

    coefficients = ("mu",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "half", self.mu / 2)

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return self.half * (theta - server["theta"]).square().sum()


@dataclass(frozen=True)
class OfMu(Penalised):
    """What is told apart by its coefficient alone, and has another option."""

    power: float = 2.0

    coefficients = ("mu",)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfMu) and (self.model, self.mu) == (other.model, other.mu)

    def __hash__(self) -> int:
        return hash(self.mu)


@pytest.mark.parametrize(
    ("owner", "option", "are_one"),
    [
        *((Penalised, "mu", True), (Slotted, "nu", True)),
        *((each, "mu", False) for each in (Halved, Single, Derived, OfMu)),
    ],
)
def test_strengths_that_change_from_round_to_round_are_one_step(owner: type, option: str, *, are_one: bool) -> None:
    """Where a method knows more than options, or another one like it is none, each has its own, with the right bits."""
    asked = list[Objective]()

    def told(objective: Objective, kind: StepKind, shapes: object) -> Step:
        asked.append(objective)
        return local_step(objective, kind, shapes)

    of = bench()
    for mu in (0.3, 0.9):
        method = owner(of.method.model, **{option: mu})
        assert getattr(method, "half", mu / 2) == mu / 2  # it is kept now
        with mock.patch.object(group_module, "local_step", told):
            found = trained(of, method)
            again = trained(of, method)
        assert found.equal(again)
        assert found.equal(trained(of, Penalised(of.method.model, mu=mu)))
    assert len(set(asked)) == (1 if are_one else 2)


def ended(folder: Path, name: str, *, compile: bool) -> int:
    """The exit code of a run of a user's method."""
    (folder / "mine.py").write_text(OF_A_USER)
    run = f"--data digits --method {folder}/mine.py:{name} --rounds 1 --clients 3 --device cpu --figures false"
    return main([*run.split(), "--compile", str(compile).lower(), "--out", str(folder)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("Branching", r"mine\.py:11: .*torch\.where does what a branch is to do, and "),
        # torch 2.11 fails of itself, and knows no line
        (
            "Converting",
            r"(mine\.py:17: .* a tensor, such as what a class names|.*INTERNAL ASSERT FAILED)",
        ),
        ("Rooting", r"mine\.py:23: .*a tensor, such as what a class names in coefficients, may become no number "),
    ],
)
def test_what_cannot_be_done_with_one_is_told_with_its_line(
    name: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ended(tmp_path, name, compile=True) == 1
    assert re.search(rf"fl_ddp: error: {told}", capfd.readouterr().err)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Inheriting", "OfTensors"])
def test_what_a_user_may_do_with_one_is_compiled(name: str, tmp_path: Path) -> None:
    assert ended(tmp_path, name, compile=True) == 0


def test_a_loss_may_take_one_for_a_tensor(tmp_path: Path) -> None:
    assert ended(tmp_path, "OfTensors", compile=False) == 0


def test_a_subclass_names_its_own() -> None:
    assert coefficients_of(FedProx(mu=0.3)) == {"mu": 0.3}
    assert coefficients_of(type("Mine", (FedProx,), {})()) == {}


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ("mu", r"is 'mu'; accepted: a tuple of names, such as \(\"mu\",\)"),
        (("mu", "nu"), "names 'nu'; accepted: options of it that are numbers"),
        (("weights",), "names 'weights'; accepted: options of it that are numbers"),
        (("counts_sgd_steps",), "names 'counts_sgd_steps'; accepted: options of it that are numbers"),
        (("proxy",), "names 'proxy'; accepted: options of it that are numbers"),
        (("weighted",), "names 'weighted'; accepted: options of it that are numbers"),
        ((3,), "names 3; accepted: options of it that are numbers"),
    ],
)
def test_what_is_no_number_of_its_own_is_refused(names: object, what: str) -> None:
    owner = type("Mine", (FisherAvg if "weighted" in names else FedProx,), {"coefficients": names})  # type: ignore[operator]
    with pytest.raises(ConfigError, match=f"^coefficients of Mine: {what}"):
        refuse_unusable(owner(), FedAvg)
