"""The command that checks a method: its table, its exit codes, and that it outlives whatever the method does."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from launching import SUPPORT

from fl_ddp.check.__main__ import main
from fl_ddp.check.candidate import Case
from fl_ddp.check.handlers import Finding
from fl_ddp.check.judge import Judge, NotRunError
from fl_ddp.check.rules import RULES
from fl_ddp.check.words import read, report

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
MINE = """
import os
import time
from dataclasses import dataclass

import torch

from fl_ddp.api import FedAvg


@dataclass(frozen=True)
class Mine(FedAvg):
"""
CHECKS = [rule.name for rule in RULES]


def written(folder: Path, name: str, body: str) -> str:
    """A method of a user's own, in a file of that name."""
    (folder / f"{name}.py").write_text(MINE + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n")
    return f"{folder / name}.py:Mine"


def found(folder: Path, method: str, *checks: str, patience: float = 300.0, **options: float) -> list[Finding]:
    """What some checks find of a method with its options."""
    settings = {"method": method, **{f"method.{name}": value for name, value in options.items()}}
    with Judge(patience) as judge:
        return list(judge.findings(Case("it", settings, folder), checks))


def results(table: str) -> dict[str, str]:
    """The column of results in a table, by check."""
    rows = (re.match(r"(\w+) .*  (holds|does not hold|not applicable)  +\d", line) for line in table.splitlines())
    return {row[1]: row[2] for row in rows if row}


@pytest.mark.slow
def test_the_example_of_the_guide_holds_everywhere(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    example = CONTRIBUTING.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    (tmp_path / "checked_example.py").write_text(example)
    assert main([f"{tmp_path / 'checked_example.py'}:Prox", "--method.mu", "0.3"]) == 0
    assert results(capfd.readouterr().out) == dict.fromkeys(CHECKS, "holds")


def test_what_does_not_hold_is_told_with_its_reason(capfd: pytest.CaptureFixture[str]) -> None:
    fine = [Finding("lanes", "holds", "", 0.5), Finding("neutral", "not applicable", "it is FedAvg itself", 0.0)]
    assert report(fine) == 0
    assert capfd.readouterr().out.splitlines()[2:] == [
        "lanes    any clients may share a group             holds               0.5",
        "neutral  at its neutral coefficients it is FedAvg  not applicable      0.0",
        "         it is FedAvg itself",
        "",
        "no check fails",
    ]
    assert report([*fine, Finding("ranks", "does not hold", "2 ranks: round 1: theta differs", 2.0, "a way\n")]) == 1
    told = capfd.readouterr()
    assert results(told.out) == {"lanes": "holds", "neutral": "not applicable", "ranks": "does not hold"}
    assert told.err == "a way\n"
    assert told.out.endswith("\n         2 ranks: round 1: theta differs\n\n1 of 3 checks do not hold: ranks\n")


@pytest.mark.slow
def test_a_method_with_mistakes_is_found_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = """
        def server_update(self, server, total, info):
            size = int(os.environ.get("WORLD_SIZE", "1"))
            return {"theta": (server["theta"] + self.mean_delta(total) / size).float()}

        def correct(self, g, theta, server, mine):
            if torch.compiler.is_compiling():
                raise KeyError("c")
            return 0.9 * g
    """
    assert main([written(tmp_path, "knows_ranks", body)]) == 1
    told = capfd.readouterr()
    failing = {"once", "compiled", "ranks", "resume"}
    expected = {name: "does not hold" if name in failing else "holds" for name in CHECKS} | {
        "neutral": "not applicable"
    }
    assert results(told.out) == expected
    assert re.search(r"\n +2 ranks: round 1: server: theta differs in .* by up to .*; 3 ranks: round 1: ", told.out)
    cannot = r"\n +knows_ranks\.py:\d+: the local step cannot be compiled \(.*\); --compile false runs it as it is\n"
    assert re.search(cannot, told.out)
    assert told.out.endswith("4 of 12 checks do not hold: once, compiled, ranks, resume\n")


@pytest.mark.parametrize(
    ("words", "stream"),
    [
        (["FedProx"], None),
        (["OnlineEWC"], (2, 5, 1)),
        (["OnlineEWC", "--method.lam", "3"], (2, 5, 1)),
        (["OnlineEWC", "--stream", "ClassGroups", "--stream.tasks", "3", "--stream.size", "3"], (3, 3, 1)),
        (["FedProx", "--stream", "ClassGroups", "--stream.size", "5", "--stream.tasks", "2"], (2, 5, 1)),
        (["FedAvg", "--stream", "ClassGroups", "--stream.size", "2", "--stream.task_rounds", "4"], (5, 2, 4)),
        (["OnlineEWC", "--stream.task_rounds", "2"], (2, 5, 2)),
        (["OnlineEWC", "--stream.size", "2"], (2, 2, 1)),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_ends_tasks_has_tasks(words: list[str], stream: tuple[int, ...] | None) -> None:
    settings = read(words)
    assert ("stream" in settings) == bool(stream)
    if stream:
        assert tuple(settings[f"stream.{name}"] for name in ("tasks", "size", "task_rounds")) == stream
    assert settings["method"] == f"fl_ddp.methods.{words[0].lower()}.{words[0]}"


@pytest.mark.slow
def test_a_method_that_needs_layers_is_checked_with_a_model_that_has_them(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["FedBN"]) == 2
    assert "MLP has no BatchNorm" in capfd.readouterr().err
    assert main(["FedBN", "--model", f"{SUPPORT / 'own_models.py'}:Normed"]) == 0
    held = results(capfd.readouterr().out)
    assert held.pop("neutral") == "not applicable" and set(held.values()) == {"holds"} and len(held) == len(CHECKS) - 1


def test_a_model_has_options() -> None:
    plain = read(["FedAvg"])
    narrow = {"model": "fl_ddp.models.mlp.MLP", "model.hidden": 8}
    assert read(["FedAvg", "--model.hidden", "8"]) == {**plain, **narrow}
    assert read(["FedAvg", "--model", "LeNet5"]) == {**plain, "model": "fl_ddp.models.cnn.LeNet5"}


@pytest.mark.parametrize("tasks", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_what_does_nothing_is_told_to_need_tasks_where_it_has_none(tmp_path: Path, tasks: int) -> None:
    settings = {"method": written(tmp_path, "idle", "pass"), "rounds": 2}
    of_tasks = {"stream": "ClassGroups", "stream.tasks": tasks, "stream.size": 5, "stream.task_rounds": 1}
    with Judge() as judge:
        (found,) = judge.findings(Case("it", settings | (of_tasks if tasks else {}), tmp_path), ["effect"])
    assert found.verdict == "does not hold" and ("what acts after a task needs some" in found.reason) == (not tasks)


@pytest.mark.slow
def test_a_method_of_tasks_that_comes_with_the_package_holds_everywhere(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["OnlineEWC", "--method.lam", "10"]) == 0
    assert results(capfd.readouterr().out) == dict.fromkeys(CHECKS, "holds")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"METHOD: is missing"),
        (["--method", "FedProx"], r"METHOD: is missing"),
        (["nowhere.py:Mine"], r"method: nowhere.py: no such file"),
        (["FedPrix"], r"method: FedPrix is unknown; did you mean FedProx\?"),
        (["fl_ddp.api:Nothing"], r"method: fl_ddp.api.Nothing is unknown; .* has no class Nothing"),
        (["fl_ddp.models.mlp:MLP"], r"method: fl_ddp.models.mlp.MLP is no subclass of .*FedAvg"),
        (["FedProx", "--method.mu", "-1"], r"--method.mu: -1"),
        (["FedProx", "--method.nu", "1"], r"--method.nu: unknown option; FedProx has .*mu"),
        (
            ["FedProx", "--lr", "1"],
            r"--lr: is no option of the checks; accepted: --method.<option> value, or --model or --stream with a NAME",
        ),
        (["FedProx", "--stream", "Nothing"], r"--stream: Nothing is unknown"),
        (["OnlineEWC", "--stream.task_rounds", "3"], r"--stream: no task ends before the last of the checks' 3 rounds"),
        (["OnlineEWC", "--stream", "Static"], r"--stream: no task ends .*; accepted: two tasks or more"),
        (["FedProx", "FedAvg"], r"FedAvg: belongs to no option"),
    ],
)
def test_what_cannot_be_run_is_told_in_one_line(
    capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(words) == 2
    told = capfd.readouterr()
    assert re.fullmatch(f"fl_ddp: error: {message}.*\n", told.err) and not told.out, told.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "body", "code", "message"),
    [
        (
            "raises",
            """
            def correct(self, g, theta, server, mine):
                return g - mine["c"]
            """,
            2,
            r"raises.py:14: Mine: 'c' is none of the tensors that it is given",
        ),
        (
            "draws",
            """
            def init(self):
                return {"theta": self.model.init() + torch.rand(())}
            """,
            1,
            r"draws.py:14: init of Mine draws from torch's global generator",
        ),
        (
            "takes_a_name",
            """
            def average(self, group, server, trained):
                return super().average(group, server, trained) | {"trained": group.n}
            """,
            2,
            r"fedavg.py:\d+: client_update of Mine: gives a sum or row named trained",
        ),
    ],
)
def test_a_method_that_cannot_run_at_all_is_told_as_a_run_tells_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str, body: str, code: int, message: str
) -> None:
    assert main([written(tmp_path, name, body)]) == code
    told = capfd.readouterr()
    assert re.fullmatch(f"fl_ddp: error: {message}.*\n", told.err) and not told.out, told.err


@pytest.mark.slow
def test_a_method_that_cannot_run_spoils_no_other(tmp_path: Path) -> None:
    with Judge() as judge:
        for _ in range(2):
            with pytest.raises(NotRunError, match="is unknown"):
                list(judge.findings(Case("it", {"method": "Nothing"}, tmp_path), ["shapes"]))
        (shapes,) = judge.findings(Case("it", {"method": "FedAvg"}, tmp_path), ["shapes"])
    assert shapes.verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mistake", "reason"),
    [
        ("fails", "memory['c']", "one_fails.py:15: KeyError: 'c'"),
        pytest.param("hangs", "time.sleep(600)", "is not over after 60 s", marks=pytest.mark.slow),
    ],
)
def test_a_rank_that_fails_or_hangs_is_a_finding(tmp_path: Path, name: str, mistake: str, reason: str) -> None:
    body = """
        def client_update(self, group, server, memory):
            if os.environ.get("RANK") == "1":
                {}
            return super().client_update(group, server, memory)
    """
    method = written(tmp_path, f"one_{name}", body.format(mistake))
    (ranks,) = found(tmp_path, method, "ranks", patience=60.0)
    assert (ranks.verdict, ranks.reason) == ("does not hold", f"2 ranks: {reason}")


@pytest.mark.slow
def test_a_check_that_dies_takes_no_other_with_it(tmp_path: Path) -> None:
    body = """
        def client_update(self, group, server, memory):
            if group.real.sum() == 1:
                os._exit(7)
            return super().client_update(group, server, memory)
    """
    lanes, shapes = found(tmp_path, written(tmp_path, "dies_alone", body), "lanes", "shapes")
    assert (lanes.verdict, lanes.reason) == ("does not hold", "its process ended with exit code 7")
    assert shapes.verdict == "holds"


@pytest.mark.slow
def test_options_that_are_neutral_ask_for_no_effect(tmp_path: Path) -> None:
    neutral, effect = found(tmp_path, "FedProx", "neutral", "effect", mu=0.0)
    assert (neutral.verdict, effect.verdict) == ("holds", "not applicable")
    neutral, effect = found(tmp_path, "FedProx", "neutral", "effect", mu=0.3, server_lr=0.5)
    assert (neutral.verdict, effect.verdict) == ("holds", "holds")


def test_a_method_that_trains_as_fedavg_does_and_reports_has_an_effect(tmp_path: Path) -> None:
    blocks = re.split(r" *```(?:python)?\n", CONTRIBUTING.read_text(encoding="utf-8"))
    example = next(block for block in blocks if "reports = " in block)
    for name, text in (("reporting", example), ("silent", example.replace('("drift",)', "()"))):
        (tmp_path / f"{name}.py").write_text(f"if True:\n{text}")
    verdicts = [
        found(tmp_path, f"{tmp_path / name}.py:Drifting", "effect")[0].verdict for name in ("reporting", "silent")
    ]
    assert verdicts == ["holds", "does not hold"]


@pytest.mark.parametrize(("name", "beside_fedavg"), [("Mixed", "neutral"), ("Median", "effect")])
def test_whole_methods_of_the_guide_hold(tmp_path: Path, name: str, beside_fedavg: str) -> None:
    blocks = re.split(r" *```(?:python)?\n", CONTRIBUTING.read_text(encoding="utf-8"))
    example = next(block for block in blocks if f"class {name}(FedAvg)" in block)
    (tmp_path / f"guides_{name}.py").write_text(f"if True:\n{example}")
    asked = (beside_fedavg, "lanes", "padding", "order", "shapes", "intact", "again")
    findings = found(tmp_path, f"{tmp_path / f'guides_{name}.py'}:{name}", *asked)
    assert [each.verdict for each in findings] == ["holds"] * len(asked), findings


def test_help_says_what_each_check_is_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    told = capfd.readouterr().out
    for rule in RULES:
        assert f"\n{rule.name}: {rule.meaning}\n" in told and (rule.gap.__doc__ or "").partition("\n")[0] in told
