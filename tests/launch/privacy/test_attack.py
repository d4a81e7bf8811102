"""What a decoder makes of embeddings: as much as is in them, and no more."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from fl_ddp.datasets.digits import Digits
from fl_ddp.engine.seeds import torch_seed
from launch.privacy.attack import Reconstructed, Seen, psnr, reconstruct


def digits() -> tuple[Tensor, Tensor]:
    """Images [N, 1, 8, 8] with pixels in [0, 1], for training and for tests."""
    data = Digits().load()
    images = [torch.from_numpy(x).float().view(-1, 1, 8, 8) for x in (data.x_train, data.x_test)]
    return images[0] / images[0].max(), images[1] / images[0].max()


def attacked(sigma: float, *, statistics: bool, scale: float = 1.0) -> Reconstructed:
    """Where embeddings are the pixels, as wide as sigma."""

    def seen(images: Tensor) -> Seen:
        mu = scale * images.flatten(1)
        return Seen(images, torch.cat([mu, torch.full_like(mu, sigma)], 1))

    train, test = digits()
    with torch_seed(0):
        (found,) = reconstruct(seen(train), [seen(test)], statistics=statistics, epochs=8)
    return found


def test_psnr_is_the_mean_over_images_of_each_ones() -> None:
    images = torch.zeros(2, 1, 3, 3)
    others = torch.stack([torch.full((1, 3, 3), 0.1), torch.full((1, 3, 3), 0.01)])
    assert psnr(images, others) == pytest.approx((20 + 40) / 2, abs=1e-4)
    assert psnr(images, images) == pytest.approx(100)


def test_what_is_sent_as_it_is_is_found() -> None:
    found = attacked(0.0, statistics=False)
    assert found.psnr > found.psnr_of_mean + 4
    assert found.images.shape == digits()[1].shape
    assert found.psnr == pytest.approx(psnr(digits()[1], found.images))
    train, test = digits()
    by_hand = [-10 * math.log10(float((image - train.mean(0)).square().mean())) for image in test]
    assert found.psnr_of_mean == pytest.approx(sum(by_hand) / len(by_hand), rel=1e-5)


def test_draws_that_are_all_noise_are_worth_the_mean_image() -> None:
    found = attacked(100.0, statistics=False)
    assert found.psnr == pytest.approx(found.psnr_of_mean, abs=0.5)


@pytest.mark.slow
def test_statistics_tell_the_mean_whatever_their_width() -> None:
    assert attacked(100.0, statistics=True).psnr == pytest.approx(attacked(0.0, statistics=True).psnr, abs=0.5)


@pytest.mark.slow
def test_the_scale_of_embeddings_is_no_hindrance() -> None:
    assert attacked(0.0, statistics=False, scale=1000).psnr > attacked(0.0, statistics=False).psnr - 1
