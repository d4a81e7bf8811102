"""Seconds that a whole run takes as users start it, compile time apart, and where they go.

    python benchmarks/whole_run.py --device cuda --lanes 50          the CIFAR-10 workload, on random pixels
    python benchmarks/whole_run.py --device cuda --lanes 50 --precision tf32      with any other options of fl_ddp.main
    python benchmarks/whole_run.py --smoke                           a few rounds of few clients: does it run?

All 1,500 rounds, in a process of their own that writes all its files. The first round, which compiles, counts apart.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from gpu_use import CONFIG
from rounds import write_data
from written import write_results

from fl_ddp.results.metrics import is_of_phase


def numbers_of(rows: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Of a run's metrics.csv: what the rounds behind the first took, and of that each phase."""
    wall, behind = [float(row["time_wall"]) for row in rows], rows[1:]
    seconds = wall[-1] - wall[0]
    phases = {name: sum(float(row[name]) for row in behind) for name in rows[0] if is_of_phase(name)}
    told = {"rounds": len(behind), "seconds": seconds, "milliseconds_a_round": 1e3 * seconds / len(behind)}
    return {**told, **{f"{name.removeprefix('time_')}_seconds": each for name, each in phases.items()}}


def measure(folder: Path, options: Sequence[str]) -> dict[str, float | str]:
    """Run, and tell what it took, with the seconds of its process and the bits that it ends with."""
    given = [f"--config={CONFIG}", f"--data={folder / 'pixels.npz'}", *options, f"--out={folder}", "--name=run"]
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "fl_ddp.main", *given], check=True, stdout=subprocess.DEVNULL)
    process = time.perf_counter() - began
    with (folder / "run" / "metrics.csv").open(newline="") as file:
        numbers = numbers_of(list(csv.DictReader(file)))
    bits = json.loads((folder / "run" / "summary.json").read_text())["parameters_sha256"]
    return {**numbers, "process_seconds": process, "parameters_sha256": bits}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--smoke", action="store_true", help="a few rounds of few clients: does it run?")
    parser.add_argument("--results", type=Path, help="JSON file for the results")
    options, of_run = parser.parse_known_args()
    samples, shape = (50_000, 10_000), (3, 32, 32)
    if options.smoke:
        samples, shape = (400, 40), (1, 8, 8)
        of_run += ["--model=MLP", "--clients=20", "--cohort=4", "--rounds=4", "--eval_every=2", "--compile=false"]
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name) / "pixels.npz", shape, *samples)
        numbers = measure(Path(name), of_run)
    print(*(f"{key.replace('_', ' '):28} {value}" for key, value in numbers.items()), sep="\n")
    if options.results:
        write_results(options.results, {"options": of_run, **numbers})


if __name__ == "__main__":
    main()
