"""What a run says of its data, once, before it begins: labels that count from 1, clients that are left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, simulated

FROM_ONE = "fl_ddp: warning: class 0 has no samples: labels seem to count from 1; the model has one output too many"


def told(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    train: list[int],
    test: list[int],
    shape: tuple[int, ...] = (4,),
    **more: object,
) -> str:
    """What a run prints whose labels these are, in turns."""
    y_train, y_test = np.resize(train, 60), np.resize(test, 12)
    arrays = {"x_train": np.ones((60, *shape), np.float32), "x_test": np.ones((12, *shape), np.float32)}
    np.savez(
        folder / "mine.npz",
        y_train=y_train,
        y_test=y_test,
        client_train=np.arange(60) % 8,
        allow_pickle=False,
        **arrays,
    )
    natural = {**SMALL, "partition": "Natural", "clients": 8, "cohort": 3, "rounds": 0}
    simulated({**natural, "data": str(folder / "mine.npz"), **more}, folder)
    return capsys.readouterr().out


def test_labels_from_one_are_warned_of_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(tmp_path, capsys, [1, 2, 3], [1, 2, 3]).splitlines().count(FROM_ONE) == 1


@pytest.mark.parametrize(("train", "test"), [([0, 1, 2], [1, 2]), ([1, 2, 3], [0, 1]), ([2, 3], [2, 3])])
def test_other_labels_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], train: list[int], test: list[int]
) -> None:
    assert "warning" not in told(tmp_path, capsys, train, test)


def test_classes_without_training_samples_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "fl_ddp: 8 of 11 classes have no training samples: 1, 2, 3, 4, 6, 7, 8, 9"
    assert told(tmp_path, capsys, [0, 5, 10], [0, 5, 10]).splitlines().count(line) == 1
    assert "no training samples" not in told(tmp_path, capsys, [0, 1], [0, 1], name="all")


@pytest.mark.parametrize(("shape", "warned"), [((8, 9, 3), True), ((3, 8, 9), False), ((8, 9), False)])
def test_floats_whose_channels_seem_to_be_last_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shape: tuple[int, ...], warned: bool
) -> None:
    """Rotating, cropping and flipping them would turn width and colours."""
    line = "fl_ddp: warning: inputs [8, 9, 3] are taken as [channels, height, width]: 8 channels"
    assert (line in told(tmp_path, capsys, [0, 1], [0, 1], shape=shape).splitlines()) == warned


def test_clients_that_are_left_out_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "fl_ddp: 5 of the 8 clients that the data name take part (--clients)"
    assert told(tmp_path, capsys, [0, 1], [0, 1], clients=5, name="few").splitlines().count(line) == 1
    for more in ({"clients": 8}, {"clients": 5, "partition": "IID"}):
        assert "take part" not in told(tmp_path, capsys, [0, 1], [0, 1], name=str(more["clients"]), **more)
