"""Accuracy on the clients' own test samples: of the model they receive, and of what each makes of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conformance_runs import SETTINGS, SOLO, play

from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.flat_model import FlatModel
from fl_ddp.engine.samples import Samples
from fl_ddp.evaluation import BATCH, evaluate_clients, own_accuracy
from fl_ddp.federation import build_federation

ROWS = 2 * BATCH + 300
GENERATOR = torch.Generator().manual_seed(4)
SAMPLES = Samples(torch.randn(ROWS, 6, generator=GENERATOR), torch.randint(3, (ROWS,), generator=GENERATOR))
PARTS = [np.arange(5), np.arange(0), np.arange(3, 4), np.arange(7, ROWS), np.array([9, 2, 77])]


def model() -> FlatModel:
    return FlatModel(torch.nn.Linear(6, 3), 3, torch.zeros(1, 6))


def plain(network: FlatModel, theta: torch.Tensor, part: np.ndarray[tuple[int], np.dtype[np.int64]]) -> float:
    rows = torch.from_numpy(part)
    return float((network.logits(theta, SAMPLES.x[rows]).argmax(1) == SAMPLES.y[rows]).double().mean())


def test_the_mean_is_over_clients_that_have_test_samples() -> None:
    network = model()
    theta = network.init()
    predict = lambda x: network.logits(theta, x)  # noqa: E731
    expected = np.mean([plain(network, theta, part) for part in PARTS if len(part)])
    assert evaluate_clients(predict, SAMPLES, PARTS, torch.float32, SOLO) == pytest.approx(expected, abs=1e-15)
    assert evaluate_clients(predict, SAMPLES, [PARTS[1]] * 3, torch.float32, SOLO) is None


def test_each_lane_is_tested_on_its_own_samples_with_its_own_model() -> None:
    network = model()
    theta = torch.stack([network.init() + 0.3 * torch.randn(network.num_params, generator=GENERATOR) for _ in PARTS])
    accuracy = own_accuracy(network, theta, SAMPLES, PARTS)
    expected = [plain(network, t, part) if len(part) else 0.0 for t, part in zip(theta, PARTS, strict=True)]
    assert accuracy.tolist() == pytest.approx(expected, abs=1e-15)


def test_a_run_reports_the_received_model_and_the_trained_ones() -> None:
    """What round 2's clients receive is what round 1 left; training on few classes raises a client's own accuracy."""
    kept = play({"rounds": 2})
    federation = build_federation(from_mapping(SETTINGS), SOLO)
    after_one = play({"rounds": 1}).state.server["theta"]
    expected = evaluate_clients(
        lambda x: federation.model.logits(after_one, x), federation.train, federation.local_test, torch.float32, SOLO
    )
    first, second = kept.records
    assert second.initial_accuracy == expected
    assert first.initial_accuracy is not None and first.personalised_accuracy is not None
    assert first.personalised_accuracy > first.initial_accuracy


def test_without_own_test_samples_nothing_is_reported() -> None:
    (record,) = play({"rounds": 1, "local_test": 0.0}).records
    assert record.initial_accuracy is None and record.personalised_accuracy is None
