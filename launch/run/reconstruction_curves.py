"""What a run's reconstruction.csv tells: how well its clients' images can be reconstructed from what they send."""

from __future__ import annotations

from pathlib import Path

from launch.numbers.metric import Curve
from launch.run.written_rows import written_rows

FILE, PICTURES = "reconstruction.csv", "reconstruction.safetensors"
COLUMNS = ("task", "psnr", "psnr_of_mean", "round", "epochs")


def reconstruction_curves(folder: Path) -> dict[str, Curve]:
    """Psnr/1 and so on, dB, and psnr_of_mean/1, after the round in which the run was attacked; empty before.

    Raises:
        ConfigError: the file is not what launch.reconstruct writes.
    """
    with written_rows(folder / FILE) as rows:
        return {
            f"{name}/{int(row['task'])}": ((int(row["round"]), float(row[name])),)
            for row in rows
            for name in ("psnr", "psnr_of_mean")
        }


def epochs_of(folder: Path) -> int | None:
    """For how long the decoder of a run's reconstructions was trained; None if there are none."""
    with written_rows(folder / FILE) as rows:
        return int(rows[0]["epochs"]) if rows else None
