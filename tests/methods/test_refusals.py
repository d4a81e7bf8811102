"""Options that a method has no rule for are refused before a run leaves anything."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from launching import SMALL, SUPPORT, simulated

from fl_ddp.errors import ConfigError

TASKS = {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1, "rounds": 2}
KNOWN = {**TASKS, "stream.scenario": "task"}
"""Tasks whose samples are classified among their own labels."""
EMBEDDED = f"{SUPPORT / 'own_models.py'}:Embedded"


@pytest.mark.parametrize(
    ("settings", "where"),
    [
        ({"method": "Scaffold", "clip_norm": 1.0}, "--clip_norm: 1, but Scaffold"),
        ({"method": "FedNova", "method.mu": 0.1, "momentum": 0.9}, "--method.mu: 0.1, but FedNova"),
        ({"method": "FilVer", "model": EMBEDDED, **KNOWN}, "--stream.scenario: task, but FilVer"),
    ],
)
def test_nothing_is_left_of_a_run_that_its_method_has_no_rule_for(
    tmp_path: Path, settings: Mapping[str, object], where: str
) -> None:
    given = {**SMALL, **settings}
    if settings.get("model") == EMBEDDED:
        del given["model.hidden"]
    with pytest.raises(ConfigError, match=f"^{where}"):
        simulated(given, tmp_path)
    assert not list(tmp_path.iterdir())


def test_they_may_be_told_their_task_if_it_is_not_filver(tmp_path: Path) -> None:
    simulated({**SMALL, "partition": "IID", **KNOWN}, tmp_path)


def test_a_users_method_refuses_by_what_it_calls_them(tmp_path: Path) -> None:
    file = tmp_path / "refuses_momentum.py"
    file.write_text(
        "from dataclasses import dataclass\nfrom fl_ddp.api import ConfigError, FedAvg\n\n@dataclass(frozen=True)\n"
        "class Mine(FedAvg):\n    def refuse(self, local, told):\n        if local.momentum and told:\n"
        '            raise ConfigError("--momentum", f"{local.momentum}, but Mine has no rule for it", "0")\n'
    )
    given = {**SMALL, "partition": "IID", **KNOWN, "method": f"{file}:Mine"}
    with pytest.raises(ConfigError, match=r"^--momentum: 0.5, but Mine has no rule for it; accepted: 0$"):
        simulated(given, tmp_path / "runs")
    assert not (tmp_path / "runs" / "run").exists()
    simulated({**given, "momentum": 0}, tmp_path / "runs")
