"""What result files say of where they come from."""

from __future__ import annotations

import sys

import pytest

from fl_ddp.results.provenance import provenance


def test_the_command_is_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["/somebody/bin/python3", "-m", "fl_ddp.main", "--name", "two words"])
    found = provenance()
    assert found["command"] == "python -m fl_ddp.main --name 'two words'"
    assert str(found["date"]).endswith("+00:00") and found["torch"] and found["cpu"]
