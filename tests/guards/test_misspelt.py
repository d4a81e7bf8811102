"""A hook whose name is misspelt is told of, and is nothing that anybody would call."""

from __future__ import annotations

import re

import pytest

from fl_ddp.config import registry
from fl_ddp.guards.hooks import misspelt, uncalled
from fl_ddp.methods.fedavg import FedAvg


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

    told = list(uncalled(type("Mine", (FedAvg,), {hook: mine})(), FedAvg))
    place = r"warning: \S*test_misspelt\.py:\d+: "
    assert len(told) == 1 and re.fullmatch(place + rf"{hook} is never called: Mine has no {switch} of its own", told[0])
    assert not list(uncalled(type("Mine", (FedAvg,), {hook: mine, switch: True})(), FedAvg))


def test_all_hooks_of_our_methods_are_called() -> None:
    for owner in registry.known("method").values():
        assert list(uncalled(owner(), FedAvg)) == []
