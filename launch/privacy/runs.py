"""Which of some runs are to be attacked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fl_ddp.errors import ConfigError, RunError
from fl_ddp.host.stdout import say
from launch.run.reconstruction_curves import PICTURES, epochs_of, reconstruction_curves

DECODER_EPOCHS = 20
"""Of the attack, if not told otherwise."""


def attack_all(folders: Sequence[Path], epochs: int) -> None:
    """Attack those finished runs of FilVer that have not been attacked so.

    Raises:
        ConfigError: a run's clients send no embeddings, or something of it cannot be read.
        RunError: a file cannot be written, or the user has interrupted it.
    """
    waiting = [each for each in folders if not _is_attacked(each, epochs)]
    if not waiting:
        return
    # torch takes seconds to import
    from launch.privacy.of_run import attack, refuse_others

    for folder in waiting:
        refuse_others(folder)
    try:
        for number, folder in enumerate(waiting, 1):
            say(f"[{number}/{len(waiting)}] reconstructing from what {folder.name} sends")
            attack(folder, epochs)
    except KeyboardInterrupt:
        raise RunError("interrupted; the same command goes on") from None


def _is_attacked(folder: Path, epochs: int) -> bool:
    """Whether a run has been attacked so; numbers that cannot be read are made anew."""
    try:
        known = reconstruction_curves(folder) and epochs_of(folder) == epochs
    except ConfigError:
        return False
    return bool(known) and (folder / PICTURES).is_file()
