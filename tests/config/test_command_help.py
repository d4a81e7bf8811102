"""What the command line prints in place of a run."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest
from command_lines import message_of, printed_by

from fl_ddp.config.command_help import GROUPS
from fl_ddp.config.settings import Config
from fl_ddp.version import __version__


def test_help_shows_each_option_once_with_its_doc_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed_by("--help", capsys)
    assert sorted(key for keys in GROUPS.values() for key in keys) == sorted(
        each.name for each in dataclasses.fields(Config)
    )
    for each in dataclasses.fields(Config):
        assert shown.count(f"\n  --{each.name} ") == 1
    assert "--rounds              number of communication rounds; 0 writes" in shown
    line = " ".join(shown.partition("\n  --lr ")[2].partition("\n  --")[0].split())
    assert line.startswith("learning rate of the clients in the first round;") and line.endswith(
        "(numbers above 0) [0.1]"
    )
    assert "FedProx" in shown
    assert len(shown.splitlines()) < 120
    assert max(map(len, shown.splitlines())) <= 120
    assert printed_by("-h --wrong 3", capsys) == shown


def test_help_of_a_class_shows_its_options_with_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed_by("--method.help FedProx", capsys)
    assert shown.startswith("FedProx: FedAvg whose clients are held near the received model.\n")
    assert "\n  --method.mu           strength of the pull" in shown
    assert "[0.01]\n" in shown
    assert "--method.model" not in shown
    assert "--model.in_shape" not in printed_by("--model.help mlp", capsys)
    assert "--partition.shards_per_client" in printed_by("--partition.help=shards", capsys)
    assert "\n  FedProx" in printed_by("--method.help", capsys)
    assert message_of("--method.help FedPorx").startswith("--method.help: FedPorx is unknown; did you mean FedProx?")


def test_help_of_a_class_without_a_docstring_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "undocumented.py").write_text(
        "import torch\nfrom dataclasses import dataclass\nfrom fl_ddp.methods.fedavg import FedAvg\n"
        "class Net(torch.nn.Module):\n    def __init__(self, width: int = 3): ...\n"
        "@dataclass(frozen=True)\nclass Mine(FedAvg):\n    rho: float = 0.5\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert printed_by("--model.help undocumented.Net", capsys).startswith("Net\n  --model.width ")
    assert printed_by("--method.help undocumented.Mine", capsys).startswith("Mine\n  --method.weights ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_by("--version", capsys) == f"fl_ddp {__version__}\n"


@pytest.mark.parametrize("line", ["--help", "--version", "--print_config", "--method.help FedAvg"])
def test_only_rank_0_prints(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert printed_by(line, capsys) == ""
    monkeypatch.setenv("RANK", "0")
    assert printed_by(line, capsys) != ""
