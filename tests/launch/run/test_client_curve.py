"""One client's and class's curve in forgetting.csv."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.errors import ConfigError
from launch.run.stored import Run, client_curve, partition_counts

ROWS = """round,client,class,samples,received_accuracy,own_accuracy,forgetting_degree
1,0,cat,5,0.0,0.5,-500000.0
1,0,dog,0,0.5,0.25,0.5
1,1,cat,7,0.5,0.5,0.0
2,0,cat,5,0.5,0.25,0.5
2,0,dog,0,nan,nan,nan
3,0,cat,4,0.5,0.0,1.0
3,1,c"""


def test_a_curve_is_of_its_client_and_class_and_cut_off_below(tmp_path: Path) -> None:
    (tmp_path / "forgetting.csv").write_text(ROWS)
    assert client_curve(tmp_path, "forgetting_degree/0/cat") == [(1, -1.0), (2, 0.5), (3, 1.0)]
    assert client_curve(tmp_path, "forgetting_degree/0/dog") == [(1, 0.5)], "nothing where nothing was tested"
    assert client_curve(tmp_path, "samples/0/cat") == [(1, 5), (2, 5), (3, 4)]
    assert client_curve(tmp_path, "own_accuracy/1/cat") == [(1, 0.5)], "a row that is being written is left out"
    assert client_curve(tmp_path, "own_accuracy/2/cat") == []


def test_a_run_gives_it_up_to_its_last_evaluated_round(tmp_path: Path) -> None:
    (tmp_path / "forgetting.csv").write_text(ROWS)
    run = Run(tmp_path, {}, 2, 2, {"accuracy": [(1, 0.1), (2, 0.2)]}, 0.0, {"rounds": 2})
    assert run.curve("forgetting_degree/0/cat") == [(1, -1.0), (2, 0.5)]
    assert run.curve("accuracy") == [(1, 0.1), (2, 0.2)] and run.curve("accuracy/cat") == ()


def test_there_is_none_without_the_file(tmp_path: Path) -> None:
    assert client_curve(tmp_path, "forgetting_degree/0/cat") == [] and partition_counts(tmp_path) is None


@pytest.mark.parametrize("text", ["round,client,class\n1,0,3\n", "round,client,class,own_accuracy\nx,0,3,0.5\n"])
def test_what_no_run_writes_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "forgetting.csv").write_text(text)
    with pytest.raises(ConfigError, match="is not what a run writes"):
        client_curve(tmp_path, "own_accuracy/0/3")


def test_counts_that_no_run_writes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "partition.json").write_text('{"counts": 3}')
    with pytest.raises(ConfigError, match="is not what a run writes"):
        partition_counts(tmp_path)
