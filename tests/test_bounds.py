"""Bounds that options declare by their types."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_ddp.bounds import BelowOne, Count, NonNegative, Positive, Seed, Share, UnitInterval, check_fields, declared
from fl_ddp.config import registry
from fl_ddp.config.command_help import about_class
from fl_ddp.config.command_line import parse
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError


@dataclass(frozen=True)
class Options:
    positive: Positive = 1.0
    at_least: NonNegative = 0.0
    share: Share = 1.0
    weight: UnitInterval = 0.0
    momentum: BelowOne = 0.0
    count: Count | None = None
    seed: Seed = 0
    lanes: Literal["auto"] | Count = "auto"
    targets: tuple[Share, ...] = ()
    word: Literal["one", "two"] = "one"
    text: str = ""


def refused(**values: object) -> str:
    with pytest.raises(ConfigError) as error:
        check_fields(Options(**values), "--")  # type: ignore[arg-type]
    return str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("positive", 0.0, "numbers above 0"),
        ("positive", math.nan, "numbers above 0"),
        ("positive", math.inf, "numbers above 0"),
        ("at_least", -1e-9, "numbers from 0 up"),
        ("share", 0.0, "0 < share <= 1"),
        ("share", 1.1, "0 < share <= 1"),
        ("weight", -0.1, "0 <= weight <= 1"),
        ("momentum", 1.0, "0 <= momentum < 1"),
        ("count", 0, "whole numbers from 1 up"),
        ("count", True, "whole numbers from 1 up"),
        ("count", 2**31, "whole numbers below 2**31"),
        ("seed", 2**63, "whole numbers below 2**63"),
        ("lanes", 0, "auto or whole numbers from 1 up"),
        ("lanes", "many", "auto or whole numbers from 1 up"),
        ("word", "three", "one, two"),
    ],
)
def test_what_is_out_of_bounds_is_refused_in_words(name: str, value: object, accepted: str) -> None:
    assert refused(**{name: value}) == f"--{name}: {value} is impossible; accepted: {accepted}"


def test_each_value_of_a_list_is_checked() -> None:
    assert refused(targets=(0.5, 2.0)) == "--targets: 2.0 is impossible; accepted: 0 < targets <= 1"


@given(
    st.fixed_dictionaries(
        {
            "positive": st.floats(5e-324, 1e308),
            "at_least": st.floats(0, 1e308),
            "share": st.floats(5e-324, 1),
            "weight": st.floats(0, 1),
            "momentum": st.floats(0, 1, exclude_max=True),
            "count": st.none() | st.integers(1, 2**31 - 1),
            "seed": st.integers(0, 2**63 - 1),
            "lanes": st.just("auto") | st.integers(1, 2**31 - 1),
            "targets": st.lists(st.floats(5e-324, 1)).map(tuple),
            "word": st.sampled_from(["one", "two"]),
        }
    )
)
def test_what_is_within_bounds_is_accepted(values: dict[str, object]) -> None:
    check_fields(Options(**values), "--")  # type: ignore[arg-type]


def all_declared() -> Iterator[tuple[str, object]]:
    """All options of dataclasses, by the name messages give them, with their types."""
    for each in fields(Config):
        yield f"--{each.name}", get_type_hints(Config, include_extras=True)[each.name]
    for kind in registry.KINDS:
        for name, owner in registry.known(kind).items():
            options = registry.options(kind, owner)
            for key in options.by_name.keys() - options.beside:
                yield f"{name} --{kind}.{key}", declared(owner)[key]


def is_bounded(hint: object) -> bool:
    """Whether a type, or each part of it that is a number, declares bounds."""
    if get_origin(hint) is Annotated:
        return True
    return hint not in (int, float) and all(is_bounded(part) for part in get_args(hint) if part is not Ellipsis)


def test_every_number_among_the_options_declares_its_bounds() -> None:
    assert [name for name, hint in all_declared() if not is_bounded(hint)] == []
    assert not is_bounded(float) and not is_bounded(float | None) and not is_bounded(tuple[int, ...])


JUST_OUT: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "FedAvg": {"server_lr": (0.0, 5e-324)},
    "FedProx": {"mu": (-5e-324, 0.0)},
    "FedOpt": {"beta1": (1.0, 0.0), "beta2": (-0.1, 0.999), "tau": (0.0, 1e-9)},
    "FedAvgM": {"beta": (1.0, 0.0), "dampening": (-5e-324, 1.0)},
    "FedNova": {"mu": (-5e-324, 0.0)},
    "Scaffold": {},
    "FedDyn": {"alpha": (0.0, 5e-324)},
    "FedCurv": {
        "lam": (-5e-324, 0.0), "top_q": (0.0, 1.0),
        "fisher_batch": (0, 1), "fisher_samples": (-1, 0), "fisher_draws": (0, 1),
    },
    "FisherAvg": {
        "lam": (-5e-324, 0.0), "gamma": (1.1, 1.0), "compat_eps": (-5e-324, 0.0), "alpha": (-5e-324, 0.0),
        "eps": (0.0, 5e-324), "interval": (0, 1),
        "fisher_batch": (0, 1), "fisher_samples": (-1, 0), "fisher_draws": (0, 1),
    },
    "OnlineEWC": {"lam": (-5e-324, 0.0), "decay": (1.1, 1.0), "fisher_samples": (-1, 0), "fisher_draws": (0, 1)},
    "FedCL": {"lam": (-5e-324, 0.0), "proxy": (0.0, 1.0), "xi": (0.0, 5e-324), "every": (-1, 0), "proxy_batch": (0, 1)},
    "FedRoD": {"gamma": (-5e-324, 0.0)},
    "FedALA": {
        "eta": (-5e-324, 0.0), "share": (0.0, 1.0), "threshold": (0.0, 5e-324), "layers": (0, 1), "losses": (0, 1),
        "passes": (0, 1),
    },
    "FedFomo": {
        "held_out": (0.0, 0.9), "epsilon": (1.1, 1.0), "decay": (-5e-324, 0.0), "models": (0, 1),
    },
    "FedPAC": {
        "lam": (-5e-324, 0.0), "head_lr": (0.0, 5e-324), "head_epochs": (0.0, 5e-324), "least": (1.0, 0.0),
    },
    "FedBN": {},
    "FilVer": {
        "beta": (-5e-324, 0.0), "pretrain_epochs": (-5e-324, 0.0), "pretrain_lr": (0.0, 5e-324), "send": (0, 1),
        "rehearsal": (-5e-324, 0.0), "remember": (0, 1), "store": (0, 1), "sst": (-1, 0), "sst_lr": (0.0, 5e-324),
    },
    "FedPer": {},
    "FedRep": {"head_epochs": (0.0, 5e-324)},
    "Ditto": {"lam": (-5e-324, 0.0)},
    "LocalOnly": {},
    "FedKA": {"beta": (-5e-324, 0.0), "gamma": (1.1, 1.0), "anchors": (0, 1)},
    "FedNTD": {"beta": (-5e-324, 0.0), "tau": (0.0, 5e-324)},
    "LwF": {"lam": (-5e-324, 0.0), "tau": (0.0, 5e-324)},
    "MOON": {"mu": (-5e-324, 0.0), "tau": (0.0, 5e-324)},
}  # fmt: skip
"""Of each number among a method's own options the nearest value that is refused, and one at the bound that is not."""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("FedCLMNIST --model.dropout 1", "is impossible; accepted: 0 <= dropout < 1"),
        ("FilVerNet --model.embedding_size 0", "0 is impossible; accepted: whole numbers from 1 up"),
        ("FilVerNet --model.hidden [10,0]", "0 is impossible; accepted: whole numbers from 1 up"),
        ("MLP --model.hidden 0", "0 is impossible; accepted: whole numbers from 1 up"),
        ("MLP --model.hidden [10,0]", "0 is impossible; accepted: whole numbers from 1 up"),
        ("ResNet18 --model.groups 0", "0 is impossible; accepted: whole numbers from 1 up"),
    ],
)
def test_a_models_options_are_refused_where_they_are_read(words: str, told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        parse(["--model", *words.split()])
    name, value = words.split()[0], words.split()[2]
    key = words.split()[1].removeprefix("--model.")
    given = {key: [int(each) for each in value[1:-1].split(",")] if value.startswith("[") else int(value)}
    with pytest.raises(ConfigError, match=re.escape(told)):  # in a script, too
        registry.known("model")[name](in_shape=(1, 28, 28), num_classes=10, **given)


def test_help_tells_the_bounds() -> None:
    assert "(numbers from 0 up) [0.01]" in " ".join(about_class("method", "FedProx").split())
    assert "(0 <= dropout < 1) [0.2]" in " ".join(about_class("model", "FedCLMNIST").split())
    assert "(whole numbers from 1 up) [200]" in " ".join(about_class("model", "MLP").split())


@pytest.mark.parametrize("method", JUST_OUT)
def test_a_methods_options_are_refused_where_they_are_read(method: str) -> None:
    for name, (out, within) in ({**JUST_OUT["FedAvg"], **JUST_OUT[method]}).items():
        with pytest.raises(ConfigError, match=rf"^--method\.{name}: {out} is impossible; accepted: "):
            parse(["--method", method, f"--method.{name}", str(out)])
        assert parse(["--method", method, f"--method.{name}", str(within)]).method.init_args[name] == within


NOT_ITS_OWN = {"server_lr", "num_clients"}
"""FedAvg's, and what the run gives."""


def test_the_table_has_every_number_of_every_method() -> None:
    numbers = {
        name: {key for key, hint in get_type_hints(owner).items() if hint in (int, float, float | None)} - NOT_ITS_OWN
        for name, owner in registry.known("method").items()
    }
    assert {name: set(options) - NOT_ITS_OWN for name, options in JUST_OUT.items()} == numbers
