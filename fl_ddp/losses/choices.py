"""What options and tables can say of losses; without torch, which commands need not wait for."""

from collections.abc import Mapping
from typing import Literal

LossName = Literal["cross_entropy", "mse", "bce"]
Score = Literal["accuracy", "mae"]

SCORES: Mapping[LossName, Score] = {"cross_entropy": "accuracy", "mse": "mae", "bce": "accuracy"}
"""What a client's models are measured by on its own test samples, and a run's progress."""
MEASURES: Mapping[LossName, tuple[str, ...]] = {
    "cross_entropy": (),
    "mse": ("mae", "r2"),
    "bce": ("exact_match", "f1", "auc"),
}
"""What a test tells beside loss and accuracies, columns of metrics.csv."""
ERRORS = ("loss", "mae")
"""Those of which less is better, of any size; of all others more is."""
R2 = "r2"
"""The one of them that may be below 0: no share of anything."""
