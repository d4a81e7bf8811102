"""Samples of tokens: any model that embeds them trains to the same bits, and others are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import own_model, simulated
from token_digits import write_tokens

from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.errors import ConfigError

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "once", "compiled", "ranks", "resume")


MODELS: dict[str, dict[str, object]] = {
    "embedding": {"model": own_model("Averaged")["model"]},
    "LSTM": {"model": "CharLSTM", "model.dropout": 0.3},
    "transformer": {"model": own_model("Attentive")["model"]},
}
OFTEN = (("FedAvg", "embedding"), ("FedAvg", "LSTM"))
SELDOM = (("FisherAvg", "embedding"), ("FedKA", "LSTM"), ("FedAvg", "transformer"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "model"), [*OFTEN, *(pytest.param(*case, marks=pytest.mark.slow) for case in SELDOM)]
)
def test_bits_are_the_same(method: str, model: str, tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.npz")
    options = {"method": method, "data": str(tmp_path / "tokens.npz"), **MODELS[model]}
    with Judge() as judge:
        found = list(judge.findings(Case(method, options, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


def test_an_lstm_trains_under_autocast(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.npz", 100)
    given = {
        "data": str(tmp_path / "tokens.npz"),
        "clients": 4,
        "rounds": 2,
        "compile": False,
        "figures": False,
        "device": "cpu",
    }
    model = {"model": "CharLSTM", "model.hidden": 8, "model.layers": 1, "precision": "bfloat16"}
    summary = json.loads((simulated({**given, **model}, tmp_path) / "summary.json").read_text())
    assert summary["rounds"] == 2 and 0 < summary["loss"] < 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "MLP"}, "--model: MLP fails on tokens up to 16 [1, 12]: "),
        (
            {"model": own_model("Forgetful")["model"]},
            "--model: Forgetful fails on tokens up to 16 [1, 12]: index out of range",
        ),
        (
            {"model": "LeNet5"},
            "--model LeNet5: a sample of shape (12,) is no image; accepted: (channels, height, width)",
        ),
        ({"augment": ["flip"]}, "--augment: flip, but samples are [12]; accepted: images [channels, height, width]"),
        ({"stream": "Rotated"}, "--stream: Rotated turns images, and samples have the shape [12]"),
    ],
)
def test_what_cannot_take_tokens_is_told_in_one_line(options: dict[str, object], message: str, tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.npz", 100)
    with pytest.raises(ConfigError) as error:
        simulated({**own_model("Averaged"), "data": str(tmp_path / "tokens.npz"), **options}, tmp_path)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)
    advice = "; accepted: a model of tokens, as whole numbers are; or features, given as floats"
    assert str(error.value).endswith(advice) == (" fails on tokens " in message)
