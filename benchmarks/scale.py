"""What a round of a federation costs on 1 to 1,024 GPUs beside its training, without any of them.

    python benchmarks/scale.py
    python benchmarks/scale.py --ranks 8 64 --cohort 50

Padding, collectives with their bytes, and waits of the host are those of whole rounds of rank 0, which has the longest
hand: its process group is torch's fake one, in which sums come back as they are, and its device a pretended one
(tests/support/pretend_device.py). Seconds are predicted by the constants of MODEL, which no measurement has confirmed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np
import torch.distributed as dist  # noqa: TID251
from torch import Tensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from written import write_results

from fl_ddp.ranks.cohort import auto_lanes, group_cost
from fl_ddp.ranks.collectives import Ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from on_device import played
from pretend_device import DEVICE, on_host

RANKS = tuple(2**k for k in range(11))
COHORT, STEPS, HIDDEN = 1024, 20, 200
MODEL = {
    "lane_seconds": 1.2e-6,  # of a client's local step among many: 60 us for 10 lanes with what a group costs
    "node": 8,  # GPUs that NVLink joins
    "node_bytes_a_second": 300e9,
    "wire_bytes_a_second": 50e9,  # of a GPU's own network card, 400 Gbit/s
    "hop_seconds": 10e-6,  # of each of log2(ranks) hops of a collective
    "wait_seconds": 10e-6,  # of the host for a value
}
"""Assumptions on H200s: what is predicted rests on these."""

Numbers = dict[str, float]


@dataclass(frozen=True)
class Counting(Ranks):
    """Rank 0 of many, in a process group that only pretends to add; counts what would be on the wire."""

    sent: tuple[list[int], ...] = ([],)

    def add(self, buffer: Tensor) -> Tensor:
        """As it comes."""
        super().add(on_host(buffer))
        self.sent[0].append(buffer.nbytes)
        return buffer

    def add_common(self, buffer: Tensor, mark: Sequence[int]) -> tuple[Tensor, bool]:
        """What the others have is not there, so nothing differs."""
        return super().add_common(buffer, mark)[0], True


def measure(size: int, cohort: int, folder: Path) -> Numbers:
    """One number of ranks."""
    store = FakeStore()
    dist.init_process_group("fake", store=store, rank=0, world_size=size)
    try:
        given = settings(cohort, folder)
        lanes = int(str(given["lanes"]))
        sent, marks = list[int](), list[int]()
        ranks = Counting(0, size, DEVICE, None, (sent,))
        run = played(given, ranks=ranks, between=lambda: marks.append(len(sent)))
    finally:
        dist.destroy_process_group()
    groups = ceil(ceil(cohort / size) / lanes)
    parameters = run.server["theta"].numel()
    of_round = sent[marks[1] : marks[2]]  # the second one, which is not evaluated
    calls, wire = len(of_round), sum(of_round)
    training = groups * STEPS * (lanes + group_cost(parameters)) * MODEL["lane_seconds"]
    speed = MODEL["node_bytes_a_second"] if size <= MODEL["node"] else MODEL["wire_bytes_a_second"]
    ring = 2 * (size - 1) / size
    sums = (wire * ring / speed + calls * log2(size) * MODEL["hop_seconds"]) if size > 1 else 0.0
    waits = run.rounds[1].waits
    total = training + sums + waits * MODEL["wait_seconds"]
    return {
        "ranks": size, "lanes": lanes, "groups": groups, "parameters": parameters,
        "padding": float(run.records[1].padded_lanes or 0.0), "collectives": calls, "megabytes": wire / 1e6,
        "waits": waits, "training_seconds": training, "sum_seconds": sums, "predicted_seconds": total,
    }  # fmt: skip


def settings(cohort: int, folder: Path) -> dict[str, object]:
    """A run whose lanes are those of GPUs; steps add no byte and no wait, so that one is enough."""
    given: dict[str, object] = {
        "data": str(folder / "data.npz"), "partition": "IID", "partition.alpha": None, "clients": cohort,
        "cohort": cohort, "model": "MLP", "model.hidden": HIDDEN, "local_steps": 1, "batch_size": 2, "local_test": 0.0,
        "forgetting_every": 0, "rounds": 3, "eval_every": 3, "checkpoint_every": 3, "momentum": 0.0,
    }  # fmt: skip
    parameters = 784 * HIDDEN + HIDDEN + (HIDDEN + 1) * 10
    return given | {"lanes": auto_lanes(cohort, "cuda", parameters)}


def table(all_numbers: Sequence[Numbers]) -> str:
    """Results as text."""
    lines = [
        f"{'ranks':>6}{'lanes':>7}{'groups':>8}{'padded':>8}{'sums':>6}{'MB a rank':>11}{'waits':>7}{'training ms':>13}"
        f"{'sums ms':>9}{'predicted ms':>14}{'efficiency':>12}"
    ]
    first = all_numbers[0]["predicted_seconds"] * all_numbers[0]["ranks"]
    for n in all_numbers:
        lines.append(
            f"{n['ranks']:6.0f}{n['lanes']:7.0f}{n['groups']:8.0f}{n['padding']:8.1%}{n['collectives']:6.0f}"
            f"{n['megabytes']:11.2f}{n['waits']:7.0f}{1e3 * n['training_seconds']:13.2f}{1e3 * n['sum_seconds']:9.2f}"
            f"{1e3 * n['predicted_seconds']:14.2f}{first / n['ranks'] / n['predicted_seconds']:12.0%}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", nargs="+", type=int, default=list(RANKS))
    parser.add_argument("--cohort", type=int, default=COHORT, help="clients a round, all of the run")
    parser.add_argument("--smoke", action="store_true", help="two numbers of ranks and few clients: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    if options.smoke:
        options.ranks, options.cohort = [1, 16], 40
    with tempfile.TemporaryDirectory() as name:
        folder, images = Path(name), options.cohort * 2
        pixels = np.random.default_rng(0).integers(0, 256, (images, 1, 28, 28), np.uint8)
        labels = np.arange(images) % 10
        np.savez(folder / "data.npz", x_train=pixels, y_train=labels, x_test=pixels[:20], y_test=labels[:20])
        numbers = [measure(size, options.cohort, folder) for size in options.ranks]
    print(table(numbers))
    print("predicted by", ", ".join(f"{name} {value:g}" for name, value in MODEL.items()))
    if options.out:
        results = {"cohort": options.cohort, "steps": STEPS, "model": MODEL}
        write_results(options.out, results | {"ranks": {f"{n['ranks']:.0f}": n for n in numbers}})


if __name__ == "__main__":
    main()
