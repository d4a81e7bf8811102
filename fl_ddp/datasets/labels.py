"""Labels out of texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WHOLE = re.compile(r"\s*[+-]?\d{1,18}(\.0*)?\s*", re.ASCII)
NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


def from_words(words: Sequence[str]) -> tuple[npt.NDArray[Any], tuple[str, ...]]:
    """Labels [N] and names of the classes.

    Whole numbers count classes from 0 where there are enough samples for so many, and other words are numbered in their
    order. Any other numbers are no labels, and are given as they are, without names.
    """
    different = sorted(set(words))
    if all(map(WHOLE.fullmatch, different)):
        value = {word: int(word.partition(".")[0]) for word in different}
        labels = np.array([value[word] for word in words], np.int64)
        num_classes = int(np.max(labels, initial=-1)) + 1
        return labels, tuple(map(str, range(num_classes))) if num_classes <= len(words) else ()
    if all(map(NUMBER.fullmatch, different)):
        return np.array([float(word) for word in words]), ()
    place = {word: index for index, word in enumerate(different)}
    return np.array([place[word] for word in words], np.int64), tuple(different)
