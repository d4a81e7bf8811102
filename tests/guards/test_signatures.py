"""A user's functions take what they are called with, or one line says what that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType

import pytest
from users_method import said, written

from fl_ddp.datasets.dataset import Dataset
from fl_ddp.errors import ConfigError
from fl_ddp.guards.signatures import refuse_changeable, refuse_other_signatures
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.optimizers.rule import Optimizer
from fl_ddp.partitions.partition import Partition
from fl_ddp.streams.stream import Stream


def too_few(self: object, theta: object, server: object) -> None: ...


def other_names(self: object, x: object, y: object, z: object, more: object = None) -> None: ...


def anything(self: object, *args: object, **options: object) -> None: ...


def one_more(self: object, theta: object, server: object, mine: object, lam: object) -> None: ...


@pytest.mark.parametrize(
    ("given", "words"), [(too_few, "self, theta, server"), (one_more, "self, theta, server, mine, lam")]
)
def test_what_takes_something_else_is_refused_with_its_line(given: Callable[..., None], words: str) -> None:
    owner = type("Mine", (FedAvg,), {"penalty": given})
    expected = (
        rf"^test_signatures\.py:\d+: penalty of Mine: takes \({words}\); accepted: \(self, theta, server, mine\)$"
    )
    with pytest.raises(ConfigError, match=expected):
        refuse_other_signatures(owner, FedAvg)
    with pytest.raises(ConfigError, match=expected):
        refuse_other_signatures(type("Mine", (owner,), {}), FedAvg)


@pytest.mark.parametrize("given", [other_names, anything, staticmethod(too_few), property(lambda self: None)])
def test_what_can_be_called_alike_is_not(given: object) -> None:
    refuse_other_signatures(type("Mine", (FedAvg,), {"penalty": given, "of_its_own": too_few}), FedAvg)


@pytest.mark.parametrize("base", [Partition, Stream, Dataset, Optimizer, FedAvg])
def test_what_takes_the_same_as_the_base_is_not(base: type) -> None:
    copies = {}
    for name, known in vars(base).items():
        if isinstance(known, FunctionType):
            code = known.__code__.replace(co_filename=__file__)
            copies[name] = FunctionType(code, known.__globals__, name, known.__defaults__, known.__closure__)
            copies[name].__kwdefaults__ = known.__kwdefaults__
    assert copies
    refuse_other_signatures(type("Mine", (base,), copies), base)


def test_an_optimizer_may_have_momentum_by_its_name_alone() -> None:
    def by_name(self: object, *, momentum: bool) -> tuple[str, ...]: ...  # type: ignore[empty-body]
    def otherwise(self: object, *, moment: bool) -> tuple[str, ...]: ...  # type: ignore[empty-body]

    refuse_other_signatures(type("Mine", (Optimizer,), {"remembers": by_name}), Optimizer)
    words = r"remembers of Mine: takes \(self, \*, moment\); accepted: \(self, \*, momentum\)$"
    with pytest.raises(ConfigError, match=words):
        refuse_other_signatures(type("Mine", (Optimizer,), {"remembers": otherwise}), Optimizer)


@pytest.mark.parametrize("base", [Partition, Stream, Dataset, Optimizer])
def test_every_kind_has_functions_that_are_looked_at(base: type) -> None:
    names = [name for name, each in vars(base).items() if callable(each) and not name.startswith("_")]
    assert names
    for name in names:
        with pytest.raises(ConfigError, match=f": {name} of Mine: takes "):
            refuse_other_signatures(type("Mine", (base,), {name: lambda: None}), base)


def test_a_run_with_one_ends_before_it_begins(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = """
    def loss(self, theta, batch):
        return theta[0].sum()
    """
    code, lines = said(written(body, tmp_path / "short_loss.py"), capfd)
    told = "loss of Mine: takes (self, theta, batch); accepted: (self, theta, batch, server, mine)"
    assert (code, lines) == (2, [f"fl_ddp: error: short_loss.py:13: {told}"])


@dataclass(frozen=True)
class Changeable(FedAvg):
    weights_of: list[float] = field(default_factory=list)


def test_options_that_can_change_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^--method\.weights_of: is a list in Changeable; accepted: .*, such as a tuple$"
    ):
        refuse_changeable("method", Changeable())
    refuse_changeable("method", FedAvg())
