"""Which clients can be reached in which rounds, and what becomes of a run then."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from launching import SMALL, numbers, resumed, simulated

from fl_ddp.check.runs import SOLO, course
from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.protocol import Indices
from fl_ddp.tasks.availability import Availability, Interval, read_availability

HEAD = "client,from,to\n"
FORM = "; accepted: a CSV file client,from,to of rounds counted from 1, both included; nothing behind the last comma is"


def test_intervals_hold_both_of_their_ends(tmp_path: Path) -> None:
    (tmp_path / "who.csv").write_text("\ufeff" + HEAD + "0,2,3\n\n 2 , 3 ,\n0,5,5\n")  # as a spreadsheet writes it
    it = read_availability(str(tmp_path / "who.csv"), 4)
    found = [it.among(np.arange(4), index).tolist() for index in (*range(6), 10**6)]
    assert found == [[1, 3], [0, 1, 3], [0, 1, 2, 3], [1, 2, 3], [0, 1, 2, 3], [1, 2, 3], [1, 2, 3]]
    assert it.among(np.array([0, 3]), 0).tolist() == [3], "it is asked about clients that are present"
    assert it.text == HEAD + "0,2,3\n2,3,\n0,5,5\n"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 9), st.integers(1, 9)), max_size=6))
def test_a_client_is_there_in_any_of_its_intervals(rows: list[tuple[int, int, int]]) -> None:
    known = [Interval(*row) for row in rows if row[1] <= row[2]]
    it = Availability(known, 5)
    for index in range(10):
        for client in range(5):
            own = [each for each in known if each.client == client]
            here = not own or any(each.first <= index + 1 <= each.last for each in own)
            assert (client in it.among(np.arange(5), index)) == here


@pytest.mark.parametrize(("rows", "always"), [("0,2,3\n", 3), ("0,1,\n1,9,\n2,2,2\n0,5,6\n3,1,2\n", 0)])
def test_who_can_always_be_drawn_beside_others_is_told(tmp_path: Path, rows: str, always: int) -> None:
    (tmp_path / "who.csv").write_text(HEAD + rows)
    given = {**SMALL, "clients": 4, "cohort": 4, "availability": str(tmp_path / "who.csv")}
    remarks = [each for each in build_federation(from_mapping(given), SOLO).remarks if "--availability" in each]
    told = f"{always} of 4 clients can be drawn in every round, as --availability has no row of theirs"
    assert remarks == ([told] if always else [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", " is empty; accepted: a CSV file client,from,to"),
        ("client,from\n0,1\n", " begins with 'client,from'" + FORM),
        ("client,to,from\n", " begins with 'client,to,from'" + FORM),
        (HEAD + "0,1\n", ": '0,1' is no interval" + FORM),
        (HEAD + "0,x,3\n", ": '0,x,3' is no interval" + FORM),
        (HEAD + "0,,3\n", ": '0,,3' is no interval" + FORM),
        (HEAD + "0,1,2.5\n", ": '0,1,2.5' is no interval" + FORM),
        (HEAD + "-1,1,2\n", ": '-1,1,2' is no interval" + FORM),
        (HEAD + "0,1,2\n12,1,2\n", ": '12,1,2': there are 12 clients, numbered from 0"),
        (HEAD + "0,0,2\n", ": '0,0,2': rounds are counted from 1"),
        (HEAD + "0,3,2\n", ": '0,3,2': it ends before it begins"),
    ],
)
def test_what_is_no_availability_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "who.csv"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        simulated({**SMALL, "availability": str(file)}, tmp_path)
    assert str(error.value).startswith(f"--availability: {file}{message}") and "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--availability: .*nowhere\.csv cannot be read as a table \(\[Errno 2\]"):
        simulated({**SMALL, "availability": str(tmp_path / "nowhere.csv")}, tmp_path)


def test_the_cohort_is_drawn_among_those_that_can_be_reached(tmp_path: Path) -> None:
    (tmp_path / "who.csv").write_text(HEAD + "".join(f"{k},1,{2 if k < 8 else 3}\n" for k in range(10)))
    given: dict[str, object] = {"clients": 12, "availability": str(tmp_path / "who.csv"), "model.hidden": 4}
    half = build_federation(from_mapping({**given, "participation": 0.5}), SOLO).turnout
    three = build_federation(from_mapping({**given, "cohort": 3}), SOLO).turnout
    assert [len(half.drawn(index)) for index in range(5)] == [6, 6, 2, 1, 1]
    assert [len(three.drawn(index)) for index in range(5)] == [3, 3, 3, 2, 2]
    assert set(three.drawn(2)) <= {8, 9, 10, 11} and three.drawn(3).tolist() == [10, 11]
    assert len({tuple(half.drawn(index)) for index in range(2)}) == 2


def test_a_run_passes_rounds_in_which_nobody_is_available(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    who = tmp_path / "who.csv"
    who.write_text(HEAD + "".join(f"{k},1,1\n{k},4,4\n{k},6,\n" for k in range(12)))
    settings = {**SMALL, "rounds": 6, "availability": str(who), "method": "FedDyn", "keep_checkpoints": 9}
    run = simulated(settings, tmp_path)
    told = [line for line in capsys.readouterr().out.splitlines() if "nobody is available" in line]
    assert told == ["fl_ddp: warning: nobody is available in rounds 2 to 3 and 1 more: nothing is trained then"]
    with (run / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["cohort"] for row in table] == ["7", "0", "0", "7", "0", "7"]
    assert [row["traffic_down_bytes"] == "0" for row in table] == [False, True, True, False, True, False]
    states = course(run)
    assert [a.unlike(b) == "" for a, b in pairwise(states)] == [True, True, False, True, False]
    part = resumed(simulated({**settings, "rounds": 2, "name": "part"}, tmp_path), rounds=6)
    assert numbers(part) == numbers(run)


@pytest.mark.parametrize(
    ("empty", "settings", "name", "unknown"),
    [
        # the server's samples are there in a round without clients
        (1, {"method": "FedCL", "method.every": 9}, "omega", 1.0),
        # the first Fisher is not mixed with one that nobody has measured
        (1, {"method": "FisherAvg", "method.gamma": 1.0}, "fisher", 0.0),
        # a task has a Fisher, measured before it ends
        (2, {"method": "OnlineEWC", "stream.tasks": 2, "stream.task_rounds": 2}, "fisher", 0.0),
    ],
)
def test_what_a_method_measures_does_not_wait_for_a_round_that_nobody_is_in(
    tmp_path: Path, empty: int, settings: dict[str, object], name: str, unknown: float
) -> None:
    who = tmp_path / "who.csv"
    before = [f"{k},1,{empty - 1}\n" for k in range(12) if empty > 1]
    who.write_text(HEAD + "".join([*before, *(f"{k},{empty + 1},\n" for k in range(12))]))
    small = {**SMALL, "rounds": 2, "availability": str(who), "personalise": "cohort"}
    state = course(simulated(small | settings, tmp_path))[-1]
    assert not torch.all(state.server[name] == unknown)


def test_all_that_is_always_there_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "who.csv").write_text(HEAD + "".join(f"{k},1,\n" for k in range(0, 12, 2)))
    plain = simulated({**SMALL, "name": "plain"}, tmp_path)
    assert numbers(simulated({**SMALL, "availability": str(tmp_path / "who.csv")}, tmp_path)) == numbers(plain)
    assert not (plain / "availability.csv").exists()


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_availability(tmp_path: Path) -> None:
    who = tmp_path / "who.csv"
    who.write_text(HEAD + "3,2,\n")
    run = simulated({**SMALL, "rounds": 2, "availability": str(who)}, tmp_path)
    assert (run / "availability.csv").read_text() == HEAD + "3,2,\n"
    with pytest.raises(ConfigError, match=r"^availability: null is not .*; with --resume only"):
        resumed(run, rounds=4, availability=None)
    who.write_text(HEAD + "3,1,\n")
    what = "the run was started with another availability of its clients; restore the file of --availability"
    with pytest.raises(ConfigError) as error:
        resumed(run, rounds=4)
    assert str(error.value) == f"{run / 'availability.csv'}: {what}"
    who.write_text(HEAD + "3,2,\n")
    assert resumed(run, rounds=4) == run


def test_its_path_is_stored_from_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(from_mapping({"availability": "who.csv"}))
    assert config.availability == str(tmp_path / "who.csv")


def test_a_last_task_that_is_left_for_good_does_not_end(tmp_path: Path) -> None:
    """Where nobody ever comes again, nobody is waited for."""

    class Patient(Availability):
        def among(self, clients: Indices, index: int) -> Indices:
            assert index < 20, "rounds are looked at without end"
            return super().among(clients, index)

    given = {"model.hidden": 4, "compile": False, "clients": 2, "stream.tasks": 2, "stream.task_rounds": 2}
    turnout = build_federation(from_mapping({**given, "device": "cpu"}), SOLO).turnout
    turnout.availability = Patient([Interval(0, 1, 3), Interval(1, 2, 3)], 2)
    assert [turnout.ends_task(index) for index in range(5)] == [False, True, False, False, False]
