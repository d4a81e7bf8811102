"""Every random number is a function of (seed, round, client, purpose): there is no generator state to save.

Host side: 64-bit keys by SplitMix64 (Steele et al. 2014) and numpy's counter-based Philox. Device side: a 32-bit
multiply-xorshift hash kept in int64, so that no product overflows, for noise inside a compiled step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fl_ddp.protocol import Counts, Indices

Keys = npt.NDArray[np.uint64]

_ALL = 2**64 - 1
_CPU = torch.device("cpu")


class Purpose(IntEnum):
    """What a random number is for; the numbers are part of every run's results."""

    MODEL = 1
    PARTITION = 2
    LOCAL_TEST = 3
    COHORT = 4
    ORDER = 5
    NOISE = 6
    PROXY = 7
    IMPORTANCE = 8
    DRAW = 9
    METHOD = 10
    SERVER = 11
    SAMPLE = 12
    SHARED = 13
    AGAIN = 14
    HELD_OUT = 15
    REDUCTION = 16
    STREAM = 17
    ENROLMENT = 18
    KEPT = 19
    TASK = 20
    RECONSTRUCTION = 21
    DROPOUT = 22
    CLIENT_LR = 23
    CLIENT_WORK = 24
    STRAGGLER = 25
    LATE = 26
    CLASS_ORDER = 27
    MEASURE = 28


def _mix(word: Any) -> Any:
    """A word of 64 bits, or an array of them, each mixed."""
    word = (word + 0x9E3779B97F4A7C15) & _ALL
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _ALL
    return word ^ (word >> 31)


def keys(*words: int | npt.NDArray[np.integer]) -> Keys:
    """Hash words into 64-bit keys; arrays among the words are broadcast against each other."""
    key: Any = 0  # one of Python's numbers until an array comes: those take a tenth of the time
    with np.errstate(over="ignore"):
        for word in words:
            key = _mix(key ^ _mix(word.astype(np.uint64) if isinstance(word, np.ndarray) else int(word) & _ALL))
    return np.atleast_1d(np.asarray(key, np.uint64))


def unit(drawn: Keys) -> npt.NDArray[np.float64]:
    """A uniform number in [0, 1) of each key."""
    return np.ldexp((drawn >> np.uint64(11)).astype(np.float64), -53)


def generator(*words: int) -> np.random.Generator:
    """A numpy generator of its own for these words."""
    return np.random.Generator(np.random.Philox(key=int(keys(*words)[0])))


@contextmanager
def torch_seed(*words: int, device: torch.device = _CPU) -> Iterator[None]:
    """Run a block, such as a module's constructor, under torch's global CPU generator seeded by these words.

    So is that of a device that is given; those of other GPUs, which torch.manual_seed() would seed, stay as they are.
    """
    seed, gpus = int(keys(*words)[0] >> np.uint64(1)), [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        torch.default_generator.manual_seed(seed)
        for each in gpus:
            torch.cuda.default_generators[each.index or 0].manual_seed(seed)
        yield


def shuffled(order_keys: Keys, n: Counts, epoch: int) -> Indices:
    """One random order of each client's samples.

    Args:
        order_keys: [G] key of each client in this round.
        n: [G] number of samples of each client.
        epoch: of the client in this round.

    Returns:
        [G, max n] positions in the client's sample list; the first n of a row are a permutation that depends on the
        client's key, n and epoch alone, the rest is padding.
    """
    position = np.arange(int(np.max(n, initial=0)))
    rank = keys(order_keys[:, None], epoch, position[None]) >> np.uint64(1)
    rank[position[None] >= n[:, None]] = np.iinfo(np.uint64).max
    return np.argsort(rank, axis=1)


def _hash32(word: Tensor) -> Tensor:
    word = ((word ^ (word >> 16)) * 0x21F0AAAD) & 0xFFFFFFFF
    word = ((word ^ (word >> 15)) * 0x735A2D97) & 0xFFFFFFFF
    return word ^ (word >> 15)


def noise_key(*words: int | npt.NDArray[np.integer]) -> Tensor:
    """Keys of noise on a device, int64 in [0, 2**31), of words that are hashed as keys() does; on the host."""
    return torch.from_numpy((keys(*words) >> np.uint64(33)).astype(np.int64))


def uniform(key: Tensor, stream: int | Tensor, shape: Sequence[int]) -> Tensor:
    """Uniform noise in [0, 1) that depends on the key, the stream and the position in the shape alone.

    Args:
        key: [] or [G] int64 in [0, 2**31).
        stream: number [] of the consumer, such as a layer; other streams of a key have nothing to do with each other.
        shape: of the noise of one key.

    Returns:
        [*shape] or [G, *shape], float32.
    """
    position = torch.arange(math.prod(shape), device=key.device).view(shape)
    start = _hash32(_hash32(key) ^ stream)
    if key.ndim:
        start = start.view(-1, *[1] * len(shape))
    bits = _hash32(start ^ position)
    return (bits >> 8).float() * 2.0**-24


def normal(key: Tensor, stream: int, shape: Sequence[int]) -> Tensor:
    """Standard normal noise, as uniform() has it. Source: Box and Muller 1958."""
    radius = (-2 * torch.log1p(-uniform(key, 2 * stream, shape))).sqrt()
    return radius * torch.cos(2 * math.pi * uniform(key, 2 * stream + 1, shape))
