"""Networks for text."""

from __future__ import annotations

import pytest
import torch

from fl_ddp.engine.seeds import torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.models.lstm import CharLSTM


def test_parameters_are_the_papers() -> None:
    """Of two layers of 256 on embeddings of 8: 4 (D + H + 2) H each, torch having two biases."""
    module = CharLSTM(in_shape=(80,), num_classes=80, num_tokens=80)
    layers = [4 * 256 * (inputs + 256 + 2) for inputs in (8, 256)]
    assert sum(p.numel() for p in module.parameters()) == 80 * 8 + sum(layers) + 257 * 80 == 819_920


def test_the_last_character_counts_and_the_first_one_too() -> None:
    with torch_seed(0):
        module = CharLSTM(in_shape=(4,), num_classes=5, num_tokens=7, hidden=6, layers=1, embedding=3)
    x = torch.tensor([[0, 1, 2, 3], [6, 1, 2, 3], [0, 1, 2, 6]])
    features, logits = module(x)
    assert features.shape == (3, 6) and torch.equal(logits, module.head(features))
    assert not torch.equal(features[0], features[1]) and not torch.equal(features[0], features[2])


def test_pixels_are_no_text() -> None:
    with pytest.raises(ConfigError) as error:
        CharLSTM(in_shape=(1, 8, 8), num_classes=10, num_tokens=0)
    message = "--model CharLSTM: a sample of shape (1, 8, 8) is of no tokens; accepted: a data set of tokens"
    assert str(error.value) == message
