"""One client's curves in forgetting.csv."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.errors import ConfigError
from launch.run.client_curves import client_curves
from launch.run.stored import Run, partition_counts

ROWS = """round,client,class,samples,received_accuracy,own_accuracy,forgetting_degree
1,0,cat,5,0.0,0.5,-500000.0
1,0,T-shirt/top,0,0.5,0.25,0.5
1,1,cat,7,0.5,0.5,0.0
2,0,cat,5,0.5,0.25,0.5
2,0,T-shirt/top,0,nan,nan,nan
3,0,cat,4,0.5,0.0,1.0
3,1,c"""


def test_curves_are_of_their_client_by_class_and_cut_off_below(tmp_path: Path) -> None:
    (tmp_path / "forgetting.csv").write_text(ROWS)
    first = client_curves(tmp_path, 0)
    assert list(first) == ["cat", "T-shirt/top"]
    assert first["cat"]["forgetting_degree"] == [(1, -1.0), (2, 0.5), (3, 1.0)]
    assert first["T-shirt/top"]["forgetting_degree"] == [(1, 0.5)], "nothing where nothing was tested"
    assert first["cat"]["samples"] == [(1, 5), (2, 5), (3, 4)]
    assert client_curves(tmp_path, 1)["cat"]["own_accuracy"] == [(1, 0.5)], "a row that is being written is left out"
    assert client_curves(tmp_path, 2) == {}


def test_a_run_gives_them_up_to_its_last_evaluated_round(tmp_path: Path) -> None:
    (tmp_path / "forgetting.csv").write_text(ROWS)
    run = Run(tmp_path, {}, 2, 2, {"accuracy": [(1, 0.1), (2, 0.2)]}, [], {"rounds": 2})
    assert run.curve("forgetting_degree/0/cat") == [(1, -1.0), (2, 0.5)]
    assert run.curve("own_accuracy/0/T-shirt/top") == [(1, 0.25)]
    assert run.curve("accuracy") == [(1, 0.1), (2, 0.2)] and run.curve("accuracy/T-shirt/top") == ()
    assert run.curve("own_accuracy/0/dog") == []


def test_there_are_none_without_the_file(tmp_path: Path) -> None:
    assert client_curves(tmp_path, 0) == {} and partition_counts(tmp_path) is None


@pytest.mark.parametrize("text", ["round,client,class\n1,0,3\n", ROWS.replace("0.25,0.5", "x,0.5")])
def test_what_no_run_writes_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "forgetting.csv").write_text(text)
    with pytest.raises(ConfigError, match="is not what a run writes"):
        client_curves(tmp_path, 0)


def test_counts_that_no_run_writes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "partition.json").write_text('{"counts": 3}')
    with pytest.raises(ConfigError, match="is not what a run writes"):
        partition_counts(tmp_path)
