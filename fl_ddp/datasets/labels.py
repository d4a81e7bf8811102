"""Labels out of texts and numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WHOLE = re.compile(r"\s*[+-]?\d{1,18}(\.0*)?\s*", re.ASCII)
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)

EXACT = 2**53
"""Below it a float64 tells whole numbers apart."""
LARGEST = float(np.finfo(np.float32).max)


def from_words(words: Sequence[str]) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Labels [N] and names of the classes.

    Whole numbers count classes from 0 where there are enough samples for so many, and other words are numbered in their
    order. Any other numbers are no labels, and are given as they are, without names.
    """
    different = sorted(set(words))
    if all(map(WHOLE.fullmatch, different)):
        value = {word: int(word.partition(".")[0]) for word in different}
        return _counted(np.array([value[word] for word in words], np.int64))
    if all(map(NUMBER.fullmatch, different)):
        return np.array([float(word) for word in words]), ()
    place = {word: index for index, word in enumerate(different)}
    return np.array([place[word] for word in words], np.int64), tuple(different)


def from_numbers(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Labels [N] and names of the classes where the [N] numbers are whole; others as they are, without names."""
    exact = values.dtype.kind in "iu" or bool((np.abs(values) < EXACT).all() and (values == np.rint(values)).all())
    return _counted(values.astype(np.int64)) if exact else (values, ())


def no_number(values: Sequence[object]) -> int | None:
    """Place of the first of some texts, or numbers, that is no finite number of float32; None where all are."""
    return next((place for place, value in enumerate(values) if not _finite(value)), None)


def _counted(labels: npt.NDArray[np.int64]) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    num_classes = int(np.max(labels, initial=-1)) + 1
    return labels, tuple(map(str, range(num_classes))) if num_classes <= len(labels) else ()


def _finite(value: object) -> bool:
    if isinstance(value, str) and not NUMBER.fullmatch(value):
        return False
    return isinstance(value, str | float | int) and abs(float(value)) <= LARGEST
