"""What a run's reconstruction.csv tells: how well its clients' images can be reconstructed from what they send."""

from __future__ import annotations

from pathlib import Path

from fl_ddp.results.written_rows import written_rows
from launch.numbers.metric import Curve

FILE, PICTURES = "reconstruction.csv", "reconstruction.safetensors"
COLUMNS = ("task", "psnr", "psnr_of_mean", "epochs", "commit")


def reconstruction_curves(folder: Path) -> dict[str, Curve]:
    """Psnr/1 and so on, dB, and psnr_of_mean/1, after round 1, when the encoder is frozen; empty before an attack.

    Raises:
        ConfigError: the file is not what launch.reconstruct writes.
    """
    with written_rows(folder / FILE) as rows:
        return {
            f"{name}/{int(row['task'])}": ((1, float(row[name])),) for row in rows for name in ("psnr", "psnr_of_mean")
        }


def epochs_of(folder: Path) -> int | None:
    """For how long the decoder of a run's reconstructions was trained; None if there are none."""
    with written_rows(folder / FILE) as rows:
        return next((int(row["epochs"]) for row in rows), None)
