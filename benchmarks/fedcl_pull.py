"""How much FedCL's penalty can move: what part of a coordinate's way one client's round of it would take back.

    python benchmarks/fedcl_pull.py --row mnist_alpha1/fedcl --rounds 5 --data_root data
    python benchmarks/fedcl_pull.py --row mnist_alpha1/fedcl --rounds 5 --data_root data --small

Runs a row of a FedCL table without the penalty, so that all readings of Omega see the same models, and reads Omega as
it was measured in the last round. T steps along the penalty's gradient 2 lam Omega (theta - theta_t), without any
other, leave (1 - 2 lr lam Omega)^T of a distance; the pull is the rest: 0 where the penalty does nothing, 1 where it
holds. Momentum makes it larger by a factor of 1 / (1 - momentum), while it is small.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import get_args

import numpy as np
from safetensors.numpy import load_file
from written import write_results

from fl_ddp import simulate
from fl_ddp.config.settings import Choice
from fl_ddp.importance.fedcl_omega import Reading
from launch.tables.seeded_row import seeded_rows
from launch.tables.yaml_file import load_table

SEED = 0


def measure(reading: str, row_name: str, options: argparse.Namespace) -> dict[str, float]:
    """Omega and the pull of a reading, over all coordinates."""
    (row,) = load_table("fedcl/figure1").choose([row_name])
    extra = [f"--data.root={options.data_root}", f"--rounds={options.rounds}", "--personalise=cohort"]
    (seeded,) = seeded_rows([row], [SEED], small=options.small, out=Path("runs"), extra=extra)
    config = seeded.trial.config
    chosen = {"lam": 0.0, "every": 1, "omega": reading}
    with tempfile.TemporaryDirectory() as folder:
        config = config.with_changes(method=Choice(config.method.class_path, chosen), out=folder, name="run")
        simulate(config)
        run = Path(folder) / "run"
        checkpoint = run / "checkpoints" / f"round_{options.rounds:06d}"
        omega = load_file(checkpoint / "server.safetensors")["omega"].astype(np.float64)
        sizes = [len(each) for each in json.loads((run / "partition.json").read_text())["clients"]]
    assert config.epochs is not None
    steps = config.epochs * sum(math.ceil(size / config.batch_size) for size in sizes) / len(sizes)
    step = 2 * config.lr_in_round(options.rounds - 1) * options.lam * omega
    pull = 1 - np.clip(1 - step, 0, None) ** steps
    return {
        "steps": steps,
        "lr": config.lr_in_round(options.rounds - 1),
        "omega_mean": float(omega.mean()),
        "omega_max": float(np.max(omega)),
        "pull_mean": float(pull.mean()),
        "pull_p99": float(np.quantile(pull, 0.99)),
        "largest_step": float(step.max()),
    }


def main() -> None:
    """Measure the readings that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", default="mnist_alpha1/fedcl", help="row of fedcl/figure1")
    parser.add_argument("--small", action="store_true", help="its twin")
    parser.add_argument("--readings", nargs="+", default=get_args(Reading), choices=get_args(Reading))
    parser.add_argument("--lam", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data_root", default="data")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    found = {}
    for reading in options.readings:
        found[reading] = measure(reading, options.row, options)
        print(reading, json.dumps(found[reading]), flush=True)
    if options.out:
        asked = {"row": options.row, "small": options.small, "seeds": [SEED], "lam": options.lam}
        write_results(options.out, {**asked, "readings": found})


if __name__ == "__main__":
    main()
