from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch

from fl_ddp.engine.samples import Normaliser, Samples, channel_statistics
from fl_ddp.protocol import Inputs


def pixels(*shape: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def features(*shape: int) -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).normal(3, 2, shape).astype(np.float32)


def plain(x: Inputs) -> npt.NDArray[np.float64]:
    return x.astype(np.float64) / (255 if x.dtype == np.uint8 else 1)


CASES: list[Inputs] = [
    pixels(50, 3, 6, 5),
    pixels(9, 1, 28, 28),
    features(40, 7),
    features(12, 2, 4, 3),
    features(5, 1),
]


@pytest.mark.parametrize("x", CASES, ids=lambda x: f"{x.dtype}{x.shape}")
def test_channel_statistics_are_those_of_float64(x: Inputs) -> None:
    mean, deviation = channel_statistics(x)
    axes = (0, *range(2, x.ndim))
    assert mean.shape == deviation.shape == (x.shape[1],) + (1,) * (x.ndim - 2)
    assert mean.dtype == torch.float64
    np.testing.assert_allclose(mean.numpy().ravel(), plain(x).mean(axes), rtol=1e-12)
    np.testing.assert_allclose(deviation.numpy().ravel(), plain(x).std(axes), rtol=1e-11)


@pytest.mark.parametrize("x", CASES, ids=lambda x: f"{x.dtype}{x.shape}")
def test_normalised_inputs_have_mean_zero_and_deviation_one(x: Inputs) -> None:
    samples = Samples(torch.from_numpy(x), torch.zeros(len(x), dtype=torch.int64), Normaliser(*channel_statistics(x)))
    inputs = samples.inputs(samples.x, torch.float64)
    dims = (0, *range(2, x.ndim))
    torch.testing.assert_close(inputs.mean(dims), torch.zeros(x.shape[1], dtype=torch.float64), atol=1e-10, rtol=0)
    torch.testing.assert_close(
        inputs.square().mean(dims), torch.ones(x.shape[1], dtype=torch.float64), atol=1e-10, rtol=0
    )


def test_statistics_of_many_samples_are_taken_in_parts() -> None:
    x = pixels(70, 1, 512, 512)
    mean, deviation = channel_statistics(x)
    np.testing.assert_allclose([mean.item(), deviation.item()], [plain(x).mean(), plain(x).std()], rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6, 1 / 3])
def test_a_constant_channel_has_deviation_one(value: float) -> None:
    x = features(1001, 2, 3)
    x[:, 1] = value
    mean, deviation = channel_statistics(x)
    assert deviation[1].item() == 1
    assert mean[1].item() == pytest.approx(np.float32(value), rel=1e-12)
    images = pixels(30, 2, 4, 4)
    images[:, 0] = 77
    assert channel_statistics(images)[1][0].item() == 1


def test_a_small_deviation_beside_a_large_mean_is_kept() -> None:
    x = (features(500, 1) * 1e-2 + 1e4).astype(np.float32)
    np.testing.assert_allclose(channel_statistics(x)[1].item(), plain(x).std(), rtol=1e-9)


def test_pixels_become_fractions_and_features_stay_as_they_are() -> None:
    y = torch.zeros(2, dtype=torch.int64)
    images = Samples(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), y)
    assert images.inputs(images.x, torch.float64).flatten().tolist() == [0, 51 / 255, 1]
    numbers = Samples(torch.tensor([[0.0, 51.0, 255.0]]), y)
    assert numbers.inputs(numbers.x, torch.float32).tolist() == [[0, 51, 255]]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64])
def test_tokens_stay_whole_numbers(dtype: torch.dtype) -> None:
    tokens = Samples(torch.tensor([[0, 3, 127]], dtype=dtype), torch.zeros(1, dtype=torch.int64))
    inputs = tokens.inputs(tokens.x, torch.float32)
    assert inputs.dtype == torch.int64 and inputs.tolist() == [[0, 3, 127]]


def test_inputs_of_grouped_batches_are_those_of_each_batch() -> None:
    x = pixels(20, 3, 4, 5)
    normaliser = Normaliser(*(t.float() for t in channel_statistics(x)))
    samples = Samples(torch.from_numpy(x), torch.zeros(20, dtype=torch.int64), normaliser)
    index = torch.tensor([[0, 5, 7], [19, 1, 0]])
    grouped = samples.inputs(samples.x[index], torch.float32)
    assert grouped.shape == (2, 3, 3, 4, 5) and grouped.dtype == torch.float32
    for lane in range(2):
        assert torch.equal(grouped[lane], samples.inputs(samples.x[index[lane]], torch.float32))
