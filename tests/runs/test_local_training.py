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
