"""Runs whose reconstructions cannot be compared, since their decoders were trained for different epochs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from launch.run.edited import runs_in_words
from launch.run.reconstruction_curves import epochs_of
from launch.run.stored import Run


def by_other_decoders(runs: Sequence[Run]) -> list[str]:
    """What to say of PSNRs of runs that launch.reconstruct has read with different --epochs.

    Raises:
        ConfigError: a file is not what launch.reconstruct writes.
    """
    of_epochs: dict[int, list[Path]] = {}
    for run in runs:
        if (epochs := epochs_of(run.folder)) is not None:
            of_epochs.setdefault(epochs, []).append(run.folder)
    each = (f"{runs_in_words(folders)} for {epochs}" for epochs, folders in sorted(of_epochs.items()))
    return [f"PSNRs are by decoders trained for different epochs: {'; '.join(each)}"] if len(of_epochs) > 1 else []
