"""Numbers that a user's method reports become columns, the same on any ranks; what cannot be one is refused."""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from launching import SMALL, copied, failed, finished, numbers, resumed, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout
from users_method import said, written

import fl_ddp
from fl_ddp.check.runs import play, unlike_plays
from fl_ddp.errors import ConfigError
from fl_ddp.guards.hooks import refuse_unusable
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.results.metrics import Record
from launch.numbers.metric import parse_metric
from launch.numbers.read_off import read_off
from launch.run.stored import read_run

CONTRIBUTING = Path(fl_ddp.__file__).parents[1] / "CONTRIBUTING.md"
TELLS = """
reports = ("samples", "mean_samples", "share", "drift", "of_many")

def client_update(self, group, server, memory):
    upload = super().client_update(group, server, memory)
    drift = alike(upload.theta - server["theta"]).norm(dim=1)
    told = {
        "mean_samples": group.n,
        "samples": Term(group.n, weight=group.n[:, None]),
        "share": Term(group.n, minus=torch.ones(()), weight=torch.where(group.n > 100, 2 * group.n, 0)),
        "drift": Term(drift, weight=group.n),
        "of_many": Term(group.n / (group.n > 100), weight=group.n > 100),
    }
    return replace(upload, sums=upload.sums | told)
"""
REFUSED: Mapping[str, tuple[str, str]] = {
    "not_given": (
        """
        reports = ("pull",)
        """,
        "names pull, and client_update gives no sum of that name; accepted: names of its sums",
    ),
    "of_two_numbers": (
        """
        reports = ("pull",)
        def client_update(self, group, server, memory):
            upload = super().client_update(group, server, memory)
            return replace(upload, sums=upload.sums | {"pull": group.n[:, None]})
        """,
        r"names pull, and client_update gives it as float32 \[4, 1\]; accepted: \[4\], a number for each of 4 lanes",
    ),
    "no_tuple": (
        """
        reports = ("pull")
        """,
        r"""is 'pull'; accepted: a tuple of names, such as \("pull",\)""",
    ),
}


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not k.startswith("time")} for row in csv.DictReader(file)]


def tells(folder: Path, name: str = "tells", **more: object) -> dict[str, object]:
    """Settings of a run of a method that reports, in a file that no other test imports."""
    folder.mkdir(exist_ok=True)
    return {**written(TELLS, folder / f"{name}.py"), "local_test": 0.0, **more}


def test_means_are_by_the_weights_of_their_terms_and_all_else_is_as_without(tmp_path: Path) -> None:
    more = {"dropout_rate": 0.6, "cohort": 3, "rounds": 6}
    run = simulated(tells(tmp_path, "weights", **more), tmp_path / "told")
    without = simulated({**SMALL, **more}, tmp_path / "without")
    told, columns = rows(run), ("mean_samples", "samples", "share", "drift")
    kept = [{k: v for k, v in row.items() if not k.startswith("method/")} for row in told]
    assert kept == rows(without), "traffic, too"
    added = [column for column in told[0] if column not in kept[0]]
    assert added == [f"method/{name}" for name in ("samples", "mean_samples", "share", "drift", "of_many")]
    sizes = [len(part) for part in json.loads((run / "partition.json").read_text())["clients"]]
    with (run / "cohorts.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    seen = set()
    for row in told:
        n = [sizes[int(line["client"])] for line in lines if line["round"] == row["round"]]
        large = [each for each in n if each > 100]
        expected = (
            sum(n) / len(n) if n else None,
            sum(each**2 for each in n) / sum(n) if n else None,
            sum(each * (each - 1) for each in large) / sum(large) if large else None,
        )
        for name, value in zip(columns, expected, strict=False):
            assert row[f"method/{name}"] == ("" if value is None else str(value)), (row["round"], name)
        assert row["method/of_many"] == (str(sum(large) / len(large)) if large else "")
        assert (row["method/drift"] == "") == (not n) and float(row["method/drift"] or 1) > 0
        seen.add((bool(n), bool(large)))
    assert seen == {(True, True), (True, False), (False, False)}, "a mean may be of nobody"


@pytest.mark.slow
def test_what_is_reported_is_the_same_in_any_company(tmp_path: Path) -> None:
    settings = tells(tmp_path, "company", rounds=2, out=tmp_path / "together", local_test=0.2, eval_every=2)
    finished({**settings, "lanes": 3}, 2, tmp_path)
    for lanes in (1, 5):
        alone = simulated({**settings, "lanes": lanes}, tmp_path / f"alone{lanes}")
        assert rows(alone) == rows(tmp_path / "together/run") and numbers(alone) == numbers(tmp_path / "together/run")
    assert all(row["method/drift"] for row in rows(alone))


def test_the_example_of_contributing_is_told_everywhere(tmp_path: Path) -> None:
    blocks = re.split(r" *```(?:python)?\n", CONTRIBUTING.read_text(encoding="utf-8"))
    example = next(block for block in blocks if "reports = " in block)
    (tmp_path / "drifting.py").write_text(f"if True:\n{example}")
    found = list[Record]()
    given = {**SMALL, "method": f"{tmp_path / 'drifting.py'}:Drifting", "out": str(tmp_path)}
    run = Path(fl_ddp.simulate(given, callbacks=[found.append])["folder"])
    means = [record.reported["drift"] for record in found]
    assert [float(row["method/drift"]) for row in rows(run)] == means and len(set(means)) == 3 and min(means) > 0
    events = EventAccumulator(str(run)).Reload()
    assert [each.value for each in events.Scalars("method/drift")] == pytest.approx(means)
    layout = Layout.FromString(events.Tensors("custom_scalars__config__")[0].tensor_proto.string_val[0])
    charts = {category.title: category for category in layout.category}
    assert [list(chart.multiline.tag) for chart in charts["Method"].chart] == [["method/drift$"]]
    stored = read_run(run)
    assert stored
    told = read_off(parse_metric("final of method/drift"), stored.curve("method/drift"), ended=True)
    assert told and told.value == means[-1]


def test_a_run_that_goes_on_has_the_columns_it_began_with(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tells(tmp_path, "going_on", rounds=4)
    whole = simulated(settings, tmp_path / "whole")
    part = simulated({**settings, "rounds": 2}, tmp_path / "part")
    before = copied(part, tmp_path)
    assert rows(resumed(part, rounds=4)) == rows(whole) and numbers(part) == numbers(whole)
    monkeypatch.setattr(sys.modules["going_on"].Mine, "reports", ("drift",))  # as if the file was edited
    code, lines = said({"resume": before, "rounds": 4}, capfd)
    assert code == 2 and "or a method that reports other numbers, with other columns" in lines[0], lines


def test_a_number_that_is_not_finite_ends_the_run_as_a_sum_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    body = TELLS.replace("Term(drift, weight=group.n)", "Term(drift / 0, weight=group.n)")
    code, lines = said(written(body, tmp_path / "not_finite.py"), capfd)
    assert code == 1 and re.match(r"fl_ddp: error: round 1, client \d+: 'drift' is not finite", lines[0]), lines


def test_what_is_named_as_sent_counts(tmp_path: Path) -> None:
    sent = TELLS.replace("| told)", '| told, sent={"delta": upload.theta, "drift": told["drift"]})')
    (row, *_), (bare, *_) = (
        rows(simulated({**written(body, tmp_path / f"{name}.py"), "rounds": 1}, tmp_path / name))
        for name, body in {"named": sent, "unnamed": TELLS}.items()
    )
    cohort, up = int(row["cohort"]), int(row["traffic_up_bytes"])
    assert up == cohort * 4 * (1210 + 1) and int(bare["traffic_up_bytes"]) == cohort * 4 * (1210 + 2)


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_given_so_is_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str], case: str) -> None:
    body, what = REFUSED[case]
    code, lines = said(written(body, tmp_path / f"{case}.py"), capfd)
    assert (
        code == 2
        and len(lines) == 1
        and re.fullmatch(rf"fl_ddp: error: {case}\.py:11: reports of Mine: {what}", lines[0])
    )


@pytest.mark.slow
def test_so_it_is_on_two_ranks(tmp_path: Path) -> None:
    body, what = REFUSED["of_two_numbers"]
    ended = failed({**written(body, tmp_path / "of_two_ranks.py"), "lanes": 4}, 2, tmp_path)
    assert re.fullmatch(rf"fl_ddp: error: of_two_ranks\.py:11: reports of Mine: {what}", ended.ours[0]), ended.err
    assert "exitcode  : 2" in ended.err


@pytest.mark.parametrize(
    ("names", "what"),
    [
        ("pull", "is 'pull'; accepted: a tuple of names"),
        (["pull"], r"is \['pull'\]; accepted: a tuple of names"),
        (("pull", 3), "names 3; accepted: words without spaces, commas and slashes"),
        (("",), "names ''; accepted: words"),
        (("a/b",), "names 'a/b'; accepted: words"),
        (("a,b",), "names 'a,b'; accepted: words"),
        (("a b",), "names 'a b'; accepted: words"),
        (("a\n",), r"names 'a\\n'; accepted: words"),
        (("trained",), "names trained, as the engine calls a sum of its own; accepted: another name"),
        (("loss",), "names loss, as the engine calls"),
        (("weight",), "names weight, as the engine calls"),
        (("pull", "gap", "pull"), "names pull twice; accepted: each name once"),
    ],
    ids=str,
)
def test_what_is_no_name_of_a_column_is_refused(names: object, what: str) -> None:
    with pytest.raises(ConfigError, match=f"reports of Mine: {what}"):
        refuse_unusable(type("Mine", (FedAvg,), {"reports": names})(), FedAvg)


def test_the_check_of_a_method_looks_at_what_it_reports(tmp_path: Path) -> None:
    looks = TELLS.replace("Term(drift,", "Term(drift * group.real.sum(),")
    method = written(looks, tmp_path / "looks_at_neighbours.py")["method"]
    ours = play({"method": method, "rounds": 1}, lambda ids: [ids[:3], ids[3:5], ids[5:]])
    told = unlike_plays(ours, play({"method": method, "rounds": 1}))
    assert told == "round 1: drift of those reported"
    assert unlike_plays(ours, ours) == ""
