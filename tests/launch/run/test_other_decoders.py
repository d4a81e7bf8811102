"""launch.results: PSNRs that decoders trained for different epochs have found."""

from __future__ import annotations

from pathlib import Path

from showing import Showing
from written_runs import Written

from launch.run.reconstruction_curves import COLUMNS, FILE


def attacked(seed: int, epochs: int | None) -> None:
    folder = Written({"seed": seed}, [0.5]).at(Path("runs", f"row-seed{seed}"))
    if epochs:
        (folder / FILE).write_text(f"{','.join(COLUMNS)}\n1,20.0,10.0,{epochs},abc\n")


def told(out: str) -> list[str]:
    return [line for line in out.splitlines() if "decoders" in line]


def test_decoders_that_were_trained_otherwise_are_told_where_their_psnrs_are_shown(show: Showing) -> None:
    asked = ("runs", "--metric", "final", "--metric", "final of psnr/1")
    for seed, epochs in enumerate((20, 20, None)):
        attacked(seed, epochs)
    assert told(show(*asked)[1]) == []
    attacked(3, 5)
    what = "PSNRs are by decoders trained for different epochs: 1 run (row-seed3) for 5; 2 runs (row-seed0 and others)"
    assert told(show(*asked)[1]) == [f"{what} for 20"]
    assert told(show("runs")[1]) == []
