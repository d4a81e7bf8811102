"""What options say of local training: the same bits on any ranks, in any groups and after a kill."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, simulated

from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.errors import ConfigError

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
ALL: dict[str, object] = {
    "augment": ["crop", "flip"], "label_smoothing": 0.1, "clip_norm": 1.0, "optimizer": "AdamW", "momentum": 0.0,
    "lr": 0.01, "lr_schedule": "warmup_cosine", "lr_warmup": 2, "lr_schedule_over": "steps", "lr_decay": 1.0,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FedProx", "FisherAvg"])
def test_all_options_together_leave_the_bits_the_same(method: str, tmp_path: Path) -> None:
    with Judge() as judge:
        found = list(judge.findings(Case(method, {"method": method, **ALL}, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


def test_vectors_are_no_images(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    x, y = random.random((60, 5)).astype(np.float32), np.arange(60) % 3
    np.savez(tmp_path / "flat.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    settings = {**SMALL, "data": str(tmp_path / "flat.npz"), "partition": "IID", "augment": ["flip"]}
    with pytest.raises(ConfigError) as error:
        simulated(settings, tmp_path)
    message = "--augment: flip, but samples are [5]; accepted: images [channels, height, width]"
    assert str(error.value) == message


def test_images_that_are_too_small_to_be_shifted_are_not_cropped(tmp_path: Path) -> None:
    """An eighth of a side, of which 7 pixels have none."""
    for side in (7, 8):
        x = np.zeros((40, 1, side, 7), np.float32)
        np.savez(tmp_path / f"{side}.npz", x_train=x, y_train=np.arange(40) % 2, x_test=x[:4], y_test=np.arange(4) % 2)
    given = {**SMALL, "clients": 7, "partition": "IID", "augment": ["crop"], "rounds": 1}
    with pytest.raises(
        ConfigError, match=r"--augment: crop, but images of 7 x 7 pixels are shifted by none; accepted: "
    ):
        simulated({**given, "data": str(tmp_path / "7.npz")}, tmp_path)
    simulated({**given, "data": str(tmp_path / "8.npz")}, tmp_path)
