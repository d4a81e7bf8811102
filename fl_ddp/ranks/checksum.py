"""A number that two ranks' states have in common if they are the same, bit for bit."""

from __future__ import annotations

import zlib
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.protocol import Tensors

_PIECES, _BITS = 4, 16
_WIDTH = 2**13
_AT_ONCE = 2**8
"""Rows of words hashed at once, for the sake of memory."""
_BASE = 0x2545F4914F6CDD1D
"""Of the polynomial whose coefficients are sums of rows; odd. Source: the constant of xorshift64* (Vigna 2016)."""
_SHIFT = 29
"""So large that a sign, which an arithmetic shift spreads over all bits above, changes 29 of a word's 32."""


def checksum(tensors: Tensors) -> Tensor:
    """The bits of all tensors, their names, types and shapes, as four whole numbers [4] below 2^16, on their device.

    Any float type of a sum over ranks can hold such numbers. A tensor's 32-bit words are multiplied by odd weights of
    their places, mixed, so that a changed sign shows in lower bits, too, and summed by two modulo 2^64: what differs
    has another sum, but for a chance that is beyond noticing.
    """
    head, sums = 0, list[Tensor]()
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        full, whole = len(raw) // (4 * _WIDTH) * 4 * _WIDTH, len(raw) // 8 * 8
        parts = list(torch.split(raw[:full].view(torch.int32).view(-1, _WIDTH), _AT_ONCE)) if full else []
        if whole > full:
            parts.append(raw[full:whole].view(torch.int32)[None])
        if len(raw) > whole:
            parts.append(F.pad(raw[whole:].int(), (0, len(raw) % 2))[None])
        head = _BASE * head + zlib.crc32(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        sums += [_row_sums(part) for part in parts]
    rows = torch.cat(sums) if sums else torch.zeros(0, dtype=torch.int64)
    powers = _powers(len(rows) + 1, rows.device)
    total = (rows * powers[1:]).sum() + _signed(head) * powers[0]
    pieces: Tensor = total >> _places(rows.device) & 2**_BITS - 1
    return pieces


def _row_sums(words: Tensor) -> Tensor:
    """Sums [R] of words [R, n], n even, that were weighted by their places, then mixed."""
    weighted = words * _weights(words.device)[: words.shape[1]]
    weighted ^= weighted >> _SHIFT
    return weighted.view(torch.int64).sum(1)


@cache
def _powers(number: int, device: torch.device) -> Tensor:
    """So many powers [number] of the base modulo 2^64, the highest first."""
    return torch.tensor([_signed(pow(_BASE, n, 2**64)) for n in reversed(range(number))], device=device)


def _signed(word: int) -> int:
    """A number modulo 2^64 as one of int64."""
    return (word + 2**63) % 2**64 - 2**63


@cache
def _places(device: torch.device) -> Tensor:
    """Where each piece begins [_PIECES], in bits."""
    return torch.arange(_PIECES, device=device) * _BITS


@cache
def _weights(device: torch.device) -> Tensor:
    """Odd numbers [_WIDTH] that look random. Source: the constants of SplitMix64 (Steele et al. 2014)."""
    place = torch.arange(1, _WIDTH + 1, device=device) * -0x61C8864680B583EB
    place ^= place >> _SHIFT
    return (place * -0x40A7B892E31B1A47 >> 32).int() | 1
