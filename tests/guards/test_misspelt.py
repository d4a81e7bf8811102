"""A hook that nobody would call is told of; what a method says of itself and cannot be is refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

from fl_ddp.config import registry
from fl_ddp.errors import ConfigError
from fl_ddp.guards.hooks import misspelt, refuse_unusable, uncalled
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.onlineewc import OnlineEWC


@pytest.mark.parametrize(("name", "meant"), [("penalti", "penalty"), ("client_updates", "client_update")])
def test_a_name_that_is_nearly_a_hooks_is_told(name: str, meant: str) -> None:
    def hook(self: FedAvg) -> None:
        pass

    told = list(misspelt(type("Mine", (FedAvg,), {name: hook, "_penaltie": hook, "penalty": hook}), FedAvg))
    place = r"warning: \S*test_misspelt\.py:\d+: "
    assert len(told) == 1 and re.fullmatch(
        place + rf"{name} is nothing that is called; did you mean {meant}\?", told[0]
    )


def test_no_method_of_ours_seems_to_misspell_one() -> None:
    for owner in registry.known("method").values():
        assert list(misspelt(owner, FedAvg)) == []


@pytest.mark.parametrize(("hook", "switch"), [("server_train", "trains_on_server"), ("measure", "proxy")])
def test_a_hook_without_what_calls_it_is_told(hook: str, switch: str) -> None:
    def mine(self: FedAvg) -> None:
        pass

    told = list(uncalled(type("Mine", (FedAvg,), {hook: mine})(), FedAvg, 2))
    place = r"warning: \S*test_misspelt\.py:\d+: "
    assert len(told) == 1 and re.fullmatch(place + rf"{hook} is never called: Mine has no {switch} of its own", told[0])
    assert not list(uncalled(type("Mine", (FedAvg,), {hook: mine, switch: True})(), FedAvg, 2))


def test_an_end_of_a_task_that_never_comes_is_told() -> None:
    assert list(uncalled(OnlineEWC(), FedAvg, 1)) == [
        "warning: OnlineEWC does something when a task ends, and the run has one task, without an end"
    ]
    assert list(uncalled(FedAvg(), FedAvg, 1)) == []


def test_all_hooks_of_our_methods_are_called() -> None:
    for owner in registry.known("method").values():
        assert list(uncalled(owner(), FedAvg, 2)) == []


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("proxy", 1.5, "0 <= proxy <= 1, a property"),
        ("proxy", -0.1, "0 <= proxy <= 1, a property"),
        ("proxy", None, "0 <= proxy <= 1, a property"),
        ("proxy", True, "0 <= proxy <= 1, a property"),
        ("proxy_batch", 0, "whole numbers from 1 up, a property"),
        ("proxy_batch", 2.0, "whole numbers from 1 up, a property"),
        ("trains_on_server", True, "false, or a server_train beside it"),
    ],
)
def test_what_a_method_cannot_be_is_refused(name: str, value: object, accepted: str) -> None:
    with pytest.raises(ConfigError, match=f"^--method: {name}: is {value} in Mine; accepted: {accepted}$"):
        refuse_unusable(type("Mine", (FedAvg,), {"proxy": 0.5, name: value})(), FedAvg)


def test_our_methods_can_be_what_they_say() -> None:
    for owner in registry.known("method").values():
        refuse_unusable(owner(), FedAvg)
    refuse_unusable(type("Mine", (FedAvg,), {"proxy": 1, "proxy_batch": 1})(), FedAvg)
    refuse_unusable(type("Mine", (FedAvg,), {"proxy": np.float32(0.5), "proxy_batch": np.int64(64)})(), FedAvg)
    refuse_unusable(type("Mine", (FedAvg,), {"proxy_batch": 0})(), FedAvg)
