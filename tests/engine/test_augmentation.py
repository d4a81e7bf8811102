"""Images shifted and mirrored: as torchvision does it with the same draws."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv

from fl_ddp.engine.augmentation import augmented, most_shifted
from fl_ddp.engine.choices import Augmentation
from fl_ddp.engine.seeds import uniform


def images(size: int, height: int = 16, width: int = 24) -> Tensor:
    """Of three channels, no pixel of which is 0."""
    random = torch.Generator().manual_seed(0)
    return torch.randint(1, 256, (size, 3, height, width), generator=random, dtype=torch.uint8)


def torchvisions_own(x: Tensor, key: Tensor, kinds: tuple[Augmentation, ...]) -> Tensor:
    """Each image padded, cropped and flipped for itself."""
    size, _, height, width = x.shape
    down, right, mirror = uniform(key, 2**20, [size, 3]).unbind(1)
    most = (most_shifted(height), most_shifted(width))
    out = []
    for image, i, j, flip in zip(x, down.tolist(), right.tolist(), mirror.tolist(), strict=True):
        if "crop" in kinds:
            padded = tv.pad(image, [most[1], most[0]])
            top, left = int(i * (2 * most[0] + 1)), int(j * (2 * most[1] + 1))
            image = tv.crop(padded, top, left, height, width)
        if "flip" in kinds and flip < 0.5:
            image = tv.horizontal_flip(image)
        out.append(image)
    return torch.stack(out)


@pytest.mark.parametrize("kinds", [("crop",), ("flip",), ("crop", "flip"), ("flip", "crop")])
@pytest.mark.parametrize("key", [0, 1, 12345])
def test_it_is_torchvisions(kinds: tuple[Augmentation, ...], key: int) -> None:
    x, of = images(40), torch.tensor(key)
    ours = augmented(x, of, kinds)
    assert ours.dtype == x.dtype and torch.equal(ours, torchvisions_own(x, of, kinds))
    assert not torch.equal(ours, x)


def test_all_shifts_are_as_likely_and_half_are_mirrored() -> None:
    x = torch.arange(1, 17 * 17).view(1, 1, 16, 18).float().expand(20_000, -1, -1, -1)
    both = augmented(x, torch.tensor(7), ("crop",))
    corners = both[:, 0, 8, 8].long()
    counts = torch.bincount(corners)
    assert int((counts > 0).sum()) == 5 * 5 and float(counts[counts > 0].sub(800).abs().max()) < 150
    flipped = (augmented(x, torch.tensor(7), ("flip",))[:, 0, 0, 0] != 1).float().mean()
    assert abs(float(flipped) - 0.5) < 0.02


def test_lanes_are_as_if_each_were_alone_and_keys_matter() -> None:
    x = torch.stack([images(9), images(9)])
    keys = torch.tensor([3, 4])
    lanes = torch.vmap(lambda each, key: augmented(each, key, ("crop", "flip")))(x, keys)
    for lane, key in enumerate(keys):
        assert torch.equal(lanes[lane], augmented(x[lane], key, ("crop", "flip")))
    assert not torch.equal(lanes[0], lanes[1])
    assert torch.equal(augmented(x[0][:4], keys[0], ("crop", "flip")), lanes[0][:4])  # whatever comes behind them


def test_small_images_are_shifted_little() -> None:
    assert [most_shifted(side) for side in (8, 28, 32, 64)] == [1, 3, 4, 8]
    assert torch.equal(augmented(images(5, 7, 7), torch.tensor(0), ("crop",)), images(5, 7, 7))
