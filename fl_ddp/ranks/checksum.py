"""A number that two ranks' states have in common if they are the same, bit for bit."""

from __future__ import annotations

import torch

from fl_ddp.protocol import Tensors

_PIECES, _BITS = 4, 16


def checksum(tensors: Tensors) -> list[int]:
    """The bits of all tensors as four numbers below 2^16, which any float type of a sum over ranks can hold.

    Sums of 64-bit words modulo 2^64, those of a tensor's first half weighing more, so that halves that change places
    are seen; all weights are odd, so no change of a single word is lost.
    """
    total = 0
    for tensor in tensors.values():
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        words = raw[: len(raw) // 8 * 8].view(torch.int64)
        rest = raw[len(raw) // 8 * 8 :]
        total = 31 * total + int(words.sum()) + 6 * int(words[: len(words) // 2].sum()) + 3 * int(rest.sum())
    return [total >> _BITS * piece & 2**_BITS - 1 for piece in range(_PIECES)]
