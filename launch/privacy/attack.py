"""How well a server that is curious reconstructs images from what FIL-VER's clients send of them.

The server has trained the encoder on the first task, so it has that task's images. On pairs of these and of what a
client would send it trains a decoder, and turns it on images that it never saw. A better decoder may exist: what is
found is the least that leaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from launch.privacy.decoder import Decoder

_BATCH, _LR = 128, 1e-3
_LEAST_ERROR = 1e-10
"""Of an image, 100 dB: an image without any error would be infinitely well reconstructed."""


class Seen(NamedTuple):
    """Images and what is known of them.

    Attributes:
        images: [N, C, H, W], pixels in [0, 1].
        embeddings: [N, 2 D], mu | sigma of each.
    """

    images: Tensor
    embeddings: Tensor


class Reconstructed(NamedTuple):
    """What became of some images.

    Attributes:
        psnr: mean over images, dB.
        psnr_of_mean: of the mean image of those that the decoder is trained on, which whoever sees nothing would take.
        images: [N, C, H, W] reconstructions.
    """

    psnr: float
    psnr_of_mean: float
    images: Tensor


def reconstruct(known: Seen, others: Sequence[Seen], *, statistics: bool, epochs: int) -> list[Reconstructed]:
    """Train a decoder on some images, by torch's generator, and reconstruct others with it.

    Args:
        known: images that the attacker has, of which it makes what clients would send.
        others: images of which it has what clients send.
        statistics: whether clients send mu and sigma, or one draw.
        epochs: of the decoder's training.
    """
    decoder = _trained(known, statistics, epochs)
    mean = known.images.mean(0)
    found = []
    for each in others:
        with torch.no_grad():
            images = torch.cat([decoder(some) for some in torch.split(_sent(each.embeddings, statistics), _BATCH)])
        found.append(Reconstructed(psnr(each.images, images), psnr(each.images, mean.expand_as(images)), images))
    return found


def psnr(images: Tensor, others: Tensor) -> float:
    """Peak signal-to-noise ratio of images [N, C, H, W] with pixels in [0, 1], dB, the mean over them."""
    error = (images - others).square().flatten(1).mean(1).clamp_min(_LEAST_ERROR)
    return float((-10 * error.log10()).mean())


def _trained(known: Seen, statistics: bool, epochs: int) -> Decoder:
    channels, height, width = known.images.shape[1:]
    decoder = Decoder(_sent(known.embeddings, statistics), (channels, height, width)).to(known.images.device)
    optimizer = torch.optim.Adam(decoder.parameters(), lr=_LR)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(known.images)).to(known.images.device), _BATCH):
            optimizer.zero_grad()
            sent = _sent(known.embeddings[rows], statistics)
            mse_loss(decoder(sent), known.images[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return decoder


def _sent(embeddings: Tensor, statistics: bool) -> Tensor:
    """What clients send of distributions mu | sigma [B, 2 D]: all of it, or a draw [B, D]."""
    mu, sigma = embeddings.chunk(2, 1)
    return embeddings if statistics else mu + sigma * torch.randn_like(mu)
