"""A user's loss that counts padding is refused in the first round, and one in evaluation mode is told of."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import one_thread, options, own_model
from users_method import said, written

from fl_ddp.main import main

LOGITS = "self.model.logits(theta, batch.x, batch.key, batch.mask)"
EACH = "self.model.nll(theta, batch.x, batch.y)"
COUNTED: dict[str, str] = {
    "all_rows": f"F.cross_entropy({LOGITS}, batch.y)",
    "sum_of_all": f"{EACH}.sum() / batch.mask.sum()",
    "inputs_of_all": f"({EACH} * batch.mask).mean() + theta[0].sum() * batch.x.mean()",
}
SOUND: dict[str, str] = {
    "real_rows": f"mean_over(batch.mask, self.model.losses({LOGITS}, batch.y))",
    "of_the_model": "self.model.loss(theta, batch)",
    "weighted": f"({EACH} * batch.mask).sum() / batch.mask.sum().clamp_min(1)",
    "near_the_servers": "self.model.loss(theta, batch) + (theta[0] - server['theta'][0]).square().sum()",
}
MODES = {
    "evaluation": "mean_over(batch.mask, self.model.losses(self.model.logits(theta, batch.x), batch.y))",
    "training": SOUND["real_rows"],
}


def of(loss: str, file: Path) -> dict[str, object]:
    body = f"""
    def loss(self, theta, batch, server, mine):
        from torch.nn import functional as F
        from fl_ddp.api import mean_over
        return {loss}
    """
    return written(body, file)


@pytest.mark.parametrize("name", COUNTED)
def test_a_loss_that_counts_padding_is_refused(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, lines = said(of(COUNTED[name], tmp_path / f"padding_{name}.py"), capfd)
    told = "loss of Mine: counts rows of a batch that are padding, where batch.mask is 0; accepted: a mean over real"
    assert code == 2 and len(lines) == 1 and lines[0].startswith(f"fl_ddp: error: padding_{name}.py:13: {told}"), lines


def test_it_is_refused_again_in_the_same_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = of(COUNTED["all_rows"], tmp_path / "padding_again.py")
    assert said(settings, capfd) == said({**settings, "name": "again"}, capfd)


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("compile", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_one_of_real_samples_is_not(
    name: str, compile: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = {**of(SOUND[name], tmp_path / f"sound_{name}_{compile}.py"), "compile": compile}
    code, lines = said(settings, capfd)
    assert code == 0 and not any("warning" in line for line in lines), lines


@pytest.mark.parametrize("mode", MODES)
def test_a_model_with_running_statistics_that_is_not_trained_as_such_is_told_of(
    mode: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    with one_thread():
        assert main(options({**of(MODES[mode], tmp_path / f"mode_{mode}.py"), **own_model("Normed")})) == 0
    lines = [line for line in "".join(capfd.readouterr()).splitlines() if "warning" in line]
    told = f"fl_ddp: warning: mode_{mode}.py:13: loss of Mine: the model is in evaluation mode"
    assert [line.startswith(told) for line in lines] == [True] * (mode == "evaluation"), lines
