"""Clients that lose samples of a class: who has what in which round."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launching import SMALL, resumed, simulated

from fl_ddp.check.runs import SOLO, course
from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.seeds import generator
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.partitions.class_reduction import ClassReduction, SamplesLeft, read_reductions

LABELS = np.array([0, 1, 2] * 10)
CLIENTS = [np.arange(12), np.arange(12, 30)]
CLASSES = ("cat", "dog", "emu")


def reduction(*reductions: SamplesLeft) -> ClassReduction:
    return ClassReduction(reductions, CLIENTS, LABELS, partial(generator, 0))


def counts(it: ClassReduction, index: int, client: int) -> list[int]:
    return [int((LABELS[it.of_round(index)[client]] == label).sum()) for label in range(3)]


def test_counts_fall_from_their_rounds_on() -> None:
    it = reduction(SamplesLeft(0, 1, 3, 2), SamplesLeft(0, 1, 5, 0), SamplesLeft(1, 2, 3, 1), SamplesLeft(0, 2, 6, 1))
    assert [counts(it, index, 0) for index in range(7)] == [[4, 4, 4]] * 2 + [[4, 2, 4]] * 2 + [[4, 0, 4]] + [
        [4, 0, 1]
    ] * 2
    assert [counts(it, index, 1) for index in range(6)] == [[6, 6, 6]] * 2 + [[6, 6, 1]] * 4


def test_a_round_s_samples_are_a_part_of_the_last_one_s_in_their_order() -> None:
    it = reduction(*(SamplesLeft(0, 1, first, 4 - first) for first in range(1, 5)))
    for index in range(4):
        before, now = (it.of_round(i)[0] for i in (index - 1 if index else 0, index))
        assert set(now) <= set(before) and (np.diff(now) > 0).all()
    assert it.of_round(0)[1] is CLIENTS[1]


@given(st.integers(0, 2**31 - 1), st.integers(0, 4))
def test_what_is_left_is_drawn_by_seed(seed: int, left: int) -> None:
    ones = ClassReduction([SamplesLeft(0, 0, 1, left)], CLIENTS, LABELS, partial(generator, seed)).of_round(0)[0]
    assert (LABELS[ones] == 0).sum() == left and (LABELS[ones] != 0).sum() == 8
    again = ClassReduction([SamplesLeft(0, 0, 1, left)], CLIENTS, LABELS, partial(generator, seed)).of_round(0)[0]
    assert np.array_equal(ones, again)


def test_it_is_not_always_the_first_that_stay() -> None:
    kept = {
        tuple(ClassReduction([SamplesLeft(0, 0, 1, 2)], CLIENTS, LABELS, partial(generator, seed)).of_round(0)[0])
        for seed in range(20)
    }
    assert len(kept) > 3


def test_inline_and_in_a_file(tmp_path: Path) -> None:
    expected = [SamplesLeft(0, 1, 50, 10), SamplesLeft(3, 2, 60, 0)]
    assert read_reductions("0,dog,50,10; 3, emu ,60,0", CLASSES) == expected
    file = tmp_path / "it.csv"
    file.write_text("client,class,round,count\n0,dog,50,10\n\n3,emu,60,0\n")
    assert read_reductions(str(file), CLASSES) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0,dog,50", "'0,dog,50' is no reduction; accepted: client,class,round,count with ; between"),
        ("0,dog,50,-1", "'0,dog,50,-1' is no reduction"),
        ("", "'' is no reduction"),
        ("0,cow,50,1", "'0,cow,50,1': there is no class cow; accepted: cat, dog, emu"),
        ("0,dog,0,1", "rounds are counted from 1"),
        (
            "0,dog,5,1;0,dog,5,2",
            "client 0, class dog, round 5: 1 and 2 samples; accepted: one number for a client's class in a round",
        ),
        ("nowhere.csv", "nowhere.csv cannot be read as a table ([Errno 2] No such file"),
    ],
)
def test_what_is_no_reduction_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_reductions(text, CLASSES)
    assert str(error.value).startswith("--class_reduction: ") and message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_with_another_head_is_refused(tmp_path: Path) -> None:
    (tmp_path / "it.csv").write_text("client,round,class,count\n")
    with pytest.raises(ConfigError, match="begins with 'client,round,class,count'"):
        read_reductions(str(tmp_path / "it.csv"), CLASSES)


@pytest.mark.parametrize(
    ("reductions", "message"),
    [
        ([SamplesLeft(2, 0, 1, 0)], "client 2, class 0, round 1: there are 2 clients"),
        (
            [SamplesLeft(0, 0, 1, 5)],
            "client 0, class 0, round 1: 5 samples are more than the 4 there were; accepted: 0 to 4",
        ),
        ([SamplesLeft(0, 0, 7, 2), SamplesLeft(0, 0, 3, 1)], "round 7: 2 samples are more than the 1 there were"),
        ([SamplesLeft(0, 0, n, left) for n, left in ((2, 3), (3, 1), (4, 2))], "round 4: 2 .* more than the 1 there"),
        ([SamplesLeft(1, c, 2 + c, 0) for c in range(3)], "leaves client 1 no samples"),
    ],
)
def test_what_cannot_be_is_refused(reductions: list[SamplesLeft], message: str) -> None:
    with pytest.raises(ConfigError, match=f"--class_reduction: .*{message}"):
        reduction(*reductions)


@pytest.mark.slow
def test_a_run_trains_on_what_is_left_and_goes_on_so(tmp_path: Path) -> None:
    given = {
        **SMALL, "clients": 4, "cohort": 4, "partition": "IID", "rounds": 4, "checkpoint_every": 1,
        "keep_checkpoints": 9, "forgetting_every": 1, "class_reduction": "0,3,2,5;0,3,4,0",
    }  # fmt: skip
    run = simulated(given, tmp_path / "whole")
    table = [line.split(",") for line in (run / "forgetting.csv").read_text().splitlines()[1:]]
    left = [int(row[3]) for row in table if row[1:3] == ["0", "3"]]
    federation = build_federation(from_mapping(given), SOLO)
    begins = int((federation.labels[federation.clients[0]] == 3).sum())
    assert left == [begins, 5, 5, 0] and begins > 5
    plain = simulated({**given, "class_reduction": None, "name": "plain"}, tmp_path / "plain")
    same = [not ours.unlike(theirs) for ours, theirs in zip(course(run), course(plain), strict=True)]
    assert same == [True, False, False, False]
    part = simulated({**given, "rounds": 3}, tmp_path / "part")
    resumed(part, rounds=4)
    assert (part / "forgetting.csv").read_bytes() == (run / "forgetting.csv").read_bytes()


def test_a_file_means_the_same_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = from_mapping({"class_reduction": "it.csv"})
    assert with_absolute_paths(config).class_reduction == str(tmp_path / "it.csv")
    inline = from_mapping({"class_reduction": "0,1,2,3"})
    assert with_absolute_paths(inline).class_reduction == "0,1,2,3"


def test_a_run_does_not_go_on_with_other_reductions(tmp_path: Path) -> None:
    file = tmp_path / "less.csv"
    file.write_text("client,class,round,count\n0,3,2,0\n1,2,2,0\n")
    run = simulated({**SMALL, "rounds": 1, "class_reduction": str(file)}, tmp_path)
    file.write_text("client,class,round,count\n0,3,2,0\n1,2,2,0\n1,3,1,0\n")
    with pytest.raises(ConfigError, match="made with other samples, inputs or labels in its tasks"):
        resumed(run, rounds=2)
    file.write_text("client,class,round,count\n\n1,2,2,0\n0,3,2,0\n")
    resumed(run, rounds=2)
